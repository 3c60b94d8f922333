"""Where the epochs of leaders ended, asked of the leaders of now."""

import pytest
from tests.unit.client.fake_broker import FakeBroker

from headrace.client.cluster import Cluster
from headrace.client.errors import ServerError
from headrace.client.leader_epochs import UNKNOWN_END, epoch_end_offsets
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.metadata import MetadataRequest
from headrace.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def serve(broker: FakeBroker, codes: list[int]) -> None:
    """Epoch 4 is the present one and has 70 records more; each answer takes the next code."""
    broker.topics |= {"events": 2, "orders": 1}

    def answer(request: OffsetForLeaderEpochRequest, _: int) -> OffsetForLeaderEpochResponse:
        code = codes.pop(0) if codes else 0
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        EpochEndOffset(
                            partition=each.partition,
                            error_code=code,
                            leader_epoch=min(each.leader_epoch, 4),
                            end_offset=-1 if each.leader_epoch > 4 else 10 * each.leader_epoch,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    broker.handlers[OffsetForLeaderEpochRequest] = answer


@pytest.mark.parametrize("version", [2, 3, 4])
def test_one_request_a_leader_tells_the_ends_of_epochs(
    broker: FakeBroker, cluster: Cluster, version: int
) -> None:
    broker.versions[OffsetForLeaderEpochRequest.API_KEY] = (2, version)
    serve(broker, [])
    asked = {("events", 0): 1, ("orders", 0): 3, ("events", 1): 9}
    assert epoch_end_offsets(cluster, asked) == {
        ("events", 0): 10,
        ("orders", 0): 30,
        ("events", 1): UNKNOWN_END,
    }
    (request,) = broker.requests(OffsetForLeaderEpochRequest)
    # As a client, not as a follower, and with the epoch that the metadata named.
    assert request.replica_id == (-1 if version >= 3 else -2)
    assert {p.current_leader_epoch for t in request.topics for p in t.partitions} == {0}
    assert epoch_end_offsets(cluster, {}) == {}
    assert len(broker.requests(OffsetForLeaderEpochRequest)) == 1


def test_who_is_no_longer_the_leader_is_not_believed(broker: FakeBroker, cluster: Cluster) -> None:
    serve(broker, [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
    assert epoch_end_offsets(cluster, {("events", 0): 2}) == {("events", 0): 20}
    assert len(broker.requests(MetadataRequest)) == 3


def test_other_errors_are_errors(broker: FakeBroker, cluster: Cluster) -> None:
    serve(broker, [ErrorCode.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(ServerError, match="leader epochs of events-0"):
        epoch_end_offsets(cluster, {("events", 0): 2})
