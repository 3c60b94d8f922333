"""`headrace fs ls|stat|du|find|test`: what is there."""

import posixpath
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from stat import S_ISVTX
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.base.sizes import size_text
from headrace.cli.app import Json
from headrace.cli.fs_failures import told_each
from headrace.cli.fs_options import Data, Fs, Human, PathArgument, Paths, Recursive, resolved
from headrace.cli.fs_paths import absolute, expand, expand_one, listed, status_of, tree
from headrace.cli.fs_target import open_files, open_namenode
from headrace.cli.output import print_json, print_table, say
from headrace.client.namenode import NameNodeClient
from headrace.client.refusals import NO_SUCH_FILE

if TYPE_CHECKING:
    import hdfs_native

_UNKNOWN = 3
_LONG_HELP = {"help_option_names": ["--help"]}
"""Of commands to which -h is about sizes."""
_AGE = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Kind(StrEnum):
    FILE = "f"
    DIRECTORY = "d"


def add_to(commands: typer.Typer) -> None:
    commands.command("ls", context_settings=_LONG_HELP)(ls)
    commands.command("stat")(stat)
    commands.command("du", context_settings=_LONG_HELP)(du)
    commands.command("count", hidden=True, context_settings=_LONG_HELP)(du)
    commands.command("find")(find)
    commands.command("test")(holds)


def describe(status: "hdfs_native.FileStatus") -> dict[str, Any]:
    return {
        "path": status.path,
        "type": "directory" if status.isdir else "file",
        "length": status.length,
        "permission": f"{status.permission:o}",
        "owner": status.owner,
        "group": status.group,
        "replication": status.replication or 0,
        "block_size": status.blocksize or 0,
        "modified": _time(status.modification_time),
        "accessed": None if status.isdir else _time(status.access_time),
    }


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def mode_text(status: "hdfs_native.FileStatus", *, has_acl: bool = False) -> str:
    bits = "".join(
        letter if status.permission & (0o400 >> index) else "-"
        for index, letter in enumerate("rwxrwxrwx")
    )
    if status.permission & S_ISVTX:
        bits = bits[:-1] + ("t" if bits[-1] == "x" else "T")
    return ("d" if status.isdir else "-") + bits + ("+" if has_acl else "")


def ls(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH…",
            help="Paths, or patterns in quotes. Default: your home.",
            callback=resolved,
        ),
    ] = None,
    recursive: Recursive = False,
    itself: Annotated[
        bool, typer.Option("--directory", "-d", help="A directory itself, not what is in it.")
    ] = False,
    human: Human = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List directories. Without a PATH that is /user/NAME, where relative paths begin.

    \b
    Examples:
      headrace fs ls
      headrace fs ls /
      headrace fs ls '/events/*.parquet'
      headrace fs ls -r /events --json | jq -r '.[].path'
    """
    with told_each() as failures, open_files(fs, data) as client:
        found: list[hdfs_native.FileStatus] = []
        names = expand(client, paths, failures) if paths else [_home(client)]
        if itself:
            for path in names:
                with failures.of(path):
                    found.append(client.get_file_info(path))
        else:
            found += listed(client, names, recursive=recursive, failures=failures)
        with open_namenode(fs, data) as namenode:
            lists = with_acl(namenode, [status.path for status in found], set(names))
        if not found and failures:
            return
        if as_json:
            print_json([{**describe(status), "acl": status.path in lists} for status in found])
        else:
            _print(found, lists, human=human)


def with_acl(namenode: NameNodeClient, paths: list[str], typed: set[str]) -> set[str]:
    """Those that have an access control list, which hdfs-native does not tell.

    What was typed is asked for by itself, the rest directory by directory.
    """
    found = {path for path in typed.intersection(paths) if namenode.has_acl(path)}
    for folder in {posixpath.dirname(path) for path in paths if path not in typed}:
        found |= {posixpath.join(folder, name) for name in namenode.names_with_acl(folder)}
    return found


def _home(client: "hdfs_native.Client") -> str:
    home = absolute(".")
    if status_of(client, home) is None:
        raise HeadraceError(
            f"{home}: {NO_SUCH_FILE}. It is your home, where paths without a slash begin: "
            f"`headrace fs mkdir {home}` makes it; `headrace fs ls /` shows what there is"
        )
    return home


def _print(found: "Iterable[hdfs_native.FileStatus]", lists: set[str], *, human: bool) -> None:
    print_table(
        ["mode", "replicas", "owner", "group", "length", "modified", "path"],
        [
            [
                mode_text(status, has_acl=status.path in lists),
                status.replication or "-",
                status.owner,
                status.group,
                size_text(status.length) if human else status.length,
                _time(status.modification_time),
                status.path,
            ]
            for status in found
        ],
    )


def stat(path: PathArgument, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Tell all about one file or directory.

    \b
    Examples:
      headrace fs stat /events/part-0.parquet
      headrace fs stat /events --json | jq .owner
    """
    with open_files(fs, data) as client:
        described = describe(client.get_file_info(expand_one(client, path)))
    if as_json:
        print_json(described)
    else:
        print_table(["what", "value"], [[k, "-" if v is None else v] for k, v in described.items()])


def du(
    paths: Paths,
    human: Human = False,
    _sums: Annotated[
        bool, typer.Option("--summarize", "-s", help="One line for each PATH, as without it.")
    ] = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Count files, bytes and the space they take with all replicas.

    \b
    Examples:
      headrace fs du /events /backup
      headrace fs du -h '/events/*'
      headrace fs count /events         the same, by its other name
    """
    with told_each() as failures, open_files(fs, data) as client:
        found: list[dict[str, Any]] = []
        for path in expand(client, paths, failures):
            with failures.of(path):
                summary = client.get_content_summary(path)
                found.append(
                    {
                        "path": path,
                        "length": summary.length,
                        "space": summary.space_consumed,
                        "files": summary.file_count,
                        "directories": summary.directory_count,
                    }
                )
        if found or not failures:
            _print_du(found, human=human, as_json=as_json)


def _print_du(found: list[dict[str, Any]], *, human: bool, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if human:
        found = [
            {**one, "length": size_text(one["length"]), "space": size_text(one["space"])}
            for one in found
        ]
    columns = ["length", "space", "files", "directories", "path"]
    print_table(columns, [[one[column] for column in columns] for one in found])


def find(
    paths: Paths,
    name: Annotated[
        str | None, typer.Option("--name", "-name", metavar="PATTERN", help="Of the last name.")
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option("--type", "-type", help="f: files, d: directories.")
    ] = None,
    newer: Annotated[
        str | None,
        typer.Option("--newer", metavar="TIME", help="Changed since: 30m, 12h, 7d, or 2026-01-31."),
    ] = None,
    older: Annotated[
        str | None, typer.Option("--older", metavar="TIME", help="Not changed since then.")
    ] = None,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Find what is at a path and below it, by name, kind and time; prints paths.

    \b
    Examples:
      headrace fs find /events --name '*.parquet' --type f
      headrace fs find /staging --older 7d --json | jq -r '.[].path'
    """
    since_ms = None if newer is None else time_ms(newer)
    until_ms = None if older is None else time_ms(older)
    with told_each() as failures, open_files(fs, data) as client:
        found = [
            status
            for status in tree(client, paths, recursive=True, failures=failures)
            if (name is None or fnmatchcase(status.path.rstrip("/").rpartition("/")[2], name))
            and (kind is None or status.isdir == (kind is Kind.DIRECTORY))
            and (since_ms is None or status.modification_time >= since_ms)
            and (until_ms is None or status.modification_time < until_ms)
        ]
        found.sort(key=lambda status: status.path)
        if as_json:
            print_json([describe(status) for status in found])
            return
        for status in found:
            print(status.path)


def time_ms(text: str) -> int:
    """So long ago (`90s`, `30m`, `12h`, `7d`), or a date and time as ISO 8601 has it, else UTC."""
    age = _AGE.fullmatch(text)
    try:
        if age is not None:
            then = datetime.now(UTC) - timedelta(seconds=int(age[1]) * _SECONDS[age[2]])
        else:
            then = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time: write how long ago, such as 30m, 12h or 7d, or a date, such as "
            "2026-01-31 or 2026-01-31T12:00:00+01:00"
        ) from None
    return int((then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() * 1000)


def holds(
    path: PathArgument,
    exists: Annotated[bool, typer.Option("--exists", "-e", help="Something is there.")] = False,
    file: Annotated[bool, typer.Option("--file", "-f", help="It is a file.")] = False,
    directory: Annotated[bool, typer.Option("--directory", "-d", help="A directory.")] = False,
    empty: Annotated[bool, typer.Option("--empty", "-z", help="A file without bytes.")] = False,
    bytes_: Annotated[bool, typer.Option("--bytes", "-s", help="A file with some.")] = False,
    readable: Annotated[bool, typer.Option("--readable", "-r", help="You may read it.")] = False,
    writable: Annotated[bool, typer.Option("--writable", "-w", help="You may write it.")] = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Answer scripts: exit 0 if all that is asked holds, 1 if not, 3 if nobody could tell.

    That is so where no NameNode answers or the path may not be looked at; 2 is wrong usage.

    \b
    Examples:
      headrace fs test -e /events/_SUCCESS && echo done
      headrace fs test -f -z /logs/a.txt
    """
    asked = exists or file or directory or empty or bytes_
    if not (asked or readable or writable):
        raise UsageError("what is asked? Give -e, -f, -d, -z, -s, -r or -w")
    try:
        with open_files(fs, data) as client, open_namenode(fs, data, path) as namenode:
            allowed = namenode.may(path, read=readable, write=writable)
            status = status_of(client, path) if asked and allowed else None
    except UsageError:
        raise
    except HeadraceError as error:
        say(f"headrace: {error}")
        raise typer.Exit(_UNKNOWN) from None
    if not allowed or (asked and status is None):
        raise typer.Exit(1)
    if status is not None and (
        (file and status.isdir)
        or (directory and not status.isdir)
        or (empty and (status.isdir or status.length > 0))
        or (bytes_ and (status.isdir or status.length == 0))
    ):
        raise typer.Exit(1)
