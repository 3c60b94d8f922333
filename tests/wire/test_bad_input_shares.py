"""Nonsense for those who hand out records to share groups: sessions and offsets that lie."""

import base64
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.wire.batches import good_batch
from tests.wire.conftest import Target
from tests.wire.raw import Connection, request
from tests.wire.serving import GOOD_TOPIC, assert_serves, produce

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REQUEST = 42
UNKNOWN_TOPIC_ID = 100
INVALID_RECORD_STATE = 121
SHARE_SESSION_NOT_FOUND = 122
INVALID_SHARE_SESSION_EPOCH = 123

GROUP = "shares"
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
VERSION = 2


@pytest.fixture(scope="module")
def topic_id(target: Target) -> uuid.UUID:
    with Connection(target.address) as connection:
        answer = connection.call("metadata", 12, topics=[{"name": GOOD_TOPIC}])
        found = answer.topics[0].topic_id
        assert isinstance(found, uuid.UUID)
        return found


@pytest.fixture(scope="module")
def group(target: Target, topic_id: uuid.UUID) -> str:
    """A share group that has begun: whatever is produced from now on is for it."""
    with Connection(target.address) as connection:
        deadline = time.monotonic() + 30
        member, epoch = str(uuid.uuid4()), 0
        while time.monotonic() < deadline:
            encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
            for key_type, key in ((0, GROUP), (2, f"{GROUP}:{encoded}:0")):
                connection.call("find_coordinator", 6, key_type=key_type, coordinator_keys=[key])
            beat = connection.call(
                "share_group_heartbeat",
                1,
                group_id=GROUP,
                member_id=member,
                member_epoch=epoch,
                subscribed_topic_names=[GOOD_TOPIC],
            )
            if beat.error_code == NONE:
                epoch = beat.member_epoch
                if beat.assignment is not None and beat.assignment.topic_partitions:
                    begin(target, topic_id)
                    return GROUP
            time.sleep(0.1)
    raise AssertionError("the group does not begin")


def begin(target: Target, topic_id: uuid.UUID) -> None:
    """The first fetch finds the end of the log: there the group begins."""
    one = Member(target, GROUP, topic_id)
    with one.connection:
        for _ in range(3):
            assert one.fetch().error_code == NONE


class Member:
    def __init__(self, target: Target, group: str, topic_id: uuid.UUID) -> None:
        self.connection = Connection(target.address)
        self.group = group
        self.topic_id = topic_id
        self.member_id = str(uuid.uuid4())
        self.epoch = 0

    def fetch(self, **values: Any) -> Any:
        body = self.fetch_body(**values)
        answer = self.connection.call("share_fetch", VERSION, **body)
        if answer.error_code == NONE:
            self.epoch += 1
        return answer

    def fetch_body(self, **values: Any) -> dict[str, Any]:
        topic = {"topic_id": self.topic_id, "partitions": [{"partition_index": 0}]}
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait": 200,
            "min_bytes": 1,
            "max_records": 100,
            "batch_size": 100,
            "topics": [topic],
            **values,
        }

    def acquire(self) -> tuple[int, int]:
        """A record of one's own. Kafka forgets where an empty group began: fetch first."""
        for _ in range(2):
            assert self.fetch().error_code == NONE
        with Connection(("127.0.0.1", self.connection.socket.getpeername()[1])) as other:
            assert produce(other, good_batch(b"shared"), acks=-1).error_code == NONE
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            answer = self.fetch()
            assert answer.error_code == NONE
            for row in (row for topic in answer.responses for row in topic.partitions):
                assert row.error_code == NONE
                if row.acquired_records:
                    acquired = row.acquired_records[-1]
                    return acquired.first_offset, acquired.last_offset
        raise AssertionError("no record came")

    def acknowledge(
        self, first: int, last: int, types: list[int], **values: Any
    ) -> tuple[int, int]:
        batch = {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        partition = {"partition_index": 0, "acknowledgement_batches": [batch]}
        body = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "topics": [{"topic_id": self.topic_id, "partitions": [partition]}],
            **values,
        }
        answer = self.connection.call("share_acknowledge", VERSION, **body)
        if answer.error_code:
            return int(answer.error_code), NONE
        self.epoch += 1
        return NONE, int(answer.responses[0].partitions[0].error_code)


@pytest.fixture
def member(target: Target, group: str, topic_id: uuid.UUID) -> Iterator[Member]:
    one = Member(target, group, topic_id)
    with one.connection:
        yield one
    assert_serves(target.address)


def test_a_record_is_handed_out_and_accepted(member: Member) -> None:
    first, last = member.acquire()
    assert member.acknowledge(first, last, [1]) == (NONE, NONE)
    assert member.acknowledge(first, last, [1]) in [(NONE, NONE), (NONE, INVALID_RECORD_STATE)]


@pytest.mark.parametrize("epoch", [-2, 2, 7, INT32_MAX])
def test_epochs_that_lie(member: Member, epoch: int) -> None:
    expected = SHARE_SESSION_NOT_FOUND
    assert member.fetch(share_session_epoch=epoch).error_code == expected
    assert member.fetch().error_code == NONE
    answer = member.fetch(share_session_epoch=epoch)
    assert answer.error_code == INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge(0, 0, [1], share_session_epoch=epoch)[0] == answer.error_code


@pytest.mark.parametrize("field", ["group_id", "member_id"])
@pytest.mark.parametrize("value", [None, ""])
def test_nobody_of_no_group(target: Target, member: Member, field: str, value: str | None) -> None:
    if target.is_control and (field, value) == ("group_id", ""):
        return  # Kafka takes the empty name for one
    assert member.fetch(**{field: value}).error_code == INVALID_REQUEST
    assert member.acknowledge(0, 0, [1], **{field: value})[0] == INVALID_REQUEST


def test_topics_and_partitions_that_are_not_there(target: Target, member: Member) -> None:
    topics = [
        {"topic_id": uuid.uuid4(), "partitions": [{"partition_index": 0}]},
        {"topic_id": member.topic_id, "partitions": [{"partition_index": INT32_MAX}]},
        {"topic_id": member.topic_id, "partitions": [{"partition_index": -1}]},
    ]
    answer = member.fetch(topics=topics)
    errors = [row.error_code for topic in answer.responses for row in topic.partitions]
    assert set(errors) <= {UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID}
    assert len(errors) >= 2 or target.is_control  # Kafka waits, and says nothing of them


@pytest.mark.parametrize(
    ("shift", "length", "types"),
    [
        (0, 0, []),
        (0, -5, [1]),
        (0, 0, [1, 1]),
        (0, 0, [99]),
        (0, 0, [-1]),
        (0, INT32_MAX, [1]),
        (10_000, 5, [1]),
    ],
)
def test_acknowledgements_that_lie(
    member: Member, shift: int, length: int, types: list[int]
) -> None:
    first, last = member.acquire()
    lie = (first + shift, first + shift + length, types)
    assert member.acknowledge(*lie) == (NONE, INVALID_REQUEST)
    assert member.acknowledge(first, last, [1]) == (NONE, NONE)


def test_offsets_at_the_ends_of_the_world(member: Member) -> None:
    first, last = member.acquire()
    for lie in ((-INT64_MAX, -1, [1]), (INT64_MAX - 1, INT64_MAX, [1]), (0, INT64_MAX, [1])):
        assert member.acknowledge(*lie)[1] in (INVALID_REQUEST, NONE, INVALID_RECORD_STATE)
    assert member.acknowledge(first, last, [1]) == (NONE, NONE)


def test_what_another_holds_is_not_ones_own(
    target: Target, member: Member, group: str, topic_id: uuid.UUID
) -> None:
    first, last = member.acquire()
    thief = Member(target, group, topic_id)
    with thief.connection:
        assert thief.fetch().error_code == NONE
        assert thief.acknowledge(first, last, [1]) == (NONE, INVALID_RECORD_STATE)
    assert member.acknowledge(first, last, [1]) == (NONE, NONE)


def test_sizes_that_lie(member: Member) -> None:
    for values in (
        {"max_bytes": -1},
        {"max_bytes": 0},
        {"min_bytes": -INT32_MAX},
        {"max_wait": -1},
        {"max_records": -5},
        {"batch_size": -1},
        {"batch_size": 0},
    ):
        assert member.fetch(**values).error_code in (NONE, INVALID_REQUEST)


def test_who_hangs_up_while_a_fetch_waits_costs_nobody_a_record(
    target: Target, member: Member, group: str, topic_id: uuid.UUID
) -> None:
    assert member.fetch().error_code == NONE
    gone = Member(target, group, topic_id)
    assert gone.fetch().error_code == NONE
    gone.connection.send(request("share_fetch", VERSION, **gone.fetch_body(max_wait=30_000)))
    gone.connection.socket.close()
    first, last = member.acquire()
    assert member.acknowledge(first, last, [1]) == (NONE, NONE)
