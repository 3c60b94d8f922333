"""OffsetCommit and OffsetFetch, which say little alone."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

UNKNOWN_ID = b"?" * 16


def _commit(
    broker: GroupBroker,
    version: int,
    offsets: dict[tuple[str, int], int],
    **fields: object,
) -> dict[tuple[str, int], int]:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
        if version >= 10:
            known = broker.image.topics_by_name.get(name)
            topic.topic_id = known.topic_id if known else UNKNOWN_ID
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata="note"
            )
        )
    request = OffsetCommitRequest(group_id="g", topics=list(topics.values()), **fields)  # type: ignore[arg-type]
    response = broker.call(request, version, OffsetCommitResponse)
    ids = {topic.topic_id: topic.name for topic in topics.values()}
    return {
        (ids[topic.topic_id] if version >= 10 else topic.name, partition.partition_index): (
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def _fetch(
    broker: GroupBroker, version: int, wanted: dict[str, list[int]] | None
) -> tuple[int, dict[tuple[str, int], tuple[int, str | None, int]]]:
    """The group's error, and (offset, metadata, error) of each partition."""
    if version < 8:
        topics = None
        if wanted is not None:
            topics = [
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in wanted.items()
            ]
        single = broker.call(
            OffsetFetchRequest(group_id="g", topics=topics), version, OffsetFetchResponse
        )
        return single.error_code, {
            (topic.name, p.partition_index): (p.committed_offset, p.metadata, p.error_code)
            for topic in single.topics
            for p in topic.partitions
        }
    by_name = broker.image.topics_by_name
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    if wanted is not None:
        group.topics = [
            OffsetFetchRequestTopics(
                name=name,
                topic_id=by_name[name].topic_id if name in by_name else UNKNOWN_ID,
                partition_indexes=indexes,
            )
            for name, indexes in wanted.items()
        ]
    response = broker.call(OffsetFetchRequest(groups=[group]), version, OffsetFetchResponse)
    (answer,) = response.groups
    names = {topic.topic_id: topic.name for topic in by_name.values()}
    return answer.error_code, {
        (
            names.get(topic.topic_id, "?") if version >= 10 else topic.name,
            p.partition_index,
        ): (p.committed_offset, p.metadata, p.error_code)
        for topic in answer.topics
        for p in topic.partitions
    }


@pytest.mark.parametrize("version", versions_of(OffsetCommitRequest))
def test_commit_in_every_version(version: int) -> None:
    broker = GroupBroker()
    outcome = _commit(broker, version, {("t", 0): 11, ("t", 9): 12, ("nowhere", 0): 13})
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome == {
        ("t", 0): 0,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): missing,
    }
    assert _fetch(broker, 5, {"t": [0]}) == (0, {("t", 0): (11, "note", 0)})


@pytest.mark.parametrize("version", versions_of(OffsetCommitRequest))
def test_commit_of_a_member_to_an_unknown_group(version: int) -> None:
    outcome = _commit(
        GroupBroker(), version, {("t", 0): 1}, generation_id_or_member_epoch=3, member_id="m"
    )
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert outcome == {("t", 0): expected}


def test_a_retention_of_its_own() -> None:
    broker = GroupBroker()
    _commit(broker, 3, {("t", 0): 1}, retention_time_ms=1_000)
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
    assert _fetch(broker, 7, {"t": [0]})[1] == {("t", 0): (1, "", 0)}


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


@pytest.mark.parametrize("version", versions_of(OffsetFetchRequest))
def test_fetch_in_every_version(version: int) -> None:
    broker = GroupBroker()
    none = {("t", 0): (-1, "", 0), ("t", 1): (-1, "", 0)}
    assert _fetch(broker, version, {"t": [0, 1]}) == (0, none)
    _commit(broker, 9, {("t", 0): 5, ("u", 2): 6})
    assert _fetch(broker, version, {"t": [0, 1]}) == (
        0,
        {("t", 0): (5, "note", 0), ("t", 1): (-1, "", 0)},
    )
    if version >= 2:
        every = {("t", 0): (5, "note", 0), ("u", 2): (6, "note", 0)}
        assert _fetch(broker, version, None) == (0, every)
        assert _fetch(broker, version, {}) == (0, {})
    error = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 0
    _, found = _fetch(broker, version, {"nowhere": [3]})
    assert list(found.values()) == [(-1, "", error)]


@pytest.mark.parametrize("version", versions_of(OffsetFetchRequest))
def test_fetch_from_the_wrong_broker(version: int) -> None:
    broker = GroupBroker()
    broker.stage.log.local.clear()
    error, found = _fetch(broker, version, {"t": [0]})
    if version == 1:
        assert found == {("t", 0): (-1, "", ErrorCode.NOT_COORDINATOR)}
    else:
        assert (error, found) == (ErrorCode.NOT_COORDINATOR, {})


def test_several_groups_at_once() -> None:
    broker = GroupBroker()
    _commit(broker, 9, {("t", 0): 5})
    wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    response = broker.call(
        OffsetFetchRequest(
            require_stable=True,
            groups=[
                OffsetFetchRequestGroup(group_id="g", topics=wanted),
                OffsetFetchRequestGroup(group_id="h", topics=wanted),
            ],
        ),
        9,
        OffsetFetchResponse,
    )
    found = {
        group.group_id: group.topics[0].partitions[0].committed_offset for group in response.groups
    }
    assert found == {"g": 5, "h": -1}
