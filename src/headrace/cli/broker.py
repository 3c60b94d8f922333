"""`headrace broker` and `headrace controller`: one node in the foreground.

Parsed by argparse, not typer, and importing nothing before it must: the time from start to
the first answered request is measured. `register` only lets `headrace --help` list them.
"""

import argparse
from typing import TYPE_CHECKING

from headrace.cli.settings import parse_settings

if TYPE_CHECKING:
    import typer

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_CONTROLLER_LISTEN = "127.0.0.1:9093"

BROKER, CONTROLLER = "broker", "controller"

DESCRIPTIONS = {
    BROKER: "Run one broker in the foreground until SIGTERM or Ctrl-C.",
    CONTROLLER: "Run one controller in the foreground until SIGTERM or Ctrl-C.",
}

EXAMPLES = {
    BROKER: """\
examples:
  headrace broker --data ./broker-data
  headrace broker --data ./broker-data --listen 127.0.0.1:19092 --set log.retention.hours=24
  headrace broker --data /var/lib/headrace --config broker.toml
  headrace broker --data ./broker-data --listen 0.0.0.0:9092 --insecure
  headrace broker --data ./b1 --set process.roles=broker --set cluster.id=ID \\
    --set controller.quorum.bootstrap.servers=127.0.0.1:9093

A broker is its own controller unless process.roles says otherwise.
`headrace config list` documents every key of --set and --config.
""",
    CONTROLLER: """\
examples:
  headrace storage format --data ./c1 --node-id 101 --cluster-id ID --roles controller --standalone
  headrace controller --data ./c1 --node-id 101
  headrace controller --data ./c1 --node-id 101 --listen 127.0.0.1:19093 --set cluster.id=ID \\
    --set controller.quorum.bootstrap.servers=127.0.0.1:19093

`headrace config list` documents every key of --set and --config.
""",
}


def build_parser(role: str = BROKER) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"headrace {role}",
        description=DESCRIPTIONS[role],
        epilog=EXAMPLES[role],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data", "-d", metavar="DIR", required=True, help="where the log is; made if missing")
    add(
        "--listen",
        metavar="HOST:PORT",
        default=None,
        help="address to serve on; port 0 takes a free one (default "
        f"{DEFAULT_LISTEN if role == BROKER else DEFAULT_CONTROLLER_LISTEN}, "
        "or `listeners` of the configuration)",
    )
    if role == BROKER:
        add(
            "--controller-listen",
            metavar="HOST:PORT",
            help="address of this node's controller for other nodes and tools (default: none)",
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


def run_node(role: str, arguments: list[str]) -> int:
    options = build_parser(role).parse_args(arguments)
    settings = parse_settings(options.settings)
    listen, controller_listen = options.listen, None
    if role == CONTROLLER:
        settings["process.roles"] = CONTROLLER
        controller_listen = listen
        if listen is None and options.config is None and "listeners" not in settings:
            controller_listen = DEFAULT_CONTROLLER_LISTEN
        listen = None
    else:
        controller_listen = options.controller_listen
        if controller_listen is not None and listen is None:
            listen = DEFAULT_LISTEN
    from headrace.node.server import run

    return run(
        data=options.data,
        listen=listen,
        controller_listen=controller_listen,
        config_file=options.config,
        settings=settings,
        insecure=options.insecure,
        node_id=options.node_id,
        metrics_listen=options.metrics_listen,
    )


def register(app: "typer.Typer") -> None:
    def broker() -> None:
        raise SystemExit(run_node(BROKER, ["--help"]))

    def controller() -> None:
        raise SystemExit(run_node(CONTROLLER, ["--help"]))

    app.command(BROKER, help=DESCRIPTIONS[BROKER], add_help_option=False)(broker)
    app.command(CONTROLLER, help=DESCRIPTIONS[CONTROLLER], add_help_option=False)(controller)
