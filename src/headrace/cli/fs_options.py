"""The group `fs` and the options that its commands share."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import group
from headrace.cli.fs_paths import absolute, absolute_target, address_of
from headrace.cli.fs_target import fs_url_of

commands = group("fs", "Files of an HDFS: look, copy, move, keep up.")

_NAMED = "headrace.fs named by a path"


def _named(context: typer.Context, path: str) -> None:
    """A URI has to be of the file system that the command talks to, or says which one that is.

    Options that are given come before arguments, those that are not given after them.
    """
    address = address_of(path)
    if address is None:
        return
    named = fs_url_of(address, None)
    fs, data = context.params.get("fs"), context.params.get("data")
    if fs or data:
        talks_to = fs_url_of(fs, data)
    else:
        talks_to = context.meta.setdefault(_NAMED, named)
    if named != talks_to:
        raise UsageError(f"{path}: the command talks to {talks_to}: give a path, and --fs {named}")


def _each(resolve: Callable[[str], str]) -> Callable[[typer.Context, Any], Any]:
    """Of one path or of several. Patterns may be in them."""

    def resolved(context: typer.Context, value: Any) -> Any:
        if value is None or isinstance(value, list):
            return value and [resolved(context, each) for each in value]
        _named(context, value)
        return resolve(value)

    return resolved


resolved = _each(absolute)
"""The callback of arguments that name what is there."""
resolved_target = _each(absolute_target)
"""The callback of arguments that name what may be made."""


def resolved_but_last(context: typer.Context, words: list[str]) -> list[str]:
    """Of several the last one is a name here."""
    there = max(1, len(words) - 1)
    return [*resolved(context, words[:there]), *words[there:]]


def _fs(context: typer.Context, value: str | None) -> str | None:
    return value or context.meta.get(_NAMED)


Fs = Annotated[
    str | None,
    typer.Option("--fs", metavar="hdfs://HOST:PORT", help="Default: $HEADRACE_FS.", callback=_fs),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DIR", help="The local cluster's directory (see `headrace up`)."
    ),
]
"""Without the `-d` of other groups: to `hdfs dfs` that is about directories."""
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="A path in the file system.", callback=resolved)
]
Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH…",
        help="Paths in the file system, or patterns in quotes: '/a/*'.",
        callback=resolved,
    ),
]
NewPaths = Annotated[
    list[str],
    typer.Argument(metavar="PATH…", help="Paths in the file system.", callback=resolved_target),
]
Sources = Annotated[
    list[str],
    typer.Argument(metavar="SOURCE…", help="Paths, or patterns in quotes.", callback=resolved),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", "-R", help="All below it too.")]
Human = Annotated[bool, typer.Option("--human", "-h", help="Sizes such as 1.2 GiB.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", "-f", help="Replace what exists.")]
