"""`headrace fs getfacl|setfacl`: access control lists, in the words of `hdfs dfs`.

    [default:]user|group|mask|other:[NAME]:rwx     user:anna:r-x   group::r--   default:other::---

An empty name is the owner's or the owning group's. Entries that are to go have no `rwx`.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import Json
from headrace.cli.fs_failures import told_each
from headrace.cli.fs_options import Data, Fs, Paths
from headrace.cli.fs_paths import tree
from headrace.cli.fs_target import open_files
from headrace.cli.output import print_json, progress

if TYPE_CHECKING:
    import hdfs_native

_ENTRY = re.compile(
    r"(?P<default>default:)?(?P<type>user|group|mask|other|u|g|m|o):(?P<name>[^:]*)"
    r"(?::(?P<rights>[r-][w-][x-]))?"
)
_TYPES = {"u": "user", "g": "group", "m": "mask", "o": "other"}
_RIGHTS = ("---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx")

Walk = Annotated[bool, typer.Option("--recursive", "-R", "-r", help="All below it too.")]


def add_to(commands: typer.Typer) -> None:
    commands.command("getfacl")(getfacl)
    commands.command("setfacl")(setfacl)


def getfacl(
    paths: Paths, recursive: Walk = False, fs: Fs = None, data: Data = None, as_json: Json = False
) -> None:
    """Show who may do what: the owner, the group, others, and whom the list names.

    \b
    Examples:
      headrace fs getfacl /events
      headrace fs getfacl -R /events --json | jq -r '.[].entries[]'
    """
    with told_each() as failures, open_files(fs, data) as client:
        found = []
        for status in tree(client, paths, recursive=recursive, failures=failures):
            with failures.of(status.path):
                found.append(_described(status.path, client.get_acl_status(status.path)))
        if as_json:
            print_json(found)
            return
        for one in found:
            print(f"# file: {one['path']}\n# owner: {one['owner']}\n# group: {one['group']}")
            if one["sticky"]:
                runs = any(re.fullmatch("other::..x", entry) for entry in one["entries"])
                print(f"# flags: --{'t' if runs else 'T'}")
            for entry in one["entries"]:
                print(entry)
            print()


def _described(path: str, status: "hdfs_native.AclStatus") -> dict[str, Any]:
    return {
        "path": path,
        "owner": status.owner,
        "group": status.group,
        "sticky": status.sticky,
        "entries": entries_of(status),
    }


def entries_of(status: "hdfs_native.AclStatus") -> list[str]:
    """All of them, also those that the server leaves to the permission's nine bits.

    Where there is a list, the group's three bits are its mask.
    """
    owner, group, other = (_RIGHTS[status.permission >> shift & 7] for shift in (6, 3, 0))
    access = [entry for entry in status.entries if entry.scope == "access"]
    lines = [f"user::{owner}"]
    lines += [_text(entry) for entry in access if entry.type == "user"]
    if not any(entry.type == "group" and not entry.name for entry in access):
        lines.append(f"group::{group}")
    lines += [_text(entry) for entry in access if entry.type == "group"]
    if access:
        lines.append(f"mask::{group}")
    lines.append(f"other::{other}")
    return lines + [f"default:{_text(each)}" for each in status.entries if each.scope == "default"]


def _text(entry: "hdfs_native.AclEntry") -> str:
    return f"{entry.type}:{entry.name or ''}:{entry.permissions}"


def setfacl(
    paths: Paths,
    modify: Annotated[
        str | None, typer.Option("--modify", "-m", metavar="ENTRY,…", help="Add or change these.")
    ] = None,
    remove: Annotated[
        str | None, typer.Option("--remove", "-x", metavar="ENTRY,…", help="Remove these.")
    ] = None,
    replace: Annotated[
        str | None, typer.Option("--set", metavar="ENTRY,…", help="These, and no others.")
    ] = None,
    remove_all: Annotated[
        bool, typer.Option("--remove-all", "-b", help="Keep the permission's nine bits alone.")
    ] = False,
    remove_default: Annotated[
        bool, typer.Option("--remove-default", "-k", help="Remove the default entries.")
    ] = False,
    recursive: Walk = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Change who may do what. Default entries are a directory's, for what will be made in it.

    \b
    Examples:
      headrace fs setfacl -m user:anna:rwx,default:user:anna:rwx /events
      headrace fs setfacl -R -m group:staff:r-x /events
      headrace fs setfacl -x user:anna /events
      headrace fs setfacl --set user::rw-,user:anna:r--,group::r--,other::--- /events/a
      headrace fs setfacl -b /events
    """
    asked = (modify is not None) + (remove is not None) + (replace is not None)
    if asked + remove_all + remove_default != 1:
        raise UsageError("give one of -m, -x, --set, -b and -k")
    entries = parse_entries(modify or remove or replace or "", with_rights=remove is None)
    if asked and not entries:
        raise UsageError("no entry is given; one is such as user:anna:r-x")
    with told_each() as failures, open_files(fs, data) as client, progress("setfacl") as bar:
        change: Callable[[str, list[Any]], None]
        if modify is not None:
            change = client.modify_acl_entries
        elif remove is not None:
            change = client.remove_acl_entries
        else:
            change = client.set_acl
        for status in list(tree(client, paths, recursive=recursive, failures=failures)):
            with failures.of(status.path):
                if remove_all:
                    client.remove_acl(status.path)
                elif remove_default:
                    client.remove_default_acl(status.path)
                else:
                    # As Hadoop's: with -R files get what is not default.
                    fitting = [
                        each
                        for each in entries
                        if status.isdir or each.scope == "access" or not recursive
                    ]
                    if fitting:
                        change(status.path, fitting)
            bar.advance()


def parse_entries(text: str, *, with_rights: bool) -> "list[hdfs_native.AclEntry]":
    import hdfs_native

    found = []
    for word in filter(None, text.split(",")):
        entry = _ENTRY.fullmatch(word)
        if entry is None or (entry["rights"] is None) == with_rights:
            form = "user:anna:r-x" if with_rights else "user:anna"
            raise UsageError(f"{word!r} is no entry: write it as {form} or default:{form}")
        rights: Any = entry["rights"] or "---"
        kind: Any = _TYPES.get(entry["type"], entry["type"])
        scope: Any = "default" if entry["default"] else "access"
        found.append(hdfs_native.AclEntry(kind, scope, rights, entry["name"] or None))
    return found
