"""Metadata in every version."""

import pytest
from tests.unit.broker.api.admin_broker import (
    CLUSTER_ID,
    HOST,
    NODE_ID,
    PORT,
    AdminBroker,
    versions_of,
)

from headrace.broker.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord

VERSIONS = versions_of(MetadataRequest)
NO_CREATION = {"auto.create.topics.enable": "false"}


def request_for(*names: str, **fields: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def request_by_id(*ids: bytes) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
    )


def outcomes(response: MetadataResponse) -> list[tuple[str | None, int, int]]:
    return [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_topic_in_every_version(version: int) -> None:
    broker = AdminBroker()
    broker.create("t", 3)
    response = broker.call(request_for("t"), version)
    assert outcomes(response) == [("t", 0, 3)]
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(NODE_ID, HOST, PORT)]
    partition = response.topics[0].partitions[2]
    assert (partition.error_code, partition.partition_index, partition.leader_id) == (0, 2, 1)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == (
        [1],
        [1],
        [],
    )
    assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert response.controller_id == (NODE_ID if version >= 1 else -1)
    topic_id = broker.image.topics_by_name["t"].topic_id
    assert response.topics[0].topic_id == (topic_id if version >= 10 else bytes(16))
    assert response.cluster_authorized_operations == NOT_ASKED
    assert response.topics[0].topic_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_and_none(version: int) -> None:
    broker = AdminBroker()
    broker.create("a")
    broker.create("b", 2)
    everything = [("a", 0, 1), ("b", 0, 2)]
    if version == 0:
        assert outcomes(broker.call(request_for(), 0)) == everything
    else:
        assert outcomes(broker.call(MetadataRequest(topics=None), version)) == everything
        assert outcomes(broker.call(request_for(), version)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_asked_for_is_created(version: int) -> None:
    broker = AdminBroker(flags={"num.partitions": "4"})
    assert outcomes(broker.call(request_for("new"), version)) == [("new", 0, 4)]
    assert "new" in broker.image.topics_by_name


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 4])
def test_a_client_may_ask_not_to_create(version: int) -> None:
    broker = AdminBroker()
    response = broker.call(request_for("new", allow_auto_topic_creation=False), version)
    assert outcomes(response) == [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    assert not broker.image.topics_by_name


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_may_refuse_to_create(version: int) -> None:
    broker = AdminBroker(flags=NO_CREATION)
    response = broker.call(request_for("new"), version)
    assert outcomes(response) == [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]


@pytest.mark.parametrize("flags", [{}, NO_CREATION])
@pytest.mark.parametrize("name", ["", ".", "a b", "a/b", "ä", "x" * 250, "../../etc/x"])
def test_illegal_names_are_not_created(name: str, flags: dict[str, str]) -> None:
    broker = AdminBroker(flags=flags)
    response = broker.call(request_for(name), 12)
    assert outcomes(response) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, 0)]
    assert not broker.image.topics_by_name


def test_a_name_that_collides_is_refused_and_the_others_are_made() -> None:
    broker = AdminBroker()
    broker.create("a.b")
    response = broker.call(request_for("a_b", "c"), 9)
    assert outcomes(response) == [("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION, 0), ("c", 0, 1)]


def test_the_quorums_topic_is_neither_there_nor_made() -> None:
    response = AdminBroker().call(request_for("__cluster_metadata"), 9)
    assert outcomes(response) == [("__cluster_metadata", 3, 0)]


def test_the_offsets_topic_is_made_in_its_own_shape() -> None:
    broker = AdminBroker()
    response = broker.call(request_for("__consumer_offsets", "t"), 9)
    assert outcomes(response) == [("__consumer_offsets", 0, 50), ("t", 0, 1)]
    assert response.topics[0].is_internal
    assert not response.topics[1].is_internal
    assert broker.image.topic_configs("__consumer_offsets") == {"cleanup.policy": "compact"}


def test_a_topic_named_twice_is_answered_once() -> None:
    assert outcomes(AdminBroker().call(request_for("t", "t"), 9)) == [("t", 0, 1)]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(version: int) -> None:
    broker = AdminBroker()
    broker.create("t", 2)
    topic_id = broker.image.topics_by_name["t"].topic_id
    response = broker.call(request_by_id(topic_id, b"u" * 16), version)
    assert outcomes(response) == [("t", 0, 2), (None, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    assert [topic.topic_id for topic in response.topics] == [topic_id, b"u" * 16]
    assert outcomes(broker.call(request_by_id(bytes(16)), version)) == [
        ("", ErrorCode.INVALID_REQUEST, 0)
    ]


def test_ids_with_an_empty_name_are_each_answered_once() -> None:
    """As Java's members ask for what they were assigned when a pattern is their subscription."""
    broker = AdminBroker()
    broker.create("t", 2)
    broker.create("u", 3)
    ids = [broker.image.topics_by_name[name].topic_id for name in ("t", "u", "t")]
    asked = [MetadataRequestTopic(topic_id=topic_id, name="") for topic_id in ids]
    response = broker.call(MetadataRequest(topics=asked), 13)
    assert outcomes(response) == [("t", 0, 2), ("u", 0, 3)]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_their_time(version: int) -> None:
    response = AdminBroker().call(request_by_id(b"u" * 16), version)
    assert outcomes(response) == [("", ErrorCode.INVALID_REQUEST, 0)]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 8])
def test_authorized_operations_if_asked(version: int) -> None:
    broker = AdminBroker()
    response = broker.call(
        request_for(
            "t",
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=version <= 10,
        ),
        version,
    )
    assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
    expected = CLUSTER_OPERATIONS if version <= 10 else NOT_ASKED
    assert response.cluster_authorized_operations == expected


def test_the_bits_are_kafkas() -> None:
    assert (TOPIC_OPERATIONS, CLUSTER_OPERATIONS) == (3576, 8096)


@pytest.mark.parametrize(("version", "error"), [(5, 5), (6, 72), (13, 72)])
def test_a_leader_that_this_listener_can_not_show(version: int, error: int) -> None:
    broker = AdminBroker(broker_ids=(1, 2))
    broker.create("t", 2)
    leaders = {p.leader: p.index for p in broker.image.topics_by_name["t"].partitions}
    del broker.image.brokers[2]
    partitions = broker.call(request_for("t"), version).topics[0].partitions
    hidden = partitions[leaders[2]]
    assert (hidden.error_code, hidden.leader_id, hidden.offline_replicas) == (error, -1, [2])
    assert partitions[leaders[1]].error_code == 0


def test_other_brokers_by_what_they_registered() -> None:
    broker = AdminBroker(broker_ids=(1, 2))
    brokers = broker.call(request_for(), 12).brokers
    assert [(b.node_id, b.host, b.port) for b in brokers] == [(1, HOST, PORT), (2, "broker2", 9092)]


def test_a_partition_without_a_leader() -> None:
    broker = AdminBroker()
    broker.create("t")
    topic_id = broker.image.topics_by_name["t"].topic_id
    broker.image.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1))
    (partition,) = broker.call(request_for("t"), 12).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
