"""The group `fs` and the options that its commands share."""

from typing import Annotated

import typer

from headrace.cli.app import group
from headrace.cli.fs_paths import absolute

commands = group("fs", "Files of an HDFS: look, copy, move, keep up.")

Fs = Annotated[
    str | None,
    typer.Option("--fs", metavar="hdfs://HOST:PORT", help="Default: $HEADRACE_FS."),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DIR", help="The local cluster's directory (see `headrace up`)."
    ),
]
"""Without the `-d` of other groups: to `hdfs dfs` that is about directories."""
PathArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A path in the file system.", callback=lambda v: absolute(v)
    ),
]
Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH…", help="Paths in the file system, or patterns in quotes: '/a/*'."
    ),
]
NewPaths = Annotated[list[str], typer.Argument(metavar="PATH…", help="Paths in the file system.")]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", "-R", help="All below it too.")]
Human = Annotated[bool, typer.Option("--human", "-h", help="Sizes such as 1.2 GiB.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", "-f", help="Replace what exists.")]
