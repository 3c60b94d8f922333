"""`headrace namenode`: one NameNode in the foreground.

Parsed by argparse, not typer, and importing nothing before it must: the time from start to
the first answered call is measured. `register` only lets `headrace --help` list it.
"""

import argparse
from typing import TYPE_CHECKING

from headrace.cli.settings import parse_settings

if TYPE_CHECKING:
    import typer

DESCRIPTION = "Run one NameNode in the foreground until SIGTERM or Ctrl-C."

EXAMPLES = """\
examples:
  headrace namenode --data ./name
  headrace namenode --data ./name --listen 127.0.0.1:8020 --http-listen 127.0.0.1:9870
  headrace namenode --data ./name --set dfs.replication=1 --set dfs.blocksize=67108864

Clients: fs.defaultFS = hdfs://127.0.0.1:8020
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace namenode",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--data", "-d", metavar="DIR", required=True, help="where the namespace is; made if missing"
    )
    add(
        "--listen",
        metavar="HOST:PORT",
        help="where clients and DataNodes call; port 0 takes a free one "
        "(default dfs.namenode.rpc-address, 127.0.0.1:8020)",
    )
    add(
        "--http-listen",
        metavar="HOST:PORT",
        help="WebHDFS, /fsck, /jmx, /metrics and /health "
        "(default dfs.namenode.http-address, 127.0.0.1:9870)",
    )
    add("--config", metavar="FILE", help="configuration, TOML with quoted keys or .properties")
    add(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        dest="settings",
        help="a configuration key as HDFS names it; may be repeated",
    )
    add("--insecure", action="store_true", help="allow a listener beyond loopback")
    return parser


def run_namenode(arguments: list[str]) -> int:
    options = build_parser().parse_args(arguments)
    settings = parse_settings(options.settings)
    if options.listen is not None:
        settings["dfs.namenode.rpc-address"] = options.listen
    if options.http_listen is not None:
        settings["dfs.namenode.http-address"] = options.http_listen
    from headrace.node.namenode import run

    return run(
        data=options.data,
        config_file=options.config,
        settings=settings,
        insecure=options.insecure,
    )


def register(app: "typer.Typer") -> None:
    def namenode() -> None:
        raise SystemExit(run_namenode(["--help"]))

    app.command("namenode", help=DESCRIPTION, add_help_option=False)(namenode)
