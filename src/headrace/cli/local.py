"""`headrace up`, `status`, `down`: the local cluster as people meet it.

Owns: flags, the table of addresses with an example for each kind of client. The supervision itself
is `headrace.node.local`, the way into the background `headrace.cli.detached`.
"""

import contextlib
import os
import signal
import sys
import time
from typing import Annotated, Any

import typer

from headrace.base.errors import HeadraceError
from headrace.cli.app import Json, Settings
from headrace.cli.detached import start_detached
from headrace.cli.output import print_json, print_table, say
from headrace.cli.settings import parse_settings
from headrace.cli.target import DEFAULT_DATA
from headrace.node.local_answers import node_answers
from headrace.node.local_control import command
from headrace.node.local_files import Layout, holder_of, read_json
from headrace.node.local_plan import Options, plan_of
from headrace.node.local_process import stop_leftovers
from headrace.node.local_settings import split_settings

DOWN_TIMEOUT_S = 30.0
_ADDRESSES = ("bootstrap_servers", "controllers", "fs", "web")

ClusterData = Annotated[
    str, typer.Option("--data", "-d", metavar="DIR", help="The cluster's directory.")
]


def register(app: typer.Typer) -> None:
    app.command("up")(up)
    app.command("status")(status)
    app.command("down")(down)


def up(
    data: ClusterData = DEFAULT_DATA,
    brokers: Annotated[int, typer.Option("--brokers", metavar="N", help="How many.")] = 1,
    controllers: Annotated[
        int,
        typer.Option(
            "--controllers",
            metavar="N",
            help="Controllers of their own; 0: the first brokers, three at most, are controllers.",
        ),
    ] = 0,
    datanodes: Annotated[
        int,
        typer.Option(
            "--datanodes",
            metavar="N",
            help="DataNodes of the file system, beside its NameNode; 0: no file system.",
        ),
    ] = 3,
    ports: Annotated[
        int | None,
        typer.Option(
            "--ports",
            metavar="BASE",
            help="Brokers at BASE, BASE+1, …, controllers at BASE+100, …, the NameNode at BASE+200 "
            "(pages BASE+250), DataNodes at BASE+300, BASE+303, …  Default: free ports, kept.",
        ),
    ] = None,
    settings: Settings = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once everything answers; see `down`.")
    ] = False,
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="Leave a node that dies where it is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a local cluster and keep it running until Ctrl-C.

    It has an event log and a file system; every node is a real process. All data, logs and
    addresses are in one directory; the next `up` on it goes on from there. --set reaches every
    node that knows the key.

    \b
    Examples:
      headrace up
      headrace up --data ./cluster --ports 19092
      headrace up --data ./cluster --brokers 3 --controllers 3
      headrace up --data ./cluster --datanodes 0           the event log alone
      headrace up --data ./cluster --set num.partitions=3 --set dfs.blocksize=67108864
      headrace up --data ./cluster --detach && headrace status --data ./cluster
    """
    parsed = parse_settings(settings)
    options = Options(data, brokers, controllers, datanodes, ports, parsed, restart=not no_restart)
    _refuse_early(options)
    if detach:
        pid, described = start_detached(options)
        _show(described, layout := Layout(data), as_json=as_json)
        say(f"running in the background, pid {pid}; `headrace down --data {layout.directory}`")
    else:
        _run_in_foreground(options, as_json=as_json)


def _refuse_early(options: Options) -> None:
    """What is refused leaves nothing behind: a directory without a cluster is not made into one."""
    split_settings(options.settings, with_files=options.datanodes > 0)
    if not Layout(options.directory).ports.exists():
        plan_of(options, {})


def _run_in_foreground(options: Options, *, as_json: bool) -> None:
    from headrace.node.local import Supervisor

    supervisor = Supervisor(options, say)

    def on_ready(described: dict[str, Any]) -> None:
        _show(described, supervisor.layout, as_json=as_json)
        say("Ctrl-C stops it.")

    supervisor.run(on_ready)
    say("stopped; the data stays.")


def _show(described: dict[str, Any], layout: Layout, *, as_json: bool) -> None:
    if as_json:
        print_json({**described, "data": str(layout.directory)})
        sys.stdout.flush()
        return
    columns = ("name", "role", "listen", "metrics", "pid")
    print_table(columns, [[node[column] for column in columns] for node in described["nodes"]])
    print()
    print_table(("client", "try"), _examples(described, layout))
    print()
    for name, value in _addresses(described, layout):
        print(f"{name:<18} {value}")
    sys.stdout.flush()


def _addresses(described: dict[str, Any], layout: Layout) -> list[tuple[str, str]]:
    files = []
    if described["fs"] is not None:
        files = [
            ("file system", f"{described['fs']}, pages and WebHDFS at {described['web']}"),
            ("for Hadoop tools", f"export HADOOP_CONF_DIR={layout.configuration}"),
        ]
    return [
        ("bootstrap servers", f"{described['bootstrap_servers']}"),
        ("controllers", described["controllers"]),
        *files,
        ("for programs", str(layout.cluster)),
        ("logs", str(layout.logs)),
    ]


def _examples(described: dict[str, Any], layout: Layout) -> list[tuple[str, str]]:
    servers = described["bootstrap_servers"]
    python = (
        "from confluent_kafka import Producer; "
        f"p = Producer({{'bootstrap.servers': '{servers}'}}); "
        "p.produce('events', b'hello'); p.flush()"
    )
    java = f"kafka-console-consumer.sh --bootstrap-server {servers} --topic events --from-beginning"
    return [
        ("headrace", f"echo hello | headrace produce events --data {layout.directory}"),
        ("", f"headrace consume events --data {layout.directory}"),
        ("kcat", f"kcat -b {servers} -t events -C -o beginning"),
        ("Java", java),
        ("Python", f'python -c "{python}"'),
        *(_file_examples(described, layout) if described["fs"] is not None else []),
        ("metrics", f"curl http://{described['nodes'][0]['metrics']}/metrics"),
    ]


def _file_examples(described: dict[str, Any], layout: Layout) -> list[tuple[str, str]]:
    url, web = described["fs"], described["web"]
    native = f"import hdfs_native; print(list(hdfs_native.Client('{url}').list_status('/')))"
    pandas = (
        "import pandas, headrace.fs; "
        f"fs = headrace.fs.FileSystem('{url}'); "
        "pandas.DataFrame({'n': [1]}).to_parquet('/n.parquet', filesystem=fs)"
    )
    return [
        ("files", f"headrace fs put FILE /tmp/ --data {layout.directory}"),
        ("hdfs", f"HADOOP_CONF_DIR={layout.configuration} hdfs dfs -ls /"),
        ("hdfs-native", f'python -c "{native}"'),
        ("fsspec", f'python -c "{pandas}"'),
        ("WebHDFS", f"curl '{web}/webhdfs/v1/?op=LISTSTATUS'"),
    ]


def status(data: ClusterData = DEFAULT_DATA, as_json: Json = False) -> None:
    """Show the nodes of a local cluster. Exit code 0 only if all of them answer.

    \b
    Examples:
      headrace status
      headrace status --data ./cluster --json
    """
    layout = Layout(data)
    holder = holder_of(layout)
    nodes: list[dict[str, Any]] = []
    if holder is not None:
        nodes = _nodes_of(layout)
        for node in nodes:
            node["answers"] = node["pid"] is not None and node_answers(node)
    well = bool(nodes) and layout.cluster.exists() and all(node["answers"] for node in nodes)
    if as_json:
        described = read_json(layout.cluster)
        print_json(
            {
                "data": str(layout.directory),
                "up": well,
                "pid": holder,
                **{key: described.get(key) for key in _ADDRESSES},
                "nodes": nodes,
            }
        )
    elif holder is None:
        say(f"no cluster is up in {layout.directory}")
    elif not nodes:
        say(f"the cluster in {layout.directory} is starting or stopping, pid {holder}")
    else:
        columns = ("name", "role", "listen", "metrics", "pid", "state", "answers", "restarts")
        shown = [{**node, "answers": "yes" if node["answers"] else "no"} for node in nodes]
        print_table(columns, [[node[column] for column in columns] for node in shown])
    if not well:
        raise typer.Exit(1)


def _nodes_of(layout: Layout) -> list[dict[str, Any]]:
    """What the supervisor says; nothing while it is only about to listen, or about to end."""
    try:
        nodes: list[dict[str, Any]] = command(layout, "status")["nodes"]
    except HeadraceError:
        return []
    return nodes


def down(data: ClusterData = DEFAULT_DATA, as_json: Json = False) -> None:
    """Stop a local cluster. Its data stays.

    \b
    Examples:
      headrace down
      headrace down --data ./cluster
    """
    layout = Layout(data)
    holder = holder_of(layout)
    if holder is None:
        left = stop_leftovers(read_json(layout.pids), layout.directory)
        layout.cluster.unlink(missing_ok=True)
        _report_down(layout, "stopped what was left" if left else "nothing was up", as_json)
        return
    _ask_to_stop(layout, holder)
    deadline_s = time.monotonic() + DOWN_TIMEOUT_S
    while holder_of(layout) is not None:
        if time.monotonic() >= deadline_s:
            raise HeadraceError(
                f"the supervisor with pid {holder} still runs after {DOWN_TIMEOUT_S:g} s; "
                f"see {layout.logs}"
            )
        time.sleep(0.05)
    _report_down(layout, "stopped", as_json)


def _ask_to_stop(layout: Layout, holder: int) -> None:
    try:
        command(layout, "down")
    except HeadraceError:
        # It has no control socket yet, or has just closed it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(holder, signal.SIGTERM)


def _report_down(layout: Layout, what: str, as_json: bool) -> None:
    if as_json:
        print_json({"data": str(layout.directory), "result": what})
    else:
        say(f"{what}: {layout.directory}")
