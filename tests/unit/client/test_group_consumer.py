"""A group's member that reads: where it starts, what it commits, how it comes back."""

import pytest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.test_consumer import Log, batch
from tests.unit.client.test_group import Coordination

from headrace.client.cluster import Cluster
from headrace.client.errors import ServerError
from headrace.client.group_consumer import GroupConsumer
from headrace.wire.kafka.messages.join_group import JoinGroupRequest
from headrace.wire.kafka.messages.leave_group import LeaveGroupRequest
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


class Alone(Coordination):
    """A coordinator whose group has no other member."""

    others = ()


@pytest.fixture
def group(broker: FakeBroker) -> Alone:
    group = Alone(broker)
    Log(broker, [batch(0, 5)], 0, 5)
    return group


def offsets(consumer: GroupConsumer) -> list[int]:
    return [record.offset for record in consumer.poll(0)]


def refuse_commits(broker: FakeBroker, code: int) -> None:
    def refuse(request: OffsetCommitRequest, _: int) -> OffsetCommitResponse:
        answer = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = OffsetCommitResponseTopic(name=request.topics[0].name, partitions=[answer])
        return OffsetCommitResponse(topics=[topic])

    broker.handlers[OffsetCommitRequest] = refuse


def test_what_was_read_is_committed_at_the_end(
    broker: FakeBroker, cluster: Cluster, group: Alone
) -> None:
    consumer = GroupConsumer(cluster, "g", ["events"])
    assert offsets(consumer) == [0, 1, 2, 3, 4]
    assert consumer.assigned == [("events", 0)]
    assert consumer.at_end({("events", 0): 5, ("events", 1): 99})
    consumer.close()
    assert group.offsets == {0: 5}
    assert len(broker.requests(LeaveGroupRequest)) == 1


def test_it_goes_on_from_the_committed_offset(cluster: Cluster, group: Alone) -> None:
    group.offsets = {0: 3}
    consumer = GroupConsumer(cluster, "g", ["events"])
    assert offsets(consumer) == [3, 4]
    consumer.close()


@pytest.mark.parametrize(
    ("code", "read_again"),
    [(22, [2, 3, 4]), (25, [2, 3, 4]), (27, [])],
    ids=["an old generation", "thrown out", "a rebalance, which still takes our commit"],
)
def test_a_member_that_was_left_behind_joins_again(
    broker: FakeBroker, cluster: Cluster, group: Alone, code: int, read_again: list[int]
) -> None:
    consumer = GroupConsumer(cluster, "g", ["events"])
    assert len(offsets(consumer)) == 5
    refuse_commits(broker, code)
    consumer.commit()
    assert consumer.member.must_rejoin
    broker.handlers[OffsetCommitRequest] = group.commit
    joins = len(broker.requests(JoinGroupRequest))
    group.offsets = {0: 2}
    assert offsets(consumer) == read_again
    assert len(broker.requests(JoinGroupRequest)) > joins
    consumer.close()


def test_a_commit_that_is_refused_for_good_is_told(
    broker: FakeBroker, cluster: Cluster, group: Alone
) -> None:
    consumer = GroupConsumer(cluster, "g", ["events"])
    offsets(consumer)
    refuse_commits(broker, 30)
    with pytest.raises(ServerError, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.close()
    assert group.generation == 1
    assert len(broker.requests(LeaveGroupRequest)) == 1


def test_closing_before_the_first_poll_is_quiet(cluster: Cluster, broker: FakeBroker) -> None:
    GroupConsumer(cluster, "g", ["events"]).close()
    assert broker.received == []
