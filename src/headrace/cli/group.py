"""`headrace group`: list, describe (with lag in records and in time), reset, delete."""

import time
from typing import Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import BootstrapServers, Data, Json, group
from headrace.cli.output import print_json, print_table, say
from headrace.cli.start import FORMS, parse_start
from headrace.cli.target import open_cluster
from headrace.client import group_admin
from headrace.client.assignment import Assignment
from headrace.client.cluster import Cluster
from headrace.client.consumer import TopicPartition, start_positions
from headrace.client.errors import ClientError
from headrace.client.group_descriptions import SHARE
from headrace.client.group_lag import lags
from headrace.client.offsets import commit, committed
from headrace.client.share_groups import alter_share_offsets, share_offsets

commands = group("group", "List, describe, reset and delete consumer and share groups.")

GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]

_INACTIVE = ("Empty", "Dead")
MINUTE_S = 60
HOUR_S = 3600


def register(app: typer.Typer) -> None:
    app.add_typer(commands)


@commands.command("list")
def list_groups(
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="classic, consumer or share.")
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="stable, empty, …")
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List the groups, of all types or one, in all states or one.

    \b
    Examples:
      headrace group list
      headrace group list --type consumer --state empty
      headrace group list --json
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        groups = [
            each
            for each in group_admin.list_groups(cluster)
            if (type_ is None or each.type.lower() == type_.lower())
            and (state is None or each.state.lower() == state.lower())
        ]
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
    members: Annotated[
        bool, typer.Option("--members", help="Show members instead of partitions.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show a group's members, committed offsets and lag, in records and in time.

    The lag in time is the age of the oldest record that the group has not read. A share group has
    a start offset instead of committed ones: everything before it is done with.

    \b
    Examples:
      headrace group describe readers
      headrace group describe readers --members
      headrace group describe readers --json | jq .lag
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        described = group_admin.describe_group(cluster, group_id)
        is_share = described.type == SHARE
        partitions = (_share_partitions if is_share else _partitions)(cluster, described)
    lag = sum(each["lag"] for each in partitions if each["lag"] is not None)
    lag_seconds = max(
        (each["lag_seconds"] for each in partitions if each["lag_seconds"] is not None),
        default=None,
    )
    if as_json:
        _print_description(described, partitions, lag, lag_seconds)
        return
    print(_headline(described, lag, lag_seconds))
    if members:
        _print_members(described)
        return
    position = "start" if is_share else "committed"
    columns = ("topic", "partition", position, "end", "lag", "behind", "member", "host")
    rows = [
        [_behind(each["lag_seconds"]) if column == "behind" else each[column] for column in columns]
        for each in partitions
    ]
    print_table(columns, [["-" if cell is None else cell for cell in row] for row in rows])


def _headline(described: group_admin.GroupDescription, lag: int, lag_seconds: float | None) -> str:
    words = [
        f"group {described.group_id}",
        f"type {described.type}",
        f"state {described.state}",
        f"protocol {described.protocol or '-'}",
        f"coordinator {described.coordinator}",
    ]
    if described.epoch is not None:
        words.append(f"epoch {described.epoch} (assignment {described.assignment_epoch})")
    words += [f"members {len(described.members)}", f"lag {lag}", f"behind {_behind(lag_seconds)}"]
    return "  ".join(words)


def _behind(seconds: float | None) -> str:
    """A time span for people: two figures are enough."""
    if seconds is None:
        return "-"
    if seconds < MINUTE_S:
        return f"{seconds:.1f}s"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S:.0f}m{seconds % MINUTE_S:02.0f}s"
    return f"{seconds // HOUR_S:.0f}h{seconds % HOUR_S // MINUTE_S:02.0f}m"


def _print_members(described: group_admin.GroupDescription) -> None:
    columns = ("member", "instance", "client", "host", "protocol", "epoch", "partitions", "target")
    rows = [
        (
            member.member_id,
            member.group_instance_id or "-",
            member.client_id,
            member.client_host,
            member.protocol,
            "-" if member.epoch is None else member.epoch,
            _shown(member.assignment),
            "=" if member.target in (None, member.assignment) else _shown(member.target or {}),
        )
        for member in described.members
    ]
    print_table(columns, rows)


def _shown(assignment: Assignment) -> str:
    return (
        " ".join(
            f"{topic}:{','.join(map(str, sorted(indexes)))}"
            for topic, indexes in sorted(assignment.items())
        )
        or "-"
    )


def _print_description(
    described: group_admin.GroupDescription,
    partitions: list[dict[str, Any]],
    lag: int,
    lag_seconds: float | None,
) -> None:
    print_json(
        {
            "group": described.group_id,
            "type": described.type,
            "state": described.state,
            "protocol": described.protocol,
            "coordinator": described.coordinator,
            "epoch": described.epoch,
            "assignment_epoch": described.assignment_epoch,
            "lag": lag,
            "lag_seconds": lag_seconds,
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "client_id": member.client_id,
                    "host": member.client_host,
                    "protocol": member.protocol,
                    "epoch": member.epoch,
                    "subscription": list(member.subscription),
                    "assignment": member.assignment,
                    "target": member.assignment if member.target is None else member.target,
                }
                for member in described.members
            ],
            "partitions": partitions,
        }
    )


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
    """Move a group's committed offsets, or where a share group begins.

    Its consumers must be stopped.

    \b
    Examples:
      headrace group reset readers --to beginning
      headrace group reset readers --topic events --to 2h --dry-run
      headrace group reset readers --topic events:0 --to 1500
    """
    start = parse_start(to, _now_ms())
    with open_cluster(bootstrap_servers, data) as cluster:
        _refuse_active(cluster, group_id)
        is_share = _is_share(cluster, group_id)
        before = _starts(cluster, group_id) if is_share else committed(cluster, group_id)
        targets = _targets(cluster, topic) if topic else sorted(before)
        if not targets:
            raise UsageError(
                f"group {group_id} has committed nothing: say what to set with --topic"
            )
        after = start_positions(cluster, targets, start.value, is_offset=start.is_offset)
        if not dry_run:
            (alter_share_offsets if is_share else commit)(cluster, group_id, after)
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
        group_admin.delete_group(cluster, group_id)
    if as_json:
        print_json({"deleted": group_id})
    else:
        say(f"group {group_id} deleted")


def _is_share(cluster: Cluster, group_id: str) -> bool:
    listed = group_admin.list_groups(cluster)
    return any(each.group_id == group_id and each.type.lower() == SHARE for each in listed)


def _starts(cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    found = share_offsets(cluster, group_id)
    return {
        where: each.start_offset for where, each in found.items() if each.start_offset is not None
    }


def _refuse_active(cluster: Cluster, group_id: str) -> None:
    """A group that does not exist yet is fine: offsets may be set before its first member."""
    if all(each.group_id != group_id for each in group_admin.list_groups(cluster)):
        return
    described = group_admin.describe_group(cluster, group_id)
    if described.state not in _INACTIVE:
        raise ClientError(
            f"group {group_id} is {described.state} with {len(described.members)} member(s): "
            "stop its consumers first"
        )


def _partitions(cluster: Cluster, described: group_admin.GroupDescription) -> list[dict[str, Any]]:
    offsets = committed(cluster, described.group_id)
    owners: dict[TopicPartition, group_admin.GroupMemberDescription] = {}
    for member in described.members:
        for topic, indexes in member.assignment.items():
            owners.update(dict.fromkeys(((topic, index) for index in indexes), member))
    wanted = sorted({*offsets, *owners})
    found = lags(cluster, {where: offsets.get(where) for where in wanted}, _now_ms())
    rows: list[dict[str, Any]] = []
    for where in wanted:
        owner = owners.get(where)
        rows.append(
            {
                "topic": where[0],
                "partition": where[1],
                "committed": offsets.get(where),
                "end": found[where].end,
                "lag": found[where].records,
                "lag_seconds": found[where].seconds,
                "member": None if owner is None else owner.member_id,
                "host": None if owner is None else owner.client_host,
            }
        )
    return rows


def _share_partitions(
    cluster: Cluster, described: group_admin.GroupDescription
) -> list[dict[str, Any]]:
    """Many members may read one partition; what is done with behind the start is no lag."""
    offsets = share_offsets(cluster, described.group_id)
    readers: dict[TopicPartition, list[group_admin.GroupMemberDescription]] = {}
    for member in described.members:
        for topic, indexes in member.assignment.items():
            for index in indexes:
                readers.setdefault((topic, index), []).append(member)
    wanted = sorted({*offsets, *readers})
    starts = {where: offsets[where].start_offset if where in offsets else None for where in wanted}
    found = lags(cluster, starts, _now_ms())
    rows: list[dict[str, Any]] = []
    for where in wanted:
        lag = offsets[where].lag if where in offsets else None
        members = readers.get(where, [])
        rows.append(
            {
                "topic": where[0],
                "partition": where[1],
                "start": starts[where],
                "end": found[where].end,
                "lag": lag,
                "lag_seconds": 0.0 if lag == 0 else found[where].seconds,
                "member": ",".join(each.member_id for each in members) or None,
                "host": ",".join(sorted({each.client_host for each in members})) or None,
            }
        )
    return rows


def _now_ms() -> int:
    return int(time.time() * 1000)


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
