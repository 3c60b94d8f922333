"""`headrace datanode`: one DataNode in the foreground.

Parsed by argparse, as `headrace broker`: a start is measured. `register` only lets
`headrace --help` list it.
"""

import argparse
from typing import TYPE_CHECKING

from headrace.cli.settings import parse_settings

if TYPE_CHECKING:
    import typer

DESCRIPTION = "Run one DataNode in the foreground until SIGTERM or Ctrl-C."

EXAMPLES = """\
examples:
  headrace datanode --data ./dn1 --namenode 127.0.0.1:8020
  headrace datanode --data ./dn2 --namenode 127.0.0.1:8020 --listen 127.0.0.1:0 \\
      --ipc-listen 127.0.0.1:0 --http-listen 127.0.0.1:0
  headrace datanode --data ./dn1 --namenode 127.0.0.1:8020 \\
      --set dfs.datanode.data.dir=/disk1/hdfs,/disk2/hdfs
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace datanode",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data", "-d", metavar="DIR", required=True, help="where blocks are; made if missing")
    add("--namenode", metavar="HOST:PORT", required=True, help="the NameNode's RPC address")
    add("--listen", metavar="HOST:PORT", help="address of block transfers; port 0 takes a free one")
    add("--ipc-listen", metavar="HOST:PORT", help="address of RPC calls")
    add("--http-listen", metavar="HOST:PORT", help="address of WebHDFS, /metrics and /health")
    add("--config", metavar="FILE", help="configuration, TOML with quoted keys or .properties")
    add(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        dest="settings",
        help="a configuration key; may be repeated",
    )
    add("--insecure", action="store_true", help="allow listeners beyond loopback")
    return parser


def run_datanode(arguments: list[str]) -> int:
    options = build_parser().parse_args(arguments)
    settings = parse_settings(options.settings)
    from headrace.node.datanode import run

    return run(
        data=options.data,
        namenode=options.namenode,
        listen=options.listen,
        ipc_listen=options.ipc_listen,
        http_listen=options.http_listen,
        config_file=options.config,
        settings=settings,
        insecure=options.insecure,
    )


def register(app: "typer.Typer") -> None:
    def datanode() -> None:
        raise SystemExit(run_datanode(["--help"]))

    app.command("datanode", help=DESCRIPTION, add_help_option=False)(datanode)
