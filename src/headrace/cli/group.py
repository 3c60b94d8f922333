"""`headrace group`: list, describe (with lag), reset, delete."""

import time
from typing import Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import BootstrapServers, Data, Json, group
from headrace.cli.output import print_json, print_table, say
from headrace.cli.start import FORMS, parse_start
from headrace.cli.target import open_cluster
from headrace.client import admin
from headrace.client.cluster import Cluster
from headrace.client.consumer import TopicPartition, start_positions
from headrace.client.errors import ClientError
from headrace.client.offsets import (
    LATEST_TIMESTAMP,
    commit,
    committed,
    list_readable_offsets,
)

commands = group("group", "List, describe, reset and delete consumer groups.")

GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]

_INACTIVE = ("Empty", "Dead")


def register(app: typer.Typer) -> None:
    app.add_typer(commands)


@commands.command("list")
def list_groups(
    bootstrap_servers: BootstrapServers = None, data: Data = None, as_json: Json = False
) -> None:
    """List the consumer groups.

    \b
    Examples:
      headrace group list
      headrace group list --json
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        groups = admin.list_groups(cluster)
    if as_json:
        print_json(
            [
                {
                    "group": each.group_id,
                    "state": each.state,
                    "protocol_type": each.protocol_type,
                    "type": each.type,
                }
                for each in groups
            ]
        )
        return
    rows = [(each.group_id, each.state, each.protocol_type, each.type) for each in groups]
    print_table(("group", "state", "protocol", "type"), rows)


@commands.command("describe")
def describe(
    group_id: GroupId,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show a group's members, committed offsets and lag.

    \b
    Examples:
      headrace group describe readers
      headrace group describe readers --json | jq .lag
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        described = admin.describe_group(cluster, group_id)
        partitions = _partitions(cluster, described)
    known = [each["lag"] for each in partitions if each["lag"] is not None]
    if as_json:
        print_json(
            {
                "group": described.group_id,
                "state": described.state,
                "protocol": described.protocol,
                "coordinator": described.coordinator,
                "lag": sum(known),
                "members": [
                    {
                        "member_id": member.member_id,
                        "group_instance_id": member.group_instance_id,
                        "client_id": member.client_id,
                        "host": member.client_host,
                        "assignment": member.assignment,
                    }
                    for member in described.members
                ],
                "partitions": partitions,
            }
        )
        return
    print(
        f"group {described.group_id}  state {described.state}  "
        f"protocol {described.protocol or '-'}  coordinator {described.coordinator}  "
        f"lag {sum(known)}"
    )
    columns = ("topic", "partition", "committed", "end", "lag", "member", "host")
    rows = [
        ["-" if each[column] is None else each[column] for column in columns] for each in partitions
    ]
    print_table(columns, rows)


@commands.command("reset")
def reset(
    group_id: GroupId,
    to: Annotated[str, typer.Option("--to", metavar="WHERE", help=f"{FORMS}.")],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC[:PARTITION]", help="Default: all the group committed for."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Move a group's committed offsets. Its consumers must be stopped.

    \b
    Examples:
      headrace group reset readers --to beginning
      headrace group reset readers --topic events --to 2h --dry-run
      headrace group reset readers --topic events:0 --to 1500
    """
    start = parse_start(to, int(time.time() * 1000))
    with open_cluster(bootstrap_servers, data) as cluster:
        _refuse_active(cluster, group_id)
        before = committed(cluster, group_id)
        targets = _targets(cluster, topic) if topic else sorted(before)
        if not targets:
            raise UsageError(
                f"group {group_id} has committed nothing: say what to set with --topic"
            )
        after = start_positions(cluster, targets, start.value, is_offset=start.is_offset)
        if not dry_run:
            commit(cluster, group_id, after)
    if start.is_offset:
        _note_clamped(after, start.value)
    changes = [
        {"topic": name, "partition": index, "before": before.get((name, index)), "after": offset}
        for (name, index), offset in sorted(after.items())
    ]
    if as_json:
        print_json({"group": group_id, "dry_run": dry_run, "offsets": changes})
        return
    columns = ("topic", "partition", "before", "after")
    print_table(columns, [[each[column] for column in columns] for each in changes])
    say("nothing was changed (--dry-run)" if dry_run else f"group {group_id} reset")


@commands.command("delete")
def delete(
    group_id: GroupId,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Delete a group without members, and its committed offsets.

    \b
    Examples:
      headrace group delete readers
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        admin.delete_group(cluster, group_id)
    if as_json:
        print_json({"deleted": group_id})
    else:
        say(f"group {group_id} deleted")


def _refuse_active(cluster: Cluster, group_id: str) -> None:
    """A group that does not exist yet is fine: offsets may be set before its first member."""
    if all(each.group_id != group_id for each in admin.list_groups(cluster)):
        return
    described = admin.describe_group(cluster, group_id)
    if described.state not in _INACTIVE:
        raise ClientError(
            f"group {group_id} is {described.state} with {len(described.members)} member(s): "
            "stop its consumers first"
        )


def _partitions(cluster: Cluster, described: admin.GroupDescription) -> list[dict[str, Any]]:
    offsets = committed(cluster, described.group_id)
    owners: dict[TopicPartition, admin.GroupMemberDescription] = {}
    for member in described.members:
        for topic, indexes in member.assignment.items():
            owners.update(dict.fromkeys(((topic, index) for index in indexes), member))
    wanted = sorted({*offsets, *owners})
    ends = _ends(cluster, wanted)
    rows: list[dict[str, Any]] = []
    for where in wanted:
        owner = owners.get(where)
        offset, end = offsets.get(where), ends.get(where)
        lag = None if offset is None or end is None else max(0, end - offset)
        rows.append(
            {
                "topic": where[0],
                "partition": where[1],
                "committed": offset,
                "end": end,
                "lag": lag,
                "member": None if owner is None else owner.member_id,
                "host": None if owner is None else owner.client_host,
            }
        )
    return rows


def _ends(cluster: Cluster, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Ends of the partitions that exist and are whole: offsets may outlive their topic."""
    names = sorted({topic for topic, _ in wanted})
    cluster.refresh(names)
    alive = [
        (topic, index)
        for topic, index in wanted
        if topic in cluster.topics and index in cluster.topics[topic].available
    ]
    return list_readable_offsets(cluster, alive, LATEST_TIMESTAMP)[0] if alive else {}


def _targets(cluster: Cluster, wanted: list[str]) -> list[TopicPartition]:
    targets: list[TopicPartition] = []
    for each in wanted:
        name, separator, index = each.partition(":")
        count = len(cluster.topic(name).partitions)
        if not separator:
            targets += [(name, partition) for partition in range(count)]
        elif index.isdecimal() and int(index) < count:
            targets.append((name, int(index)))
        else:
            raise UsageError(f"{each!r}: topic {name} has {count} partitions, from 0 on")
    return targets


def _note_clamped(after: dict[TopicPartition, int], asked: int) -> None:
    """A group stands within what a log holds: say where that is not the offset asked for."""
    for (topic, index), offset in sorted(after.items()):
        if offset != asked:
            edge = "ends" if offset < asked else "begins"
            say(f"{topic}-{index} {edge} at offset {offset}: {offset} instead of {asked}")
