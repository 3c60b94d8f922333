"""What follows from committed metadata: waiting for it, and an image that is replaced."""

from headrace.cluster.image import ClusterImage
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def test_waiting_ends_with_the_commit_or_with_time() -> None:
    broker = SimulatedBroker()
    seen = broker.broker.when_image(lambda image: "t" in image.topics_by_name, 1_000)
    never = broker.broker.when_image(lambda image: "other" in image.topics_by_name, 1_000)
    assert not seen.settled
    broker.create_topic("t")
    assert seen.value() is True
    assert broker.broker.when_image(lambda image: "t" in image.topics_by_name, 1).value() is True
    broker.advance(1_000)
    assert never.value() is False


def test_a_creation_is_seen_when_its_topics_are_here() -> None:
    broker = SimulatedBroker()
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", configs=[])])
    seen = broker.broker.until_seen(request, response, 1_000)
    assert not seen.settled
    broker.create_topic("t")
    assert seen.value() is True
    refused = CreateTopicsResponse(topics=[CreatableTopicResult(name="x", error_code=17)])
    assert broker.broker.until_seen(request, refused, 1_000).value() is True


def test_topics_that_a_new_image_lacks_are_gone() -> None:
    broker = SimulatedBroker()
    broker.create_topic("kept")
    broker.create_topic("deleted meanwhile".replace(" ", "-"))
    image = ClusterImage()
    records = [
        record
        for record in broker.node.host.committed.to_records()
        if getattr(record, "name", "") != "deleted-meanwhile"
        and getattr(record, "topic_id", None)
        != broker.broker.image.topics_by_name["deleted-meanwhile"].topic_id
    ]
    for record in records:
        image.replay(record)
    broker.broker.on_image_replaced(image)
    broker.broker.on_committed(records)
    assert broker.broker.image is image
    assert set(broker.broker.partitions.by_name) == {"kept"}
