"""`headrace quorum`: who leads the cluster's metadata, who votes, and changes of both."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.base.broker_config import parse_address
from headrace.base.errors import HeadraceError, UsageError
from headrace.base.ids import uuid_bytes
from headrace.cli.app import BootstrapServers, Data, Json, group
from headrace.cli.output import print_json, print_table, say
from headrace.cli.target import bootstrap_of, read_json
from headrace.client.quorum import Quorum, QuorumClient

commands = group("quorum", "The metadata quorum: describe it, add and remove voters.")

Controllers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controllers", metavar="HOST:PORT,…", help="Ask controllers, not brokers."
    ),
]
VoterId = Annotated[int, typer.Argument(metavar="ID", help="The controller's node id.")]


def register(app: typer.Typer) -> None:
    app.add_typer(commands)


@commands.command("describe")
def describe(
    bootstrap_servers: BootstrapServers = None,
    controllers: Controllers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show the leader, the voters and the observers, with how far each has come.

    \b
    Examples:
      headrace quorum describe
      headrace quorum describe --bootstrap-controllers 127.0.0.1:9093 --json
    """
    found = _client(bootstrap_servers, controllers, data).describe()
    if as_json:
        print_json(asdict(found))
        return
    print(
        f"leader {found.leader_id}, epoch {found.leader_epoch}, "
        f"high watermark {found.high_watermark}"
    )
    columns = ("node_id", "status", "log_end_offset", "lag", "directory_id", "endpoints")
    rows = []
    for replica in found.replicas:
        shown = {**asdict(replica), "endpoints": ",".join(replica.endpoints)}
        rows.append([shown[column] for column in columns])
    print_table(columns, rows)


@commands.command("add")
def add(
    voter_id: VoterId,
    address: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Its controller's listener.")
    ],
    directory_id: Annotated[
        str | None,
        typer.Option("--directory-id", metavar="ID", help="Default: that of the observer."),
    ] = None,
    listener_name: Annotated[str, typer.Option("--listener-name")] = "CONTROLLER",
    bootstrap_servers: BootstrapServers = None,
    controllers: Controllers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a controller that follows the quorum one of its voters.

    \b
    Examples:
      headrace quorum add 104 --listen 127.0.0.1:9096 --data ./cluster
    """
    client = _client(bootstrap_servers, controllers, data)
    host, port = parse_address("--listen", address)
    client.add(voter_id, _directory(client, voter_id, directory_id), listener_name, host, port)
    _report(client.describe(), f"{voter_id} votes", as_json=as_json)


@commands.command("remove")
def remove(
    voter_id: VoterId,
    directory_id: Annotated[
        str | None,
        typer.Option("--directory-id", metavar="ID", help="Default: that of the voter."),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    controllers: Controllers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take a voter out of the quorum; it follows on as an observer if it runs.

    \b
    Examples:
      headrace quorum remove 104 --data ./cluster
    """
    client = _client(bootstrap_servers, controllers, data)
    client.remove(voter_id, _directory(client, voter_id, directory_id))
    _report(client.describe(), f"{voter_id} votes no more", as_json=as_json)


def _directory(client: QuorumClient, voter_id: int, given: str | None) -> bytes:
    if given is None:
        known = [r.directory_id for r in client.describe().replicas if r.node_id == voter_id]
        if not known:
            raise HeadraceError(
                f"node {voter_id} is unknown to the quorum: start it, or give --directory-id"
            )
        if len(known) > 1:
            raise UsageError(
                f"node {voter_id} is known with {len(known)} directories: give --directory-id"
            )
        given = known[0]
    try:
        return uuid_bytes(given)
    except ValueError:
        raise UsageError(f"{given!r} is no directory id") from None


def _report(found: Quorum, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
    else:
        voters = ", ".join(str(voter.node_id) for voter in found.voters)
        say(f"{what}; voters are {voters}")


def _client(
    bootstrap_servers: str | None, controllers: str | None, data: str | None
) -> QuorumClient:
    if controllers and bootstrap_servers:
        raise UsageError("give either --bootstrap-servers or --bootstrap-controllers")
    if controllers:
        return QuorumClient(controllers, are_controllers=True)
    if data is not None and bootstrap_servers is None:
        told = (read_json(Path(data) / "cluster.json") or {}).get("controllers")
        if told:
            # Controllers answer also while no broker does.
            return QuorumClient(str(told), are_controllers=True)
    return QuorumClient(bootstrap_of(bootstrap_servers, data))
