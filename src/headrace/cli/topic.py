"""`headrace topic`: create, list, describe, alter, delete; `hot` is `topic_hot`'s."""

from typing import Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.base.ids import uuid_text
from headrace.cli.app import BootstrapServers, Data, Json, Settings, group
from headrace.cli.output import print_json, print_table, say
from headrace.cli.settings import parse_settings
from headrace.cli.target import open_cluster
from headrace.cli.topic_hot import hot
from headrace.client import admin
from headrace.client.cluster import Cluster, Topic
from headrace.client.errors import ClientError, ServerError
from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, list_readable_offsets
from headrace.wire.kafka.errors import ErrorCode

commands = group("topic", "Create, list, describe, alter and delete topics.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]

Partitions = Annotated[
    int, typer.Option("--partitions", "-p", help="How many; default: num.partitions.")
]
ReplicationFactor = Annotated[
    int, typer.Option("--replication-factor", "-r", help="Default: default.replication.factor.")
]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Fine if it is there already.")]


def register(app: typer.Typer) -> None:
    commands.command("hot")(hot)
    app.add_typer(commands)


@commands.command("create")
def create(
    name: Name,
    partitions: Partitions = -1,
    replication_factor: ReplicationFactor = -1,
    settings: Settings = None,
    if_not_exists: IfNotExists = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check.")] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Create a topic.

    \b
    Examples:
      headrace topic create events
      headrace topic create events -p 6 --set retention.ms=86400000
      headrace topic create users --set cleanup.policy=compact --if-not-exists
    """
    configs = parse_settings(settings)
    created = True
    with open_cluster(bootstrap_servers, data) as cluster:
        try:
            admin.create_topic(
                cluster,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                validate_only=dry_run,
            )
        except ServerError as error:
            if not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            created = False
        summary = {"name": name, "valid": True} if dry_run else _summary(cluster.topic(name))
    if dry_run:
        _tell(summary, f"topic {name} could be created", as_json=as_json)
    else:
        what = "created" if created else "was there"
        sentence = f"topic {name} {what}: {summary['partitions']} partition(s)"
        _tell({**summary, "created": created}, sentence, as_json=as_json)


def _tell(value: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        say(sentence)


@commands.command("list")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Internal topics too (__consumer_offsets …).")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List the topics.

    \b
    Examples:
      headrace topic list
      headrace topic list --json | jq -r '.[].name'
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        cluster.retry(lambda _: cluster.refresh(None))
        topics = [topic for topic in cluster.topics.values() if internal or not topic.is_internal]
    summaries = [_summary(topic) for topic in sorted(topics, key=lambda topic: topic.name)]
    if as_json:
        print_json(summaries)
        return
    print_table(
        ("topic", "partitions", "replicas", "id"),
        [
            (each["name"], each["partitions"], each["replication_factor"], each["topic_id"])
            for each in summaries
        ],
    )


@commands.command("describe")
def describe(
    name: Name,
    every: Annotated[bool, typer.Option("--all", help="Configs at their defaults too.")] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show a topic's partitions, offsets and configs.

    \b
    Examples:
      headrace topic describe events
      headrace topic describe events --all --json
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        topic = cluster.topic(name)
        partitions = _partitions(cluster, topic)
        configs = admin.describe_configs(cluster, admin.TOPIC_RESOURCE, name)
    shown = [config for config in configs if every or not config.is_default]
    if as_json:
        described = _summary(topic)
        described["partitions"] = partitions
        described["configs"] = {config.name: config.value for config in shown}
        print_json(described)
        return
    summary = _summary(topic)
    print(f"topic {name}  id {summary['topic_id']}")
    columns = ("partition", "leader", "epoch", "replicas", "isr", "begin", "end")
    keys = ("partition", "leader", "leader_epoch", "replicas", "isr", "begin", "end")
    print_table(
        columns,
        [[_cell(each[k]) for k in keys] for each in partitions],
    )
    if shown:
        print_table(
            ("config", "value", "from"),
            [(config.name, config.value, config.source) for config in shown],
        )
    else:
        print("all configs are at their defaults; --all lists them")


@commands.command("alter")
def alter(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="Raise the count to this.")
    ] = None,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to the default.")
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Change a topic's configs or raise its number of partitions.

    \b
    Examples:
      headrace topic alter events --set retention.ms=3600000
      headrace topic alter events --unset retention.ms
      headrace topic alter events --partitions 12
    """
    changes = parse_settings(settings)
    if not changes and not unset and partitions is None:
        raise UsageError("nothing to alter: give --set, --unset or --partitions")
    with open_cluster(bootstrap_servers, data) as cluster:
        if changes or unset:
            admin.alter_topic_configs(cluster, name, changes, unset or ())
        if partitions is not None:
            admin.create_partitions(cluster, name, partitions)
    altered = {"name": name, "set": changes, "unset": unset or [], "partitions": partitions}
    _tell(altered, f"topic {name} altered", as_json=as_json)


@commands.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Topics to delete.")],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Fine if there is no such topic.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Delete topics and all their records.

    \b
    Examples:
      headrace topic delete events
      headrace topic delete a b c --if-exists
    """
    deleted: list[str] = []
    with open_cluster(bootstrap_servers, data) as cluster:
        for name in names:
            try:
                admin.delete_topic(cluster, name)
            except ServerError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                if not if_exists:
                    raise ClientError(
                        f"there is no topic {name!r} to delete; "
                        "`headrace topic list` shows what is there"
                    ) from error
                continue
            deleted.append(name)
    _tell({"deleted": deleted}, f"deleted: {', '.join(deleted) or 'nothing'}", as_json=as_json)


def _cell(value: int | list[int] | None) -> str:
    """Of a partition's row: only an offset can be missing, and then nobody could be asked."""
    if value is None:
        return "offline"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _summary(topic: Topic) -> dict[str, Any]:
    replicas = [len(partition.replicas) for partition in topic.partitions]
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": max(replicas, default=0),
        "internal": topic.is_internal,
    }


def _partitions(cluster: Cluster, topic: Topic) -> list[dict[str, Any]]:
    leaderless = {partition.index for partition in topic.partitions} - set(topic.available)
    reachable = [(topic.name, index) for index in topic.available]
    begins, no_begins = list_readable_offsets(cluster, reachable, EARLIEST_TIMESTAMP)
    ends, no_ends = list_readable_offsets(cluster, reachable, LATEST_TIMESTAMP)
    errors = dict.fromkeys(leaderless, ErrorCode.LEADER_NOT_AVAILABLE.name)
    errors |= {index: error.name for (_, index), error in {**no_begins, **no_ends}.items()}
    return [
        {
            "partition": partition.index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "begin": begins.get((topic.name, partition.index)),
            "end": ends.get((topic.name, partition.index)),
            "error": errors.get(partition.index),
        }
        for partition in topic.partitions
    ]
