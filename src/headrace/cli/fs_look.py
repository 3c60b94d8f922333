"""`headrace fs ls|stat|du|find|test`: what is there."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from stat import S_ISVTX
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import Data, Json
from headrace.cli.fs_failures import told_each
from headrace.cli.fs_options import Fs, PathArgument, Paths, Recursive, resolved
from headrace.cli.fs_paths import expand, expand_one, listed, status_of, tree
from headrace.cli.fs_target import open_files
from headrace.cli.output import print_json, print_table

if TYPE_CHECKING:
    import hdfs_native

_LongData = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="The local cluster's directory (here without -d)."),
]
_AGE = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Kind(StrEnum):
    FILE = "f"
    DIRECTORY = "d"


def add_to(commands: typer.Typer) -> None:
    commands.command("ls")(ls)
    commands.command("stat")(stat)
    commands.command("du")(du)
    commands.command("count", hidden=True)(du)
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
        "accessed": _time(status.access_time),
    }


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def mode_text(status: "hdfs_native.FileStatus") -> str:
    bits = "".join(
        letter if status.permission & (0o400 >> index) else "-"
        for index, letter in enumerate("rwxrwxrwx")
    )
    if status.permission & S_ISVTX:
        bits = bits[:-1] + ("t" if bits[-1] == "x" else "T")
    return ("d" if status.isdir else "-") + bits


def ls(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH…", help="Paths, or patterns in quotes. Default: /", callback=resolved
        ),
    ] = None,
    recursive: Recursive = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List directories.

    \b
    Examples:
      headrace fs ls /
      headrace fs ls '/events/*.parquet'
      headrace fs ls -r /events --json | jq -r '.[].path'
    """
    with told_each() as failures, open_files(fs, data) as client:
        found = list(listed(client, paths or ["/"], recursive=recursive, failures=failures))
        if found or not failures:
            _print(found, as_json=as_json)


def _print(found: "Iterable[hdfs_native.FileStatus]", *, as_json: bool) -> None:
    if as_json:
        print_json([describe(status) for status in found])
        return
    print_table(
        ["mode", "replicas", "owner", "group", "length", "modified", "path"],
        [
            [
                mode_text(status),
                status.replication or "-",
                status.owner,
                status.group,
                status.length,
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
        print_table(["what", "value"], list(described.items()))


def du(paths: Paths, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Count files, bytes and the space they take with all replicas.

    \b
    Examples:
      headrace fs du /events /backup
      headrace fs du '/events/*' --json
      headrace fs count /events         the same, by its other name
    """
    with told_each() as failures, open_files(fs, data) as client:
        found = []
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
            _print_du(found, as_json=as_json)


def _print_du(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_table(
            ["length", "space", "files", "directories", "path"],
            [
                [one["length"], one["space"], one["files"], one["directories"], one["path"]]
                for one in found
            ],
        )


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
    fs: Fs = None,
    data: _LongData = None,
) -> None:
    """Answer scripts: exit 0 if all that is asked holds, 1 if not.

    \b
    Examples:
      headrace fs test -e /events/_SUCCESS && echo done
      headrace fs test -f -z /logs/a.txt
    """
    if not (exists or file or directory or empty):
        raise UsageError("what is asked? Give -e, -f, -d or -z")
    with open_files(fs, data) as client:
        status = status_of(client, path)
    if (
        status is None
        or (file and status.isdir)
        or (directory and not status.isdir)
        or (empty and (status.isdir or status.length > 0))
    ):
        raise typer.Exit(1)
