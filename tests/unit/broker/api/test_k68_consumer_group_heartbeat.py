"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and what commits say of epochs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.api.group_broker import GroupBroker, enter, versions_of

from headrace.cluster.image import RESOURCE_GROUP
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from headrace.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.wire.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.wire.kafka.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)


@pytest.fixture
def broker() -> GroupBroker:
    found = GroupBroker()
    found.image.features["group.version"] = 1
    return found


def beat(
    broker: GroupBroker, member_id: str, epoch: int = 0, version: int = 1, /, **fields: object
) -> ConsumerGroupHeartbeatResponse:
    values: dict[str, object] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
    if epoch == 0:
        values |= {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        }
    request = ConsumerGroupHeartbeatRequest(**{**values, **fields})  # type: ignore[arg-type]
    return broker.call(request, version, ConsumerGroupHeartbeatResponse)


def describe(broker: GroupBroker, group_id: str = "g", version: int = 1) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    return broker.call(request, version, ConsumerGroupDescribeResponse).groups[0]


@pytest.mark.parametrize("version", versions_of(ConsumerGroupHeartbeatRequest))
def test_a_member_in_every_version(broker: GroupBroker, version: int) -> None:
    joined = beat(broker, "m" if version else "", 0, version)
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 1, 5_000)
    assert joined.member_id
    topic_id = broker.image.topics_by_name["t"].topic_id
    assert joined.assignment is not None
    assert [(t.topic_id, t.partitions) for t in joined.assignment.topic_partitions] == [
        (topic_id, [0, 1, 2, 3])
    ]
    assert beat(broker, joined.member_id, 1, version).assignment is None
    group = describe(broker, version=version)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 1, 1)
    assert (group.assignor_name, group.authorized_operations > 0) == ("uniform", True)
    (member,) = group.members
    assert (member.member_id, member.member_epoch) == (joined.member_id, 1)
    assert member.subscribed_topic_names == ["t"]
    assert member.member_type == (1 if version else -1)
    assert [t.topic_name for t in member.assignment.topic_partitions] == ["t"]
    assert member.target_assignment == member.assignment
    assert beat(broker, joined.member_id, -1, version).member_epoch == -1
    assert describe(broker, version=version).group_state == "Empty"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions(partitions=[1])]}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 5}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_is_refused(broker: GroupBroker, fields: dict[str, object], error: ErrorCode) -> None:
    refused = beat(broker, "m", **fields)
    assert ErrorCode.of(refused.error_code) is error
    assert refused.error_message
    listed = broker.call(ListGroupsRequest(), 5, ListGroupsResponse)
    assert listed.groups == []


def test_a_cluster_that_does_not_use_it(broker: GroupBroker) -> None:
    broker.image.features["group.version"] = 0
    assert beat(broker, "m").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_full_group() -> None:
    small = GroupBroker(config={"group.consumer.max.size": 1})
    small.image.features["group.version"] = 1
    assert beat(small, "a").error_code == 0
    assert beat(small, "b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert beat(small, "a", 1).error_code == 0


def test_intervals_of_one_group(broker: GroupBroker) -> None:
    broker.image.configs[RESOURCE_GROUP, "g"] = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "7000",
    }
    assert beat(broker, "m").heartbeat_interval_ms == 7_000
    broker.stage.pass_ms(49_000)
    assert len(describe(broker).members) == 1
    broker.stage.pass_ms(2_000)
    assert describe(broker).members == []


def test_kinds_are_kept_apart(broker: GroupBroker) -> None:
    beat(broker, "m")
    enter(broker, 9, group_id="old")
    assert describe(broker, "old").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(broker, "nope").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request = DescribeGroupsRequest(groups=["g"])
    (group,) = broker.call(request, 6, DescribeGroupsResponse).groups
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    for types, names in (([], {"g", "old"}), (["Consumer"], {"g"}), (["classic"], {"old"})):
        listed = broker.call(ListGroupsRequest(types_filter=types), 5, ListGroupsResponse)
        assert {each.group_id for each in listed.groups} == names


def commit(broker: GroupBroker, member_id: str, epoch: int, version: int = 10) -> list[ErrorCode]:
    topic = broker.image.topics_by_name["t"]
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name="t" if version < 10 else "",
                topic_id=topic.topic_id if version >= 10 else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=index + 1)
                    for index in (0, 3)
                ],
            )
        ],
    )
    answer = broker.call(request, version, OffsetCommitResponse)
    return [ErrorCode.of(each.error_code) for each in answer.topics[0].partitions]


def fetch(broker: GroupBroker, member_id: str | None, epoch: int) -> tuple[int, list[int]]:
    group = OffsetFetchRequestGroup(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        topics=[
            OffsetFetchRequestTopics(
                topic_id=broker.image.topics_by_name["t"].topic_id, partition_indexes=[0, 3]
            )
        ],
    )
    (found,) = broker.call(OffsetFetchRequest(groups=[group]), 10, OffsetFetchResponse).groups
    return found.error_code, [p.committed_offset for t in found.topics for p in t.partitions]


def test_offsets_and_epochs(broker: GroupBroker) -> None:
    ok, stale = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    beat(broker, "a")
    assert commit(broker, "a", 1) == [ok, ok]
    assert commit(broker, "a", 1, 9) == [ok, ok]
    assert commit(broker, "a", 1, 8) == [ErrorCode.UNSUPPORTED_VERSION] * 2
    assert commit(broker, "a", 2) == [stale, stale]
    assert commit(broker, "a", 0) == [stale, stale]
    assert commit(broker, "b", 1) == [unknown, unknown]
    assert commit(broker, "", -1) == [unknown, unknown]
    assert fetch(broker, "a", 1) == (0, [1, 4])
    assert fetch(broker, None, -1) == (0, [1, 4])
    assert fetch(broker, "a", 7)[0] == stale
    assert fetch(broker, "b", 1)[0] == unknown
    # With the next epoch the first member keeps 0 and gives up 3: its late commit counts for
    # what it has owned since that epoch.
    topic_id = broker.image.topics_by_name["t"].topic_id
    beat(broker, "b")
    beat(broker, "a", 1, topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=[0, 1])])
    beat(broker, "b", 2)
    assert describe(broker).group_state == "Stable"
    assert commit(broker, "a", 1) == [ok, stale]
    assert commit(broker, "b", 1) == [stale, stale]


def test_deleting_offsets_and_the_group(broker: GroupBroker) -> None:
    beat(broker, "a")
    commit(broker, "a", 1)

    def forget(topic: str) -> OffsetDeleteResponse:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ]
        request = OffsetDeleteRequest(group_id="g", topics=topics)
        return broker.call(request, 0, OffsetDeleteResponse)

    subscribed = forget("t").topics[0].partitions[0].error_code
    assert subscribed == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert forget("u").topics[0].partitions[0].error_code == 0
    request = DeleteGroupsRequest(groups_names=["g"])
    deleted = broker.call(request, 2, DeleteGroupsResponse)
    assert deleted.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    beat(broker, "a", -1)
    assert forget("t").topics[0].partitions[0].error_code == 0
    assert broker.call(request, 2, DeleteGroupsResponse).results[0].error_code == 0
    assert describe(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    broker.stage.restart()
    assert describe(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_log_that_refuses_changes_nothing(broker: GroupBroker) -> None:
    broker.stage.log.refusal = int(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert beat(broker, "a").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert describe(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    broker.stage.log.refusal = 0
    assert beat(broker, "a").error_code == 0
    broker.stage.log.refusal = int(ErrorCode.NOT_ENOUGH_REPLICAS)
    broker.stage.pass_ms(46_000)
    assert len(describe(broker).members) == 1
    broker.stage.log.refusal = 0
    broker.stage.pass_ms(1_000)
    assert describe(broker).members == []


def test_a_log_that_fails_later_is_read_anew(broker: GroupBroker) -> None:
    assert beat(broker, "a").error_code == 0
    log = broker.stage.log
    log.is_holding = True
    sizes = [len(records) for records in log.partitions]
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="b",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    joined = broker.ask(request, 1)
    assert not joined.settled
    assert len(describe(broker).members) == 2
    for records, size in zip(log.partitions, sizes, strict=True):
        del records[size:]
    log.is_holding = False
    log.release(int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    broker.stage.settle()
    assert joined.value().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [each.member_id for each in describe(broker).members] == ["a"]


TEXTS = st.sampled_from(["", "a", "b", " ", "t", "é", "(", "x" * 300])
PARTITIONS = st.lists(
    st.builds(
        TopicPartitions,
        topic_id=st.sampled_from([bytes(16), b"t".ljust(16, b"\x01"), b"?" * 16]),
        partitions=st.lists(st.sampled_from([-1, 0, 3, 2**31 - 1]), max_size=3),
    ),
    max_size=2,
)
NONSENSE = st.builds(
    ConsumerGroupHeartbeatRequest,
    group_id=st.sampled_from(["g", "g", "h", ""]),
    member_id=TEXTS,
    member_epoch=st.sampled_from([0, 0, 0, 1, 2, -1, -2, -3, 2**31 - 1, -(2**31)]),
    instance_id=st.none() | TEXTS,
    rack_id=st.none() | TEXTS,
    rebalance_timeout_ms=st.sampled_from([-1, 0, 60_000, 2**31 - 1, -5]),
    subscribed_topic_names=st.none() | st.lists(TEXTS, max_size=3),
    subscribed_topic_regex=st.none() | TEXTS,
    server_assignor=st.none() | st.sampled_from(["uniform", "range", ""]),
    topic_partitions=st.none() | PARTITIONS | st.just([]),
)


@given(requests=st.lists(NONSENSE, min_size=1, max_size=12), wait_ms=st.integers(0, 60_000))
@settings(max_examples=60, deadline=None)
def test_nonsense_is_answered(requests: list[ConsumerGroupHeartbeatRequest], wait_ms: int) -> None:
    broker = GroupBroker()
    broker.image.features["group.version"] = 1
    for request in requests:
        answer = broker.call(request, 1, ConsumerGroupHeartbeatResponse)
        assert (answer.error_code == 0) != bool(answer.error_message)
    broker.stage.pass_ms(wait_ms)
    before = describe(broker)
    broker.stage.restart()
    assert describe(broker) == before
