"""OffsetCommit in every version."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, commit, fetch, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)


@pytest.mark.parametrize("version", versions_of(OffsetCommitRequest))
def test_commit_in_every_version(version: int) -> None:
    broker = GroupBroker()
    outcome = commit(broker, version, {("t", 0): 11, ("t", 9): 12, ("nowhere", 0): 13})
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome == {
        ("t", 0): 0,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): missing,
    }
    assert fetch(broker, 5, {"t": [0]}) == (0, {("t", 0): (11, "note", 0)})


@pytest.mark.parametrize("version", versions_of(OffsetCommitRequest))
def test_commit_of_a_member_to_an_unknown_group(version: int) -> None:
    outcome = commit(
        GroupBroker(), version, {("t", 0): 1}, generation_id_or_member_epoch=3, member_id="m"
    )
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert outcome == {("t", 0): expected}


def test_a_retention_of_its_own() -> None:
    broker = GroupBroker()
    commit(broker, 3, {("t", 0): 1}, retention_time_ms=1_000)
    broker.stage.clock.jump_wall(1_000)
    assert broker.groups.commits.expire().value() == 1


def test_null_metadata_is_empty() -> None:
    broker = GroupBroker()
    topic = OffsetCommitRequestTopic(
        name="t",
        partitions=[OffsetCommitRequestPartition(committed_offset=1, committed_metadata=None)],
    )
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    assert broker.call(request, 8, OffsetCommitResponse).topics[0].partitions[0].error_code == 0
    assert fetch(broker, 7, {"t": [0]})[1] == {("t", 0): (1, "", 0)}


def test_the_empty_group_id_may_commit() -> None:
    broker = GroupBroker()
    request = OffsetCommitRequest(
        group_id="",
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(committed_offset=1)]
            )
        ],
    )
    assert broker.call(request, 8, OffsetCommitResponse).topics[0].partitions[0].error_code == 0
