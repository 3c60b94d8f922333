"""`headrace fs cat|head|tail|append|truncate|concat|checksum`: the bytes of files.

hdfs-native moves them, but for those of a block that is still being written (`client.open_end`).
"""

import errno
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.app import Json
from headrace.cli.fs_failures import Failures, told_each
from headrace.cli.fs_options import Data, Fs, PathArgument, Paths, resolved
from headrace.cli.fs_paths import expand, expand_one
from headrace.cli.fs_target import open_files, open_namenode
from headrace.cli.output import print_json, progress, say
from headrace.client.namenode import NameNodeClient
from headrace.client.open_end import open_end

if TYPE_CHECKING:
    import hdfs_native

CHUNK_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 1024
_CUT_WAIT_S = 120.0
_POLL_S = 0.2
_FOLLOW_S = 1.0
STILL_OPEN = (
    "it is being written, and has no checksum before it is closed; `headrace fs open-files` tells "
    "by whom"
)

ByteCount = Annotated[int, typer.Option("--bytes", "-c", min=1, help="How many.")]


def add_to(commands: typer.Typer) -> None:
    for name, command in (
        ("cat", cat),
        ("head", head),
        ("tail", tail),
        ("append", append),
        ("truncate", truncate),
        ("concat", concat),
        ("checksum", checksum),
    ):
        commands.command(name)(command)


def read_chunks(
    client: "hdfs_native.Client",
    namenode: NameNodeClient,
    name: str,
    start: int = 0,
    bytes_at_once: int = CHUNK_BYTES,
    *,
    tells_nothing: bool = True,
) -> Iterator[bytes]:
    """All that is visible from `start` on. A file that is being written is read to where its writer
    was seen to be."""
    end = open_end(namenode, name)
    with client.read(name) as file:
        left = (file.size if end is None else end.start) - start
        file.seek(min(start, file.size))
        while left > 0 and (chunk := bytes(file.read(min(left, bytes_at_once)))):
            left -= len(chunk)
            yield chunk
    if end is None:
        return
    is_empty = True
    for chunk in end.read(max(start, end.start)):
        is_empty = False
        yield chunk
    if is_empty and end.start == 0 and tells_nothing:
        say(f"{name}: is being written, and nothing of it is visible yet")


def cat(paths: Paths, fs: Fs = None, data: Data = None) -> None:
    """Print files.

    \b
    Examples:
      headrace fs cat /logs/a.txt /logs/b.txt
      headrace fs cat '/logs/*.txt'
      headrace fs cat /backup/logs.tar | tar t
    """
    with (
        told_each() as failures,
        open_files(fs, data) as client,
        open_namenode(fs, data) as namenode,
    ):
        print_files(client, namenode, expand(client, paths, failures), failures)


def print_files(
    client: "hdfs_native.Client",
    namenode: NameNodeClient,
    names: Iterable[str],
    failures: Failures,
) -> None:
    for name in names:
        with failures.of(name):
            for chunk in read_chunks(client, namenode, name):
                out().write(chunk)
            out().flush()


def head(
    path: PathArgument, count: ByteCount = _TAIL_BYTES, fs: Fs = None, data: Data = None
) -> None:
    """Print the first bytes of a file.

    \b
    Examples:
      headrace fs head /logs/a.txt
      headrace fs head -c 100 /logs/a.txt
    """
    with open_files(fs, data) as client, open_namenode(fs, data) as namenode:
        left = count
        for chunk in read_chunks(client, namenode, expand_one(client, path), bytes_at_once=count):
            out().write(chunk[:left])
            left -= len(chunk)
            if left <= 0:
                break
    out().flush()


def tail(
    path: PathArgument,
    count: ByteCount = _TAIL_BYTES,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="And what comes, until Ctrl-C.")
    ] = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Print the last bytes of a file.

    \b
    Examples:
      headrace fs tail /logs/a.txt
      headrace fs tail -c 100 /logs/a.txt
      headrace fs tail -f /logs/a.txt
    """
    with open_files(fs, data) as client, open_namenode(fs, data) as namenode:
        name = expand_one(client, path)
        status = client.get_file_info(name)
        if status.isdir:
            raise HeadraceError(f"{name}: is a directory")
        # What is being written may be longer than the NameNode knows, and may be shorter.
        end = open_end(namenode, name)
        start = max(0, (status.length if end is None else end.start) - count)
        last = b""
        for chunk in read_chunks(client, namenode, name, start):
            start += len(chunk)
            last = (last + chunk)[-count:]
        out().write(last)
        out().flush()
        while follow:
            time.sleep(_FOLLOW_S)
            start += _write_from(client, namenode, name, start)


def _write_from(
    client: "hdfs_native.Client", namenode: NameNodeClient, name: str, start: int
) -> int:
    """How many bytes were there."""
    count = 0
    try:
        for chunk in read_chunks(client, namenode, name, start, tells_nothing=False):
            out().write(chunk)
            count += len(chunk)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Between two blocks, and while a DataNode is replaced, nobody may tell for a moment.
        if error.errno != errno.EBUSY:
            raise
    out().flush()
    return count


@contextmanager
def closed_when_whole(sink: Any) -> Iterator[Any]:
    """As `with sink`, but what failed before the close is what is told."""
    yield sink
    sink.close()


def out() -> BinaryIO:
    return sys.stdout.buffer


def append(
    path: PathArgument,
    source: Annotated[str, typer.Argument(metavar="FILE", help="Local; - is stdin.")] = "-",
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Append a local file or stdin to a file.

    \b
    Examples:
      headrace fs append /logs/a.txt more.txt
      date | headrace fs append /logs/a.txt
    """
    if source != "-" and not Path(source).is_file():
        raise UsageError(f"there is no file {source}")
    total = None if source == "-" else Path(source).stat().st_size
    with (
        open_files(fs, data) as client,
        sys.stdin.buffer if source == "-" else Path(source).open("rb") as local,
        closed_when_whole(client.append(path)) as sink,
        progress("append", total) as bar,
    ):
        while chunk := local.read(CHUNK_BYTES):
            sink.write(chunk)
            bar.advance(len(chunk))


def truncate(
    length: Annotated[int, typer.Argument(metavar="LENGTH", min=0, help="Bytes to keep.")],
    path: PathArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is cut.")] = True,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Cut a file.

    Its last block is cut by the DataNodes, which may take some seconds: until then readers see the
    old bytes, and nobody can append.

    \b
    Examples:
      headrace fs truncate 1000 /logs/a.txt
      headrace fs truncate --no-wait 1000 /logs/a.txt
    """
    with open_namenode(fs, data, path) as namenode:
        if namenode.truncate(path, length):
            return
        say(f"{path}: its last block is being cut")
        if wait:
            _await_cut(namenode, path)


def _await_cut(namenode: NameNodeClient, path: str) -> None:
    deadline = time.monotonic() + _CUT_WAIT_S
    while not namenode.is_closed(path):
        if time.monotonic() >= deadline:
            raise HeadraceError(
                f"{path}: its last block is not cut yet after {_CUT_WAIT_S:.0f} s; that goes on by "
                "itself once DataNodes that have it are up (`headrace fs report`)"
            )
        time.sleep(_POLL_S)


def concat(
    target: PathArgument,
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE…", help="They go away.", callback=resolved)
    ],
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Move the blocks of other files of the same directory to the end of TARGET.

    \b
    Examples:
      headrace fs concat /logs/all /logs/a /logs/b
    """
    with open_files(fs, data) as client, open_namenode(fs, data, target) as namenode:
        namenode.concat(target, expand(client, sources))


def checksum(paths: Paths, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Tell HDFS's checksum of files, computed by the DataNodes.

    \b
    Examples:
      headrace fs checksum /events/part-0.parquet
      headrace fs checksum /a /b --json | jq -r '.[].checksum'
    """
    from headrace.client.file_checksum import FileIsOpen, file_checksum

    with (
        told_each() as failures,
        open_files(fs, data) as client,
        open_namenode(fs, data) as namenode,
    ):
        found = {}
        for path in expand(client, paths, failures):
            with failures.of(path):
                try:
                    found[path] = file_checksum(namenode, path)
                except FileIsOpen:
                    raise HeadraceError(f"{path}: {STILL_OPEN}") from None
        if as_json:
            print_json(
                [
                    {"path": path, "algorithm": one.algorithm, "checksum": one.value.hex()}
                    for path, one in found.items()
                ]
            )
            return
        for path, one in found.items():
            print(f"{path}\t{one}")
