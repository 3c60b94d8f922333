"""`headrace fs`: files and directories of an HDFS, ours or Apache's.

Owns: the commands that change names. `fs_look` tells what is there, `fs_rights` and `fs_acl` who
may do what, `fs_copy` and `fs_data` move bytes, `fs_admin` and `fs_nodes` are about the cluster.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli import fs_acl, fs_admin, fs_copy, fs_data, fs_look, fs_nodes, fs_rights
from headrace.cli.app import Json
from headrace.cli.file_modes import octal_mode
from headrace.cli.fs_failures import told_each
from headrace.cli.fs_options import (
    Data,
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
from headrace.client.refusals import NOT_A_DIRECTORY
from headrace.client.trash import Trash

if TYPE_CHECKING:
    import hdfs_native

__all__ = ["commands", "register"]


def register(app: typer.Typer) -> None:
    fs_look.add_to(commands)
    for command in (mkdir, rmdir, touch, mv, rm, expunge):
        commands.command(command.__name__)(command)
    commands.command("touchz", hidden=True)(touch)
    for part in (fs_copy, fs_data, fs_rights, fs_acl, fs_admin, fs_nodes):
        part.add_to(commands)
    app.add_typer(commands)


def mkdir(
    paths: NewPaths,
    mode: Annotated[str, typer.Option("--mode", "-m", help="Permission, octal.")] = "755",
    _parents: Annotated[
        bool, typer.Option("--parents", "-p", help="Those above are made without it too.")
    ] = False,
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


def rmdir(paths: Paths, fs: Fs = None, data: Data = None) -> None:
    """Delete directories that are empty.

    \b
    Examples:
      headrace fs rmdir /events/raw
      headrace fs rmdir '/staging/*'
    """
    with told_each() as failures, open_files(fs, data) as client:
        for path in expand(client, paths, failures):
            with failures.of(path):
                if not client.get_file_info(path).isdir:
                    raise HeadraceError(f"{path}: {NOT_A_DIRECTORY}")
                if not client.delete(path, False):
                    raise HeadraceError(f"the NameNode does not delete {path}")


def touch(paths: NewPaths, fs: Fs = None, data: Data = None) -> None:
    """Make empty files; what exists gets the present as its time.

    Directories that are missing above them are made.

    \b
    Examples:
      headrace fs touch /events/_SUCCESS
      headrace fs touchz /events/_SUCCESS         the same, by its other name
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
    overwrite: Annotated[bool, typer.Option("--overwrite", "-f", help="Replace a file.")] = False,
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
    force: Annotated[
        bool, typer.Option("--force", "-f", help="What is not there is fine.")
    ] = False,
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
      headrace fs rm -f '/events/*.tmp'
      headrace fs rm -r --skip-trash /events/old
      headrace fs mv /user/anna/.Trash/Current/events/part-0.parquet /events
    """
    with (
        told_each() as failures,
        open_files(fs, data) as client,
        open_namenode(fs, data) as namenode,
    ):
        trash = None if skip_trash else Trash(namenode, trash_interval)
        for path in _there(client, paths) if force else expand(client, paths, failures):
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


def _there(client: "hdfs_native.Client", paths: list[str]) -> list[str]:
    """What the paths stand for, without what is not there."""
    found: dict[str, None] = {}
    for path in paths:
        try:
            names = expand(client, [path])
        except HeadraceError:  # nothing matches
            continue
        found |= dict.fromkeys(name for name in names if status_of(client, name) is not None)
    return list(found)


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
