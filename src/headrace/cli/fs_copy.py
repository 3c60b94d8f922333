"""`headrace fs put|get|cp`: files and folders in, out and within.

hdfs-native moves the bytes; a bar on the terminal shows how far it is. A file is written aside and
renamed, as `hdfs dfs` does: a broken copy never has its name, and what it was to replace is still
there.
"""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.base.sizes import size_bytes
from headrace.cli.fs_data import CHUNK_BYTES, closed_when_whole, print_files, read_chunks
from headrace.cli.fs_failures import Failures, told_each
from headrace.cli.fs_local import local_file, local_tree
from headrace.cli.fs_options import (
    Data,
    Fs,
    Overwrite,
    Recursive,
    Sources,
    resolved_but_last,
    resolved_target,
)
from headrace.cli.fs_paths import NO_COLONS, below, expand, inside, is_directory, status_of, tree
from headrace.cli.fs_target import open_files, open_namenode
from headrace.cli.output import Progress, progress
from headrace.client.namenode import NameNodeClient

if TYPE_CHECKING:
    import hdfs_native

_COPYING = "._COPYING_"
"""As Hadoop's names end for what is not whole yet: Spark and others leave them alone."""
_FOLDER_MODE = 0o755


Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="File or directory.", callback=resolved_target),
]


def add_to(commands: typer.Typer) -> None:
    commands.command("put")(put)
    commands.command("get")(get)
    commands.command("cp")(cp)


def put(
    sources: Annotated[list[str], typer.Argument(metavar="FILE…", help="Local; - is stdin.")],
    target: Target,
    overwrite: Overwrite = False,
    replication: Annotated[int | None, typer.Option(help="Replicas of the blocks.")] = None,
    block_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of a block, such as 64m.")
    ] = None,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Copy local files (and folders) into the file system.

    Directories that are missing above TARGET are made. Symbolic links are followed; what is neither
    a file nor a folder, or leads nowhere, is told and left out.

    \b
    Examples:
      headrace fs put events.parquet /events/
      headrace fs put day-1.parquet day-2.parquet hdfs://127.0.0.1:8020/events/
      tar c logs | headrace fs put - /backup/logs.tar
    """
    import hdfs_native

    options = hdfs_native.WriteOptions(
        replication=replication,
        block_size=None if block_size is None else size_bytes(block_size),
    )
    with told_each() as failures, open_files(fs, data) as client:
        plan = _put_plan(client, sources, target, failures)
        total = sum(path.stat().st_size for path, _ in plan if path is not None and path.is_file())
        folders = _Folders(client)
        with progress("put", total) as bar:
            for path, name in plan:
                with failures.of(name):
                    if ":" in name:
                        raise HeadraceError(f"{path}: {NO_COLONS}")
                    if path is not None and path.is_dir():
                        folders.make(name)
                        continue
                    with (
                        sys.stdin.buffer if path is None else path.open("rb") as source,
                        _created(client, folders, name, options, overwrite=overwrite) as sink,
                    ):
                        _copy(source, sink, bar)


def _put_plan(
    client: "hdfs_native.Client", sources: list[str], target: str, failures: Failures
) -> list[tuple[Path | None, str]]:
    """(local file or folder, its name there); None is stdin."""
    plan: list[tuple[Path | None, str]] = []
    into = target.endswith("/") or len(sources) > 1 or is_directory(client, target)
    for source in sources:
        with failures.of(source, is_done=False):
            if source == "-":
                if into:
                    raise UsageError("stdin needs the name of a file as its target")
                plan.append((None, target))
                continue
            path = Path(source)
            if not source or not path.exists():
                raise UsageError(f"there is no {source!r}")
            # A symbolic link's own name; `.` and `..` are none.
            base = inside(target, os.path.abspath(source)) if into else target
            plan.append((path, base))
            if path.is_dir():
                for below_it in local_tree(path, failures):
                    plan.append((below_it, f"{base}/{below_it.relative_to(path).as_posix()}"))
    return plan


class _Folders:
    """Makes each once. Parents that a create makes by itself have the rights of the one above."""

    def __init__(self, client: "hdfs_native.Client") -> None:
        self._client = client
        self._made: set[str] = set()

    def make(self, folder: str) -> None:
        if folder and folder not in self._made:
            self._client.mkdirs(folder, _FOLDER_MODE, True)
            self._made.add(folder)


@contextlib.contextmanager
def _created(
    client: "hdfs_native.Client", folders: _Folders, name: str, options: Any, *, overwrite: bool
) -> Iterator[Any]:
    """A file that has its name when it is whole."""
    there = status_of(client, name)
    if there is not None and there.isdir:
        raise HeadraceError(f"{name}: is a directory, and a file can't take its place")
    if there is not None and not overwrite:
        raise HeadraceError(f"{name}: already exists; say --overwrite to replace it")
    folders.make(name.rpartition("/")[0])
    aside = f"{name}.{secrets.token_hex(8)}{_COPYING}"
    try:
        with closed_when_whole(client.create(aside, options)) as sink:
            yield sink
        client.rename(aside, name, overwrite)
    except BaseException as error:
        with contextlib.suppress(Exception):
            client.delete(aside, False)
        if isinstance(error, OSError) and aside in f"{error.filename} {error.strerror}":
            # Nobody has asked for that name.
            words = (error.strerror or "").replace(aside, name)
            raise OSError(error.errno, words, name) from None
        raise


def _copy(source: Any, sink: Any, bar: Progress) -> None:
    while chunk := source.read(CHUNK_BYTES):
        sink.write(chunk)
        bar.advance(len(chunk))


# -- out ----------------------------------------------------------------------------------


def get(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH… [FILE]",
            help="Paths, or patterns in quotes; then a local file or folder (- is stdout), "
            "without which it is the folder you are in.",
            callback=resolved_but_last,
        ),
    ],
    overwrite: Overwrite = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Copy files (and directories) out of the file system.

    \b
    Examples:
      headrace fs get /events/part-0.parquet
      headrace fs get /events local-copy --overwrite
      headrace fs get '/events/*.parquet' local-folder
      headrace fs get /logs/a.txt /logs/b.txt .
      headrace fs get /backup/logs.tar - | tar t
    """
    sources, target = (words[:-1], words[-1]) if len(words) > 1 else (words, ".")
    if not target:
        raise UsageError("an empty FILE names nothing: `.` is the folder you are in")
    with (
        told_each() as failures,
        open_files(fs, data) as client,
        open_namenode(fs, data) as namenode,
    ):
        names = expand(client, sources, failures)
        if target == "-":
            print_files(client, namenode, names, failures)
            return
        if (len(sources) > 1 or len(names) > 1) and not Path(target).is_dir():
            raise UsageError(f"{target}: is no folder to put {_several(sources, names)} in")
        plan = [each for name in names for each in _get_plan(client, name, Path(target), failures)]
        with progress("get", sum(length or 0 for _, _, length in plan)) as bar:
            for name, path, length in plan:
                with failures.of(name):
                    if length is None:
                        path.mkdir(parents=True, exist_ok=True)
                    else:
                        _get_one(client, namenode, name, path, bar, overwrite=overwrite)


def _several(sources: list[str], names: list[str]) -> str:
    if len(sources) > 1:
        return "several paths"
    return f"the {len(names)} paths that match {sources[0]}"


def _get_one(
    client: "hdfs_native.Client",
    namenode: NameNodeClient,
    name: str,
    path: Path,
    bar: Progress,
    *,
    overwrite: bool,
) -> None:
    if path.is_dir():
        raise HeadraceError(f"{path}: is a directory, and a file can't take its place")
    if path.exists() and not overwrite:
        raise HeadraceError(f"{path}: already exists; say --overwrite to replace it")
    if path.exists() and not path.is_file():
        raise HeadraceError(f"{path}: is a device or a pipe, and a file can't take its place")
    path.parent.mkdir(parents=True, exist_ok=True)
    with local_file(path) as sink:
        for chunk in read_chunks(client, namenode, name):
            sink.write(chunk)
            bar.advance(len(chunk))


def _get_plan(
    client: "hdfs_native.Client", source: str, target: Path, failures: Failures
) -> list[tuple[str, Path, int | None]]:
    """(name there, local name, length); a directory has none."""
    name = source.rpartition("/")[2] or "root"
    base = target / name if target.is_dir() else target
    plan: list[tuple[str, Path, int | None]] = []
    prefix = source.rstrip("/") + "/"
    for found in tree(client, [source], recursive=True, failures=failures):
        path = base / found.path[len(prefix) :] if plan else base
        plan.append((found.path, path, None if found.isdir else found.length))
    return plan


# -- within -------------------------------------------------------------------------------


def cp(
    sources: Sources,
    target: Target,
    recursive: Recursive = False,
    overwrite: Overwrite = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Copy files within the file system, with -r directories and all below them.

    Directories that are missing above TARGET are made.

    \b
    Examples:
      headrace fs cp /events/part-0.parquet /backup/
      headrace fs cp -r /events /backup/events-today
      headrace fs cp '/events/*.parquet' /backup
    """
    import hdfs_native

    options = hdfs_native.WriteOptions()
    with (
        told_each() as failures,
        open_files(fs, data) as client,
        open_namenode(fs, data) as namenode,
    ):
        plan = _cp_plan(client, sources, target, failures, recursive=recursive)
        folders = _Folders(client)
        with progress("cp", sum(length or 0 for _, _, length in plan)) as bar:
            for source, name, length in plan:
                with failures.of(source):
                    if length is None:
                        folders.make(name)
                        continue
                    with _created(client, folders, name, options, overwrite=overwrite) as sink:
                        for chunk in read_chunks(client, namenode, source):
                            sink.write(chunk)
                            bar.advance(len(chunk))


def _cp_plan(
    client: "hdfs_native.Client",
    patterns: list[str],
    target: str,
    failures: Failures,
    *,
    recursive: bool,
) -> list[tuple[str, str, int | None]]:
    """(name, name of the copy, length); a directory has none."""
    sources = expand(client, patterns, failures)
    into = is_directory(client, target)
    if not into and (len(patterns) > 1 or len(sources) > 1 or target.endswith("/")):
        raise HeadraceError(f"{target}: not a directory; `headrace fs mkdir` makes one")
    plan: list[tuple[str, str, int | None]] = []
    for source in sources:
        with failures.of(source, is_done=False):
            status = client.get_file_info(source)
            name = inside(target, source) if into else target
            if status.isdir and not recursive:
                raise UsageError(f"{source}: is a directory; say -r to copy it and all below it")
            if f"{name}/".startswith(f"{source.rstrip('/')}/"):
                raise UsageError(f"{source}: can't be copied to {name}, which is it or below it")
            plan.append((source, name, None if status.isdir else status.length))
            if status.isdir:
                prefix = source.rstrip("/") + "/"
                for found in below(client, source, failures):
                    copy = f"{name}/{found.path[len(prefix) :]}"
                    plan.append((found.path, copy, None if found.isdir else found.length))
    return plan
