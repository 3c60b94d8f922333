"""The typer application that command groups register in, and the options they share.

Owns: how help looks, `--version`, and the spelling of options that mean the same in every
command. Must not know: any command.
"""

from typing import Annotated

import typer

BootstrapServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT,…",
        help="Brokers to ask first. Default: $HEADRACE_BOOTSTRAP_SERVERS.",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data", "-d", metavar="DIR", help="The local cluster's directory (see `headrace up`)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A configuration key; may be repeated."),
]

DESCRIPTION = """\
An event log that speaks the Kafka protocol, and a file system that speaks HDFS's.

\b
Examples:
  headrace up                              both on this machine, until Ctrl-C
  headrace topic create events -p 3        a topic
  echo hello | headrace produce events     a record
  headrace consume events --json           and back
  headrace fs put FILE /tmp/               a file
  headrace fs ls /tmp                      and there it is

`headrace COMMAND --help` has examples for each command.
"""


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="headrace",
        help=DESCRIPTION,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    return app


def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and leave.",
            is_eager=True,
            callback=lambda v: _show_version(v),
        ),
    ] = False,
) -> None:
    pass


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


def group(name: str, help_text: str) -> typer.Typer:
    """A command group such as `topic`, whose commands come below it."""
    return typer.Typer(
        name=name,
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
