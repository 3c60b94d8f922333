"""OffsetDelete."""

from tests.unit.broker.api.group_broker import GroupBroker, busy_broker

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


def _delete_offsets(
    broker: GroupBroker, group_id: str, index_of_u: int = 0
) -> OffsetDeleteResponse:
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
            )
            for name, index in (("t", 0), ("u", index_of_u), ("nowhere", 0))
        ],
    )
    return broker.call(request, 0, OffsetDeleteResponse)


def test_offset_delete() -> None:
    broker = busy_broker()
    answer = _delete_offsets(broker, "g")
    assert answer.error_code == 0
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
        "t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        "u": 0,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    answer = _delete_offsets(broker, "g", index_of_u=99)
    assert answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = _delete_offsets(broker, "nobody")
    assert (refused.error_code, refused.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert _delete_offsets(broker, "").error_code == ErrorCode.INVALID_GROUP_ID
