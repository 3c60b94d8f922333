"""Log directories: which replica lies where, and what goes with a lost one."""

import pytest
from tests.unit.cluster.images import (
    TOPIC_ID,
    context_of,
    directory_of,
    image_of,
    partition_of,
    replayed,
)

from headrace.cluster.brokers import decide_broker_heartbeat
from headrace.cluster.directories import decide_assign_replicas_to_dirs
from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.metadata_records import BrokerRegistrationChangeRecord

SECOND = b"2" * 16


def assign(
    image: ClusterImage,
    directory: bytes,
    *indexes: int,
    broker_id: int = 1,
    topic_id: bytes = TOPIC_ID,
) -> tuple[ClusterImage, list[int]]:
    topic = TopicData(
        topic_id=topic_id, partitions=[PartitionData(partition_index=index) for index in indexes]
    )
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=100 + broker_id,
        directories=[DirectoryData(id=directory, topics=[topic])],
    )
    records, response = decide_assign_replicas_to_dirs(image, request, context_of())
    assert response.error_code == 0
    assert response.directories[0].id == directory
    results = response.directories[0].topics[0].partitions
    assert [each.partition_index for each in results] == list(indexes)
    return replayed(image, records), [each.error_code for each in results]


def test_a_replica_is_noted_where_it_lies() -> None:
    image = image_of({"replicas": [1, 2]})
    after, codes = assign(image, directory_of(1), 0)
    partition = partition_of(after)
    assert codes == [0]
    assert partition.directories == (directory_of(1), bytes(16))
    assert (partition.leader, partition.leader_epoch) == (1, 5)
    assert assign(after, directory_of(1), 0, 0)[0] == after


def test_a_replica_in_a_directory_that_is_not_online_can_not_lead() -> None:
    image = image_of({"replicas": [1, 2]}, {"replicas": [1]})
    after, codes = assign(image, SECOND, 0, 1)
    assert codes == [0, 0]
    assert (partition_of(after, 0).leader, partition_of(after, 0).isr) == (2, (2,))
    assert (partition_of(after, 1).leader, partition_of(after, 1).isr) == (NO_LEADER, (1,))
    assert after.offline_replicas(partition_of(after, 0)) == [1]


def test_the_codes() -> None:
    image = image_of({"replicas": [2]})
    assert assign(image, SECOND, 0, 7) == (
        image,
        [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    )
    assert assign(image, SECOND, 0, topic_id=b"?" * 16) == (image, [ErrorCode.UNKNOWN_TOPIC_ID])


@pytest.mark.parametrize(
    ("broker_id", "error"),
    [(1, ErrorCode.STALE_BROKER_EPOCH), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_a_replaced_process_is_not_heard(broker_id: int, error: ErrorCode) -> None:
    request = AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=7)
    records, response = decide_assign_replicas_to_dirs(image_of(), request, context_of())
    assert (records, response.error_code) == ([], error)


def test_a_lost_directory_takes_its_replicas_along() -> None:
    image = image_of(
        {"replicas": [1, 2], "directories": [SECOND, directory_of(2)]},
        {"replicas": [1, 2], "directories": [directory_of(1), directory_of(2)]},
    )
    two = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=101, log_dirs=[directory_of(1), SECOND]
    )
    image.replay(two)
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=101, current_metadata_offset=1000, offline_log_dirs=[SECOND]
    )
    records, response = decide_broker_heartbeat(image, heartbeat, context_of(1))
    after = replayed(image, records)
    assert not response.is_fenced
    assert after.brokers[1].log_dirs == (directory_of(1),)
    assert (partition_of(after, 0).leader, partition_of(after, 0).isr) == (2, (2,))
    assert partition_of(after, 1) == partition_of(image, 1)
    assert decide_broker_heartbeat(after, heartbeat, context_of(1))[0] == []


def test_the_last_directory_takes_all_its_replicas_and_is_told_once() -> None:
    image = image_of({"replicas": [1, 2], "directories": [directory_of(1), directory_of(2)]})
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=101,
        current_metadata_offset=1000,
        offline_log_dirs=[directory_of(1)],
    )
    records, _ = decide_broker_heartbeat(image, heartbeat, context_of(1))
    after = replayed(image, records)
    assert (partition_of(after).leader, partition_of(after).isr) == (2, (2,))
    assert decide_broker_heartbeat(after, heartbeat, context_of(1))[0] == []
