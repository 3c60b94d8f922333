"""`headrace cluster`: the brokers of a cluster, what they hold, and who leads; moves are
`cluster_moves`'s."""

from typing import Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli import cluster_moves
from headrace.cli.app import BootstrapServers, Data, Json, group
from headrace.cli.output import print_json, print_table, say
from headrace.cli.target import open_cluster
from headrace.client import cluster_changes
from headrace.client.cluster_state import BrokerState, ClusterState, describe_state
from headrace.client.errors import ClientError

commands = group("cluster", "The brokers: describe, rebalance, cordon, remove.")

BrokerId = Annotated[int, typer.Argument(metavar="ID", help="The broker's node id.")]


def register(app: typer.Typer) -> None:
    cluster_moves.add_to(commands)
    app.add_typer(commands)


@commands.command("describe")
def describe(
    bootstrap_servers: BootstrapServers = None, data: Data = None, as_json: Json = False
) -> None:
    """Show every broker with its rack, state, leaders, replicas and bytes, and what is on the move.

    \b
    Examples:
      headrace cluster describe
      headrace cluster describe --json | jq '.brokers[] | {id, bytes, leaders}'
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        state = describe_state(cluster)
    described = [_describe_broker(state, broker) for broker in state.brokers]
    health = _health(state)
    if as_json:
        print_json({"cluster_id": state.cluster_id, "brokers": described, **health})
        return
    columns = ("id", "rack", "address", "state", "leaders", "preferred", "replicas", "bytes")
    print(f"cluster {state.cluster_id}")
    print_table(
        (*columns, "disk used"),
        [[*(each[c] for c in columns), _disk_use(each)] for each in described],
    )
    print(", ".join(f"{count} {what.replace('_', ' ')}" for what, count in health.items()))


def _describe_broker(state: ClusterState, broker: BrokerState) -> dict[str, Any]:
    me = broker.broker_id
    held = [part for part in state.partitions if me in part.replicas]
    known = [each for each in broker.log_dirs if each.total_bytes > 0]
    return {
        "id": me,
        "rack": broker.rack,
        "address": f"{broker.host}:{broker.port}",
        "state": _state_of(broker),
        "leaders": sum(part.leader == me for part in state.partitions),
        "preferred": sum(part.replicas[:1] == (me,) for part in state.partitions),
        "replicas": len(held),
        "out_of_sync": sum(me not in part.isr for part in held),
        "bytes": broker.size_bytes if broker.log_dirs else None,
        "disk_total_bytes": sum(each.total_bytes for each in known) or None,
        "disk_usable_bytes": sum(each.usable_bytes for each in known) if known else None,
        "failed_log_dirs": [each.path for each in broker.log_dirs if each.error_code],
        "cordoned_log_dirs": [each.path for each in broker.log_dirs if each.is_cordoned],
    }


def _state_of(broker: BrokerState) -> str:
    if broker.is_fenced:
        return "down"
    if not broker.log_dirs:
        return "silent"
    if broker.is_cordoned:
        return "cordoned"
    return "degraded" if any(each.error_code for each in broker.log_dirs) else "active"


def _disk_use(described: dict[str, Any]) -> str | None:
    total = described["disk_total_bytes"]
    if not total:
        return None
    return f"{(total - described['disk_usable_bytes']) / total:.0%}"


def _health(state: ClusterState) -> dict[str, int]:
    return {
        "partitions": len(state.partitions),
        "under_replicated": sum(len(p.isr) < len(p.target) for p in state.partitions),
        "offline": sum(part.leader < 0 for part in state.partitions),
        "moving": len(state.moving),
    }


@commands.command("cordon")
def cordon(
    broker_id: BrokerId,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Place nothing new on a broker; what it has it keeps and serves.

    \b
    Examples:
      headrace cluster cordon 4
      kafka-configs --alter --entity-type brokers --entity-name 4 --add-config 'cordoned.log.dirs=*'
    """
    _set_cordon(broker_id, bootstrap_servers, data, wanted=True, as_json=as_json)


@commands.command("uncordon")
def uncordon(
    broker_id: BrokerId,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a cordoned broker take new replicas again.

    \b
    Examples:
      headrace cluster uncordon 4
    """
    _set_cordon(broker_id, bootstrap_servers, data, wanted=False, as_json=as_json)


def _set_cordon(
    broker_id: int, bootstrap_servers: str | None, data: str | None, *, wanted: bool, as_json: bool
) -> None:
    with open_cluster(bootstrap_servers, data) as cluster:
        describe_state(cluster).broker(broker_id)
        change = cluster_changes.cordon if wanted else cluster_changes.uncordon
        is_heard = change(cluster, broker_id)
    if as_json:
        print_json({"id": broker_id, "cordoned": wanted, "in_effect": is_heard})
    elif is_heard:
        say(f"broker {broker_id} is {'cordoned' if wanted else 'cordoned no more'}")
    else:
        say(f"broker {broker_id} is down: it is noted, and counts from its next start on")


@commands.command("elect-leaders")
def elect_leaders(
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Of this topic alone; default: all.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="This one alone.")
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Let a replica that is not in sync lead where no other is left: LOSES records.",
        ),
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let the preferred replica lead, the first of each partition, where another does.

    \b
    Examples:
      headrace cluster elect-leaders
      headrace cluster elect-leaders --topic events
      headrace cluster elect-leaders --topic events --partition 3 --unclean
    """
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic")
    if unclean and topic is None:
        raise UsageError("--unclean loses records: name the --topic it is for")
    kind = cluster_changes.UNCLEAN if unclean else cluster_changes.PREFERRED
    with open_cluster(bootstrap_servers, data) as cluster:
        keys = None
        if topic is not None:
            state = describe_state(cluster)
            keys = [part.key for part in state.partitions if part.topic == topic]
            if partition is not None:
                keys = [key for key in keys if key[1] == partition]
            if not keys:
                raise ClientError(f"there is no topic {topic}, or it has no such partition")
        elected, failed = cluster_changes.elect_leaders(cluster, keys, kind)
    if as_json:
        print_json(
            {
                "elected": [{"topic": name, "partition": index} for name, index in elected],
                "failed": [
                    {"topic": name, "partition": index, "reason": reason}
                    for (name, index), reason in failed.items()
                ],
            }
        )
    else:
        for (name, index), reason in failed.items():
            say(f"{name}-{index}: {reason}")
        say(f"{len(elected)} partitions have another leader")
    if failed:
        raise ClientError(f"{len(failed)} partitions have not the leader that was asked for")


@commands.command("unregister")
def unregister(
    broker_id: BrokerId,
    force: Annotated[
        bool, typer.Option("--force", help="Even if replicas are left on it, which are lost then.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Forget a broker that was stopped for good.

    \b
    Examples:
      headrace cluster decommission 4 --apply
      headrace cluster unregister 4
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        cluster_changes.unregister(cluster, describe_state(cluster), broker_id, force=force)
    if as_json:
        print_json({"id": broker_id, "registered": False})
    else:
        say(f"broker {broker_id} is forgotten")
