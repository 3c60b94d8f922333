"""`headrace fs put|get|cat|tail|append|touch|truncate|concat|checksum`: what moves bytes.

hdfs-native moves them; a bar on the terminal shows how far it is.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.app import Data, Json
from headrace.cli.fs_options import Fs, PathArgument, Paths
from headrace.cli.fs_target import open_files, open_namenode
from headrace.cli.output import Progress, print_json, progress, say

if TYPE_CHECKING:
    import hdfs_native

_CHUNK_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 1024
_COPYING = "._COPYING_"
_FOLDER_MODE = 0o755

Overwrite = Annotated[bool, typer.Option("--overwrite", "-f", help="Replace what exists.")]


def add_to(commands: typer.Typer) -> None:
    for name, command in (
        ("put", put),
        ("get", get),
        ("cat", cat),
        ("tail", tail),
        ("append", append),
        ("touch", touch),
        ("truncate", truncate),
        ("concat", concat),
        ("checksum", checksum),
    ):
        commands.command(name)(command)


def put(
    sources: Annotated[list[str], typer.Argument(metavar="FILE…", help="Local; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="File or directory.")],
    overwrite: Overwrite = False,
    replication: Annotated[int | None, typer.Option(help="Replicas of the blocks.")] = None,
    block_size: Annotated[int | None, typer.Option(help="Bytes of a block.")] = None,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Copy local files (and folders) into the file system.

    \b
    Examples:
      headrace fs put events.parquet /events/
      tar c logs | headrace fs put - /backup/logs.tar
    """
    import hdfs_native

    options = hdfs_native.WriteOptions(
        overwrite=True, replication=replication, block_size=block_size
    )
    with open_files(fs, data) as client:
        plan = list(_put_plan(client, sources, target))
        made: set[str] = set()
        total = sum(path.stat().st_size for path, _ in plan if path is not None)
        with progress("put", total) as bar:
            for path, name in plan:
                if not overwrite and _exists(client, name):
                    raise HeadraceError(f"{name} already exists; say --overwrite to replace it")
                # Parents that a create makes by itself have the rights of the one above them.
                folder = name.rpartition("/")[0]
                if folder and folder not in made:
                    client.mkdirs(folder, _FOLDER_MODE, True)
                    made.add(folder)
                _put_one(client, path, name, options, bar)
                client.rename(name + _COPYING, name, overwrite)


def _put_plan(
    client: "hdfs_native.Client", sources: list[str], target: str
) -> Iterator[tuple[Path | None, str]]:
    """(local file, its name there); None is stdin."""
    into = target.endswith("/") or len(sources) > 1 or _is_directory(client, target)
    for source in sources:
        if source == "-":
            if into:
                raise UsageError("stdin needs the name of a file as its target")
            yield None, target
            continue
        path = Path(source)
        if not path.exists():
            raise UsageError(f"there is no {source}")
        base = f"{target.rstrip('/')}/{path.name}" if into else target
        if path.is_dir():
            for below in sorted(path.rglob("*")):
                if below.is_file():
                    yield below, f"{base}/{below.relative_to(path).as_posix()}"
        else:
            yield path, base


def _is_directory(client: "hdfs_native.Client", path: str) -> bool:
    try:
        return bool(client.get_file_info(path).isdir)
    except FileNotFoundError:
        return False


def _put_one(
    client: "hdfs_native.Client", path: Path | None, name: str, options: Any, bar: Progress
) -> None:
    with (
        sys.stdin.buffer if path is None else path.open("rb") as source,
        _created_aside(client, name, options) as sink,
    ):
        while chunk := source.read(_CHUNK_BYTES):
            sink.write(chunk)
            bar.advance(len(chunk))


@contextlib.contextmanager
def _created_aside(client: "hdfs_native.Client", name: str, options: Any) -> Iterator[Any]:
    """Written aside and renamed, as `hdfs dfs -put` does: a broken copy never has the file's name,
    and what it was to replace is still there."""
    aside = name + _COPYING
    try:
        with client.create(aside, options) as sink:
            yield sink
    except BaseException:
        with contextlib.suppress(Exception):
            client.delete(aside, False)
        raise


def _exists(client: "hdfs_native.Client", name: str) -> bool:
    try:
        client.get_file_info(name)
    except FileNotFoundError:
        return False
    return True


def get(
    source: PathArgument,
    target: Annotated[str, typer.Argument(metavar="FILE", help="Local file or folder.")] = ".",
    overwrite: Overwrite = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Copy a file (or a directory) out of the file system.

    \b
    Examples:
      headrace fs get /events/part-0.parquet
      headrace fs get /events local-copy --overwrite
    """
    with open_files(fs, data) as client:
        plan = list(_get_plan(client, source, Path(target)))
        with progress("get", sum(length for _, _, length in plan)) as bar:
            for name, path, _ in plan:
                if path.exists() and not overwrite:
                    raise HeadraceError(f"{path} exists; say --overwrite to replace it")
                path.parent.mkdir(parents=True, exist_ok=True)
                # Written aside and renamed: a broken copy never has the file's name.
                part = path.with_name(path.name + ".part")
                with part.open("wb") as sink:
                    for chunk in read_chunks(client, name):
                        sink.write(chunk)
                        bar.advance(len(chunk))
                os.replace(part, path)


def _get_plan(
    client: "hdfs_native.Client", source: str, target: Path
) -> Iterator[tuple[str, Path, int]]:
    status = client.get_file_info(source)
    name = source.rstrip("/").rpartition("/")[2] or "root"
    base = target / name if target.is_dir() else target
    if not status.isdir:
        yield source, base, status.length
        return
    prefix = source.rstrip("/") + "/"
    for below in client.list_status(source, True):
        if not below.isdir:
            yield below.path, base / below.path[len(prefix) :], below.length


def read_chunks(client: "hdfs_native.Client", name: str) -> Iterator[bytes]:
    with client.read(name) as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield bytes(chunk)


def cat(paths: Paths, fs: Fs = None, data: Data = None) -> None:
    """Print files.

    \b
    Examples:
      headrace fs cat /logs/a.txt /logs/b.txt
      headrace fs cat /backup/logs.tar | tar t
    """
    with open_files(fs, data) as client:
        for path in paths:
            for chunk in read_chunks(client, path):
                _out().write(chunk)
    _out().flush()


def tail(
    path: PathArgument,
    count: Annotated[int, typer.Option("--bytes", "-c", min=1, help="How many.")] = _TAIL_BYTES,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Print the last bytes of a file.

    \b
    Examples:
      headrace fs tail /logs/a.txt
      headrace fs tail -c 100 /logs/a.txt
    """
    with open_files(fs, data) as client:
        length = client.get_file_info(path).length
        start = max(0, length - count)
        if length:
            with client.read(path) as file:
                _out().write(bytes(file.read_range(start, length - start)))
    _out().flush()


def _out() -> BinaryIO:
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
        client.append(path) as sink,
        progress("append", total) as bar,
    ):
        while chunk := local.read(_CHUNK_BYTES):
            sink.write(chunk)
            bar.advance(len(chunk))


def touch(paths: Paths, fs: Fs = None, data: Data = None) -> None:
    """Make empty files; what exists gets the present as its time.

    \b
    Examples:
      headrace fs touch /events/_SUCCESS
    """
    import time

    now_ms = int(time.time() * 1000)
    with open_files(fs, data) as client:
        for path in paths:
            try:
                client.get_file_info(path)
            except FileNotFoundError:
                client.create(path).close()
            else:
                client.set_times(path, now_ms, now_ms)


def truncate(
    length: Annotated[int, typer.Argument(metavar="LENGTH", min=0, help="Bytes to keep.")],
    path: PathArgument,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Cut a file.

    \b
    Examples:
      headrace fs truncate 1000 /logs/a.txt
    """
    with open_namenode(fs, data) as namenode:
        if not namenode.truncate(path, length):
            say("the last block is being cut; the file opens again in a moment")


def concat(
    target: PathArgument,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="They go away.")],
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Move the blocks of other files of the same directory to the end of TARGET.

    \b
    Examples:
      headrace fs concat /logs/all /logs/a /logs/b
    """
    with open_namenode(fs, data) as namenode:
        namenode.concat(target, sources)


def checksum(paths: Paths, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Tell HDFS's checksum of files, computed by the DataNodes.

    \b
    Examples:
      headrace fs checksum /events/part-0.parquet
      headrace fs checksum /a /b --json | jq -r '.[].checksum'
    """
    from headrace.client.file_checksum import file_checksum

    with open_namenode(fs, data) as namenode:
        found = {path: file_checksum(namenode, path) for path in paths}
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
