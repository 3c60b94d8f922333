"""Metadata topics encoded by hand are the codec's, in every version and at every length."""

import pytest

from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.frames import decode_response, encode_response
from headrace.wire.kafka.hot_metadata import (
    LAST_TOPIC_LAYOUT,
    EncodedMetadataResponse,
    TopicLayout,
)
from headrace.wire.kafka.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSIONS = range(14)
TOPIC_ID = bytes(range(16))


def by_hand(version: int, topics: list[MetadataResponseTopic]) -> bytes:
    layout = TopicLayout(version)
    encoded = b""
    for topic in topics:
        encoded += layout.topic_start(
            topic.error_code, topic.name, topic.topic_id, topic.is_internal, len(topic.partitions)
        )
        for row in topic.partitions:
            encoded += layout.partition(
                row.error_code,
                row.partition_index,
                row.leader_id,
                row.leader_epoch,
                row.replica_nodes,
                row.isr_nodes,
                row.offline_replicas,
            )
        encoded += layout.topic_end(topic.topic_authorized_operations)
    brokers = [MetadataResponseBroker(node_id=1, host="h" * 200, port=1, rack=None)]
    response = EncodedMetadataResponse(
        encoded_topics=encoded,
        topic_count=len(topics),
        brokers=brokers,
        cluster_id="c" * 127,
        controller_id=7,
        cluster_authorized_operations=5,
    )
    return encode(response, version)


def by_codec(version: int, topics: list[MetadataResponseTopic]) -> bytes:
    brokers = [MetadataResponseBroker(node_id=1, host="h" * 200, port=1, rack=None)]
    response = MetadataResponse(
        topics=topics,
        brokers=brokers,
        cluster_id="c" * 127,
        controller_id=7,
        cluster_authorized_operations=5,
    )
    return encode(response, version)


def topic(name: str | None, partitions: int, replicas: int = 1) -> MetadataResponseTopic:
    nodes = list(range(replicas))
    return MetadataResponseTopic(
        error_code=3 if name is None else 0,
        name=name,
        topic_id=TOPIC_ID,
        is_internal=name == "__consumer_offsets",
        topic_authorized_operations=-7,
        partitions=[
            MetadataResponsePartition(
                error_code=index % 3,
                partition_index=index,
                leader_id=index - 1,
                leader_epoch=(1 << 31) - 1 - index,
                replica_nodes=nodes,
                isr_nodes=nodes[: index + 1],
                offline_replicas=nodes[index:],
            )
            for index in range(partitions)
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "topics",
    [
        [],
        [topic("t", 0)],
        [topic("é" * 70, 1), topic("__consumer_offsets", 3, 3)],
        [topic("many", 300, 2)],
        [topic("wide", 2, 126), topic("wider", 2, 127), topic("widest", 2, 20_000)],
        [topic(f"t{number}", 1) for number in range(200)],
    ],
    ids=["none", "no partitions", "two", "many", "wide", "200"],
)
def test_bytes_are_the_codecs(version: int, topics: list[MetadataResponseTopic]) -> None:
    assert by_hand(version, topics) == by_codec(version, topics)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_without_a_name(version: int) -> None:
    topics = [topic(None, 0)]
    assert by_hand(version, topics) == by_codec(version, topics)


def test_topics_look_the_same_from_some_version_on() -> None:
    one = topic("t", 5, 3)
    for version in range(LAST_TOPIC_LAYOUT, VERSIONS[-1] + 1):
        data = by_hand(version, [one])
        layout = TopicLayout(LAST_TOPIC_LAYOUT)
        assert layout.topic_start(0, "t", TOPIC_ID, False, 5) in data
        read, end = decode(MetadataResponse, data, version)
        assert end == len(data)
        assert read.topics == [one]


def test_it_goes_into_a_frame_as_any_response() -> None:
    response = EncodedMetadataResponse(encoded_topics=b"", topic_count=0, cluster_id="c")
    frame = encode_response(response, 12, 77)
    assert decode_response(MetadataResponse, frame[4:], 12) == (
        77,
        MetadataResponse(cluster_id="c"),
    )
