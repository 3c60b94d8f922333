"""`headrace fs`: files and directories of an HDFS, ours or Apache's.

Owns: the commands that change names. `fs_look` tells what is there, `fs_rights` and `fs_acl` who
may do what, `fs_copy` and `fs_data` move bytes, `fs_admin` and `fs_nodes` are about the cluster.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli import fs_acl, fs_admin, fs_copy, fs_data, fs_look, fs_nodes, fs_rights
from headrace.cli.app import Data, Json
from headrace.cli.file_modes import octal_mode
from headrace.cli.fs_failures import told_each
from headrace.cli.fs_options import (
    Fs,
    NewPaths,
    Paths,
    Recursive,
    Sources,
    commands,
    resolved_target,
)
from headrace.cli.fs_paths import expand, inside, is_directory, status_of
from headrace.cli.fs_target import open_files, open_namenode
from headrace.cli.output import print_json, say
from headrace.client.trash import Trash

if TYPE_CHECKING:
    import hdfs_native

__all__ = ["commands", "register"]


def register(app: typer.Typer) -> None:
    fs_look.add_to(commands)
    for command in (mkdir, touch, mv, rm, expunge):
        commands.command(command.__name__)(command)
    for part in (fs_copy, fs_data, fs_rights, fs_acl, fs_admin, fs_nodes):
        part.add_to(commands)
    app.add_typer(commands)


def mkdir(
    paths: NewPaths,
    mode: Annotated[str, typer.Option("--mode", "-m", help="Permission, octal.")] = "755",
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Make directories, and those above them.

    \b
    Examples:
      headrace fs mkdir /events/raw
      headrace fs mkdir --mode 1777 /scratch
    """
    permission = octal_mode(mode)
    with told_each() as failures, open_files(fs, data) as client:
        for path in paths:
            with failures.of(path):
                client.mkdirs(path, permission, True)


def touch(paths: NewPaths, fs: Fs = None, data: Data = None) -> None:
    """Make empty files; what exists gets the present as its time.

    Directories that are missing above them are made.

    \b
    Examples:
      headrace fs touch /events/_SUCCESS
    """
    now_ms = int(time.time() * 1000)
    with told_each() as failures, open_files(fs, data) as client:
        for path in paths:
            with failures.of(path):
                if status_of(client, path) is None:
                    client.create(path).close()
                else:
                    client.set_times(path, now_ms, now_ms)


def mv(
    sources: Sources,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Its new name, or a directory.", callback=resolved_target
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file.")] = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Rename, each in one step that nobody sees half done; into TARGET if that is a directory.

    \b
    Examples:
      headrace fs mv /staging/day-1 /events/day-1
      headrace fs mv '/staging/*.parquet' /events
      headrace fs mv --overwrite /new.json /current.json
    """
    with told_each() as failures, open_files(fs, data) as client:
        found = expand(client, sources, failures)
        into = is_directory(client, target)
        if not into and (len(sources) > 1 or len(found) > 1):
            raise HeadraceError(f"{target}: not a directory; `headrace fs mkdir` makes one")
        for source in found:
            with failures.of(source):
                _rename(client, source, inside(target, source) if into else target, overwrite)


def _rename(client: "hdfs_native.Client", source: str, name: str, overwrite: bool) -> None:
    try:
        client.rename(source, name, overwrite)
    except FileExistsError:
        raise HeadraceError(f"{name}: already exists; say --overwrite to replace a file") from None


TrashInterval = Annotated[
    int,
    typer.Option(
        "--trash-interval",
        metavar="MINUTES",
        min=0,
        help="How long trash is kept, where the NameNode does not say (fs.trash.interval).",
    ),
]


def rm(
    paths: Paths,
    recursive: Recursive = False,
    skip_trash: Annotated[bool, typer.Option("--skip-trash", help="Delete for good.")] = False,
    trash_interval: TrashInterval = 0,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Delete files, with -r directories and all below them.

    Where the NameNode keeps trash (fs.trash.interval), they are moved to
    /user/NAME/.Trash/Current and stay there for that long; what is in the trash is deleted.

    \b
    Examples:
      headrace fs rm /events/part-0.parquet
      headrace fs rm '/events/*.tmp'
      headrace fs rm -r --skip-trash /events/old
      headrace fs mv /user/anna/.Trash/Current/events/part-0.parquet /events
    """
    with (
        told_each() as failures,
        open_files(fs, data) as client,
        open_namenode(fs, data) as namenode,
    ):
        trash = None if skip_trash else Trash(namenode, trash_interval)
        for path in expand(client, paths, failures):
            with failures.of(path):
                _remove(client, trash, path, recursive=recursive)


def _remove(
    client: "hdfs_native.Client", trash: Trash | None, path: str, *, recursive: bool
) -> None:
    if client.get_file_info(path).isdir and not recursive:
        raise UsageError(f"{path}: is a directory; say -r to delete it and all below it")
    where = None if trash is None else trash.move(path)
    if where is not None:
        say(f"moved {path} to the trash: {where}")
        return
    if not client.delete(path, recursive):
        raise HeadraceError(f"the NameNode does not delete {path}")
    say(f"deleted {path}")


def expunge(
    immediate: Annotated[
        bool, typer.Option("--immediate", help="Delete all of it, not only what is old.")
    ] = False,
    trash_interval: TrashInterval = 0,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Empty your trash: what is older than the interval goes, the rest becomes a checkpoint.

    \b
    Examples:
      headrace fs expunge
      headrace fs expunge --immediate
    """
    with open_namenode(fs, data) as namenode:
        deleted, made = Trash(namenode, trash_interval).expunge(immediate=immediate)
    if as_json:
        print_json({"deleted": deleted, "checkpoint": None if immediate else made})
        return
    for path in deleted:
        say(f"deleted {path}")
    if made is not None and not immediate:
        say(f"made the checkpoint {made}")
