"""`headrace storage`: a node's directories before its first start, as kafka-storage has them."""

import random
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import UsageError
from headrace.base.ids import uuid_text
from headrace.cli.app import Json, Settings, group
from headrace.cli.broker import CONTROLLER, DEFAULT_CONTROLLER_LISTEN
from headrace.cli.output import print_json, print_table, say
from headrace.cli.settings import parse_settings
from headrace.cluster.metadata_log import metadata_log_path
from headrace.log import checkpoints
from headrace.node.configuration import load_config
from headrace.node.formatting import (
    NO_VOTERS,
    directories_of,
    format_node,
    initial_controllers_text,
    new_id_text,
    parse_initial_controllers,
)
from headrace.quorum.snapshot_files import find_snapshots, read_snapshot_voters
from headrace.runtime.disk import DiskStorage

commands = group("storage", "Format and look at a node's directories.")

NodeData = Annotated[str, typer.Option("--data", "-d", metavar="DIR", help="The node's data.")]
NodeId = Annotated[
    int | None, typer.Option("--node-id", metavar="N", help="Default: node.id, else 1.")
]
Roles = Annotated[
    str | None,
    typer.Option("--roles", metavar="ROLES", help="broker,controller (default) or one of them."),
]
ControllerListen = Annotated[
    str | None,
    typer.Option("--controller-listen", metavar="HOST:PORT", help="The controller's listener."),
]
ConfigFile = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="The node's configuration.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands)


@commands.command("random-uuid")
def random_uuid() -> None:
    """Print an id for --cluster-id, or for a directory in --initial-controllers.

    \b
    Examples:
      headrace storage random-uuid
    """
    print(new_id_text(random.SystemRandom()))


@commands.command("format")
def format_storage(
    data: NodeData,
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", metavar="ID", help="The same for all nodes of a cluster.")
    ],
    node_id: NodeId = None,
    roles: Roles = None,
    controller_listen: ControllerListen = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="This controller is the only voter.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            metavar="ID@HOST:PORT:DIRECTORY-ID,…",
            help="The first voters; the same list on each of them.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="Joins a quorum that exists.")
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Directories that are formatted are fine.")
    ] = False,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Format a node's directories: whose they are, and who votes first.

    \b
    Examples:
      headrace storage format --data ./n1 --cluster-id "$ID" --standalone
      headrace storage format --data ./c1 --cluster-id "$ID" --node-id 101 --roles controller \\
        --initial-controllers 101@h1:9093:$D1,102@h2:9093:$D2,103@h3:9093:$D3
      headrace storage format --data ./c4 --cluster-id "$ID" --node-id 104 --roles controller \\
        --no-initial-controllers
    """
    if [standalone, bool(initial_controllers), no_initial_controllers].count(True) > 1:
        raise UsageError(
            "give one of --standalone, --initial-controllers and --no-initial-controllers"
        )
    node = _config(data, node_id, roles, controller_listen, config, settings)
    if node.is_controller and not (standalone or initial_controllers or no_initial_controllers):
        raise UsageError(
            "a controller needs one of --standalone, --initial-controllers and "
            "--no-initial-controllers"
        )
    voters = NO_VOTERS
    if initial_controllers:
        voters = parse_initial_controllers(initial_controllers, node.controller_listener_name)
    storage = DiskStorage()
    if not ignore_formatted:
        _refuse_formatted(storage, node)
    formatted = format_node(
        storage,
        node,
        random.SystemRandom(),
        time.time_ns() // 1_000_000,
        cluster_id=cluster_id,
        voters=voters,
        standalone=standalone,
    )
    if as_json:
        print_json([_shown(each.path, uuid_text(each.directory_id)) for each in formatted])
        return
    for each in formatted:
        what = "formatted" if each.is_new else "was formatted before:"
        say(f"{what} {each.path}, directory id {uuid_text(each.directory_id)}")


def _shown(path: str, directory_id: str) -> dict[str, str]:
    return {"path": path, "directory_id": directory_id}


def _refuse_formatted(storage: DiskStorage, node: BrokerConfig) -> None:
    for path in directories_of(node):
        if storage.exists(f"{path}/{checkpoints.META_PROPERTIES}"):
            raise UsageError(f"{path} is formatted already; --ignore-formatted if that is fine")


@commands.command("info")
def info(
    data: NodeData,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Show whose directories these are, and the voters of the newest snapshot.

    \b
    Examples:
      headrace storage info --data ./n1
    """
    node = _config(data, None, None, None, config, settings)
    storage = DiskStorage()
    rows: list[dict[str, Any]] = []
    for path in directories_of(node):
        file = f"{path}/{checkpoints.META_PROPERTIES}"
        properties = checkpoints.read_meta_properties(storage, file) or {}
        rows.append(
            {
                "path": path,
                "cluster_id": properties.get("cluster.id"),
                "node_id": properties.get("node.id"),
                "directory_id": properties.get("directory.id"),
                "voters": _voters_in(storage, path),
            }
        )
    if as_json:
        print_json(rows)
        return
    columns = ("path", "cluster_id", "node_id", "directory_id", "voters")
    print_table(columns, [[row[column] or "" for column in columns] for row in rows])


def _voters_in(storage: DiskStorage, path: str) -> str | None:
    folder = metadata_log_path(path)
    if not Path(folder).is_dir():
        return None
    snapshots = find_snapshots(storage, folder)
    if not snapshots:
        return None
    return initial_controllers_text(read_snapshot_voters(storage, folder, max(snapshots)))


def _config(
    data: str,
    node_id: int | None,
    roles: str | None,
    controller_listen: str | None,
    config: str | None,
    settings: list[str] | None,
) -> BrokerConfig:
    given = parse_settings(settings)
    if roles is not None:
        given["process.roles"] = roles
    is_broker = given.get("process.roles") != CONTROLLER
    if "broker" in given.get("process.roles", "").split(",") and "controller" not in given.get(
        "process.roles", ""
    ):
        # Formatting asks nobody: where the controllers are is the node's to be told.
        given.setdefault("controller.quorum.bootstrap.servers", "127.0.0.1:1")
    listen = None
    if "listeners" not in given and config is None:
        listen = "127.0.0.1:9092" if is_broker else None
        if not is_broker:
            controller_listen = controller_listen or DEFAULT_CONTROLLER_LISTEN
    return load_config(
        data,
        listen=listen,
        controller_listen=controller_listen,
        config_file=config,
        settings=given,
        node_id=node_id,
    )
