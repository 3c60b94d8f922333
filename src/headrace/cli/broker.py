"""`headrace broker`: one broker in the foreground.

Parsed by argparse, not typer, and importing nothing before it must: the time from start to
the first answered request is measured. `register` only lets `headrace --help` list it.
"""

import argparse
from typing import TYPE_CHECKING

from headrace.cli.settings import parse_settings

if TYPE_CHECKING:
    import typer

DEFAULT_LISTEN = "127.0.0.1:9092"

DESCRIPTION = "Run one broker in the foreground until SIGTERM or Ctrl-C."

EXAMPLES = """\
examples:
  headrace broker --data ./broker-data
  headrace broker --data ./broker-data --listen 127.0.0.1:19092 --set log.retention.hours=24
  headrace broker --data /var/lib/headrace --config broker.toml
  headrace broker --data ./broker-data --listen 0.0.0.0:9092 --insecure

`headrace config list` documents every key of --set and --config.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace broker",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data", "-d", metavar="DIR", required=True, help="where the log is; made if missing")
    add(
        "--listen",
        metavar="HOST:PORT",
        default=None,
        help=f"address to serve on; port 0 takes a free one (default {DEFAULT_LISTEN}, "
        "or `listeners` of the configuration)",
    )
    add("--config", metavar="FILE", help="configuration, TOML with quoted keys or .properties")
    add(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        dest="settings",
        help="a configuration key; may be repeated",
    )
    add("--node-id", type=int, metavar="N", help="this node's id (default: node.id, else 1)")
    add("--metrics-listen", metavar="HOST:PORT", help="serve /metrics and /health there")
    add("--insecure", action="store_true", help="allow a listener beyond loopback without TLS")
    return parser


def run_broker(arguments: list[str]) -> int:
    options = build_parser().parse_args(arguments)
    settings = parse_settings(options.settings)
    from headrace.node.broker import run

    return run(
        data=options.data,
        listen=options.listen,
        config_file=options.config,
        settings=settings,
        insecure=options.insecure,
        node_id=options.node_id,
        metrics_listen=options.metrics_listen,
    )


def register(app: "typer.Typer") -> None:
    def broker() -> None:
        raise SystemExit(run_broker(["--help"]))

    app.command("broker", help=DESCRIPTION, add_help_option=False)(broker)
