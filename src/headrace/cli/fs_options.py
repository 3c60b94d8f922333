"""The group `fs` and the options that its commands share."""

from typing import Annotated

import typer

from headrace.cli.app import group

commands = group("fs", "Files of an HDFS: look, copy, move, keep up.")

Fs = Annotated[
    str | None,
    typer.Option("--fs", metavar="hdfs://HOST:PORT", help="Default: $HEADRACE_FS."),
]
PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="A path in the file system.")]
Paths = Annotated[list[str], typer.Argument(metavar="PATH…", help="Paths in the file system.")]
