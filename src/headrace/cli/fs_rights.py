"""`headrace fs chmod|chown|setrep|xattr`: what a file has beside its name and bytes."""

import re
import time
from typing import Annotated

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.app import Json
from headrace.cli.file_modes import file_mode
from headrace.cli.fs_failures import told_each
from headrace.cli.fs_options import Data, Fs, PathArgument, Paths, Recursive
from headrace.cli.fs_paths import expand_one, tree
from headrace.cli.fs_target import open_files, open_namenode
from headrace.cli.output import print_json, print_table, progress, say
from headrace.client.namenode import NameNodeClient
from headrace.client.refusals import NO_SUCH_FILE

_POLL_S = 0.5
_NAME = re.compile(r"[-_./@a-zA-Z0-9]+")
"""As Hadoop's chown takes them."""


def add_to(commands: typer.Typer) -> None:
    commands.command("chmod")(chmod)
    commands.command("chown")(chown)
    commands.command("setrep")(setrep)
    commands.command("xattr")(xattr)


def chmod(
    mode: Annotated[
        str, typer.Argument(metavar="MODE", help="Octal, such as 640, or u+x,go-w and the like.")
    ],
    paths: Paths,
    recursive: Recursive = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Set permissions.

    \b
    Examples:
      headrace fs chmod 640 /events/part-0.parquet
      headrace fs chmod -R go-w,a+rX /events
      headrace fs chmod 1777 /scratch
    """
    wanted = file_mode(mode)
    with told_each() as failures, open_files(fs, data) as client, progress("chmod") as bar:
        for status in list(tree(client, paths, recursive=recursive, failures=failures)):
            permission = wanted.of(status.permission, is_directory=status.isdir)
            with failures.of(status.path):
                if permission != status.permission:
                    client.set_permission(status.path, permission)
            bar.advance()


def chown(
    owner: Annotated[str, typer.Argument(metavar="USER[:GROUP]", help="Or :GROUP alone.")],
    paths: Paths,
    recursive: Recursive = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Set the owner, the group, or both.

    \b
    Examples:
      headrace fs chown anna /events
      headrace fs chown -R anna:staff /events /backup
      headrace fs chown :staff /events
    """
    user, colon, group = owner.partition(":")
    if not user and not group:
        raise UsageError(f"{owner!r} names nobody: give USER, USER:GROUP or :GROUP")
    if colon and not group:
        raise UsageError(f"{owner!r} names no group: give {user}, or {user}:GROUP")
    for name in filter(None, (user, group)):
        if _NAME.fullmatch(name) is None:
            raise UsageError(
                f"{name!r} is no name: it may have letters, digits and any of - _ . / @"
            )
    with told_each() as failures, open_files(fs, data) as client, progress("chown") as bar:
        for status in list(tree(client, paths, recursive=recursive, failures=failures)):
            with failures.of(status.path):
                client.set_owner(status.path, user or None, group or None)
            bar.advance()


def setrep(
    count: Annotated[int, typer.Argument(metavar="COUNT", min=1, help="Replicas.")],
    paths: Paths,
    recursive: Recursive = False,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Until all blocks have so many.")
    ] = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Set how many replicas the blocks of files have; with -r of all files below directories.

    \b
    Examples:
      headrace fs setrep 2 /backup/logs.tar
      headrace fs setrep -r 2 /backup
      headrace fs setrep -w 3 /backup/logs.tar
    """
    changed = []
    with told_each() as failures, open_files(fs, data) as client, progress("setrep") as bar:
        for status in list(tree(client, paths, recursive=recursive, failures=failures)):
            with failures.of(status.path):
                if status.isdir and not recursive:
                    raise UsageError(
                        f"{status.path}: is a directory; say -r for all files below it"
                    )
                if not status.isdir and not client.set_replication(status.path, count):
                    raise HeadraceError(f"{status.path}: {NO_SUCH_FILE}")
                if not status.isdir:
                    changed.append(status.path)
            bar.advance()
    if wait:
        with open_namenode(fs, data) as namenode, progress("files done", len(changed)) as bar:
            for path in changed:
                _await_replicas(namenode, path, count)
                bar.advance()


def _await_replicas(namenode: NameNodeClient, path: str, count: int) -> None:
    """Neither fewer nor more. Ctrl-C ends the waiting, not the copying."""
    said = False
    while any(len(block.locs) != count for block in namenode.block_locations(path).blocks):
        live = len(namenode.datanodes("LIVE"))
        if live < count:
            raise HeadraceError(
                f"{path}: will not have {count} replicas: {live} DataNodes live; "
                "`headrace fs report` tells which"
            )
        if not said:
            say(f"waiting for {path}")
            said = True
        time.sleep(_POLL_S)


def xattr(
    path: PathArgument,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Such as user.origin.")] = None,
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="To set it.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it.")] = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show, set or remove extended attributes.

    \b
    Examples:
      headrace fs xattr /events user.origin sensors
      headrace fs xattr /events
      headrace fs xattr /events user.origin --remove
    """
    if remove and (name is None or value is not None):
        raise UsageError("--remove wants the attribute's NAME, and no value")
    with open_files(fs, data) as client, open_namenode(fs, data, path) as namenode:
        path = client.get_file_info(expand_one(client, path)).path
        if remove and name:
            namenode.remove_xattr(path, name)
            return
        if name and value is not None:
            namenode.set_xattr(path, name, value.encode())
            return
        found = {
            key: text.decode("utf-8", "backslashreplace")
            for key, text in namenode.xattrs(path).items()
            if name in (None, key)
        }
        if name and not found:
            raise HeadraceError(f"{path}: has no attribute {name}")
    if as_json:
        print_json(found)
    else:
        print_table(["name", "value"], list(found.items()))
