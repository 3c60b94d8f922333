"""Nonsense for the group coordinator: members, generations, time-outs and offsets that lie."""

import time
from typing import Any

import pytest
from tests.wire.conftest import Target
from tests.wire.raw import Connection, request
from tests.wire.serving import assert_serves

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_METADATA_TOO_LARGE = 12
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79

NOT_YET = {COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@pytest.fixture(scope="module")
def coordinator(target: Target) -> Target:
    """The target once it coordinates groups: Kafka makes the offsets topic at first use."""
    deadline = time.monotonic() + 30
    with Connection(target.address) as connection:
        while time.monotonic() < deadline:
            found = connection.call("find_coordinator", 1, key="warm", key_type=0)
            if found.error_code == NONE:
                beat = heartbeat(connection, "warm")
                if beat not in NOT_YET:
                    return target
            time.sleep(0.1)
    raise AssertionError("no coordinator")


def heartbeat(
    connection: Connection, group: str, generation: int = 1, member: str = "nobody"
) -> int:
    answer = connection.call(
        "heartbeat", 3, group_id=group, generation_id=generation, member_id=member
    )
    return int(answer.error_code)


def join(connection: Connection, group: str, **values: Any) -> Any:
    body = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }
    return connection.call("join_group", 3, **(body | values))


def commit(connection: Connection, group: str, offset: int, **values: Any) -> int:
    partition = {
        "partition_index": values.pop("partition", 0),
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": values.pop("metadata", ""),
    }
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": values.pop("topic", "good"), "partitions": [partition]}],
    }
    answer = connection.call("offset_commit", 7, **(body | values))
    return int(answer.topics[0].partitions[0].error_code)


def fetched_offset(connection: Connection, group: str) -> int:
    answer = connection.call(
        "offset_fetch", 5, group_id=group, topics=[{"name": "good", "partition_indexes": [0]}]
    )
    return int(answer.topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"session_timeout": 0}, INVALID_SESSION_TIMEOUT),
        ({"session_timeout": -1}, INVALID_SESSION_TIMEOUT),
        ({"session_timeout": INT32_MAX}, INVALID_SESSION_TIMEOUT),
        ({"member_id": "never-given-out"}, UNKNOWN_MEMBER_ID),
        ({"protocols": []}, INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": ""}, INVALID_GROUP_ID),
    ],
    ids=str,
)
def test_join(coordinator: Target, values: dict[str, Any], error: int) -> None:
    with Connection(coordinator.address) as connection:
        assert join(connection, "g-join", **values).error_code == error
    assert_serves(coordinator.address)


def test_join_with_a_megabyte_of_metadata(coordinator: Target) -> None:
    """Served or refused, but bounded: the broker goes on and the group can be left."""
    protocols = [{"name": "range", "metadata": bytes(1 << 20)}]
    with Connection(coordinator.address) as connection:
        joined = join(connection, "g-fat", protocols=protocols)
        assert joined.error_code != -1
        if joined.error_code == NONE:
            left = connection.call("leave_group", 1, group_id="g-fat", member_id=joined.member_id)
            assert left.error_code == NONE
    assert_serves(coordinator.address)


def test_join_version_4_must_come_back_with_its_member_id(coordinator: Target) -> None:
    with Connection(coordinator.address) as connection:
        for _ in range(50):
            answer = connection.call(
                "join_group",
                5,
                group_id="g-id",
                session_timeout=10_000,
                rebalance_timeout=10_000,
                member_id="",
                group_instance_id=None,
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b""}],
            )
            assert answer.error_code == MEMBER_ID_REQUIRED
            assert answer.member_id
    assert_serves(coordinator.address)


def test_a_follower_may_not_assign(coordinator: Target) -> None:
    """SyncGroup of one that does not lead: it waits for the leader, its assignment is ignored."""
    with Connection(coordinator.address) as leads, Connection(coordinator.address) as follows:
        first = join(leads, "g-sync")
        assert first.error_code == NONE
        body = {"group_id": "g-sync", "generation_id": first.generation_id}
        wrong = follows.call("sync_group", 2, **body, member_id="nobody", assignments=[])
        assert wrong.error_code == UNKNOWN_MEMBER_ID
        old = body | {"generation_id": first.generation_id + 5}
        stale = follows.call("sync_group", 2, **old, member_id=first.member_id, assignments=[])
        assert stale.error_code == ILLEGAL_GENERATION
        given = [{"member_id": first.member_id, "assignment": b"mine"}]
        right = leads.call("sync_group", 2, **body, member_id=first.member_id, assignments=given)
        assert right.error_code == NONE
        assert bytes(right.assignment) == b"mine"
        assert (
            leads.call("leave_group", 1, group_id="g-sync", member_id=first.member_id).error_code
            == NONE
        )
    assert_serves(coordinator.address)


@pytest.mark.parametrize("assigned_to", ["a stranger", ""])
def test_an_assignment_for_a_stranger_is_dropped(coordinator: Target, assigned_to: str) -> None:
    group = f"g-stranger-{len(assigned_to)}"
    with Connection(coordinator.address) as connection:
        joined = join(connection, group)
        synced = connection.call(
            "sync_group",
            2,
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[{"member_id": assigned_to, "assignment": b"loot"}],
        )
        assert synced.error_code == NONE
        assert bytes(synced.assignment) == b""
        assert heartbeat(connection, group, joined.generation_id, "a stranger") == UNKNOWN_MEMBER_ID
        assert heartbeat(connection, group, 99, joined.member_id) == ILLEGAL_GENERATION
        assert (
            connection.call("leave_group", 1, group_id=group, member_id=joined.member_id).error_code
            == NONE
        )
    assert_serves(coordinator.address)


@pytest.mark.parametrize("group", ["no such group", ""])
def test_heartbeat_of_nobody(coordinator: Target, group: str) -> None:
    with Connection(coordinator.address) as connection:
        assert heartbeat(connection, group) == (UNKNOWN_MEMBER_ID if group else INVALID_GROUP_ID)


@pytest.mark.parametrize("offset", [0, -1, INT64_MAX, -(2**63)])
def test_commit_of_a_strange_offset(coordinator: Target, offset: int) -> None:
    """The coordinator keeps numbers, it does not judge them: what it takes it gives back."""
    group = f"g-offset-{offset}"
    with Connection(coordinator.address) as connection:
        assert commit(connection, group, offset) == NONE
        assert fetched_offset(connection, group) == offset
    assert_serves(coordinator.address)


def test_commit_with_too_much_metadata(coordinator: Target) -> None:
    with Connection(coordinator.address) as connection:
        error = commit(connection, "g-meta", 1, metadata="x" * 4097)
        assert error == OFFSET_METADATA_TOO_LARGE
        assert commit(connection, "g-meta", 1, metadata="x" * 4096) == NONE


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("good", 99), ("good", -1)])
def test_commit_for_what_does_not_exist(coordinator: Target, topic: str, partition: int) -> None:
    with Connection(coordinator.address) as connection:
        error = commit(connection, "g-none", 1, topic=topic, partition=partition)
        assert error == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"generation_id_or_member_epoch": 5, "member_id": "m"}, {ILLEGAL_GENERATION}),
        # A group without members takes the commits of anyone who claims no generation.
        ({"generation_id_or_member_epoch": -1, "member_id": "m"}, {NONE}),
        # Kafka still takes the empty group's commits, from the days of simple consumers.
        ({"group_id": ""}, {NONE, INVALID_GROUP_ID}),
    ],
    ids=str,
)
def test_commit_by_a_stranger(coordinator: Target, values: dict[str, Any], error: set[int]) -> None:
    with Connection(coordinator.address) as connection:
        assert commit(connection, "g-fresh", 1, **values) in error
    assert_serves(coordinator.address)


def test_groups_that_are_not(coordinator: Target) -> None:
    with Connection(coordinator.address) as connection:
        deleted = connection.call("delete_groups", 1, groups_names=["nobody's"])
        assert deleted.results[0].error_code == GROUP_ID_NOT_FOUND
        joined = join(connection, "g-busy")
        busy = connection.call("delete_groups", 1, groups_names=["g-busy"])
        assert busy.results[0].error_code == NON_EMPTY_GROUP
        left = connection.call("leave_group", 1, group_id="g-busy", member_id=joined.member_id)
        assert left.error_code == NONE
        again = connection.call("leave_group", 1, group_id="g-busy", member_id=joined.member_id)
        assert again.error_code == UNKNOWN_MEMBER_ID
    assert_serves(coordinator.address)


def test_members_that_vanish_do_not_stay(coordinator: Target) -> None:
    """Two hundred joins cut off by their clients: sockets go at once, the group serves others."""
    before = coordinator.sockets()
    for _ in range(200):
        connection = Connection(coordinator.address)
        body = {
            "group_id": "g-vanish",
            "session_timeout": 6000,
            "rebalance_timeout": 6000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        connection.send(request("join_group", 3, **body))
        connection.socket.close()
    assert coordinator.await_sockets(before) <= before
    assert_serves(coordinator.address)
