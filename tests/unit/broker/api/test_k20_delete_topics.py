"""DeleteTopics through bytes in every version."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_every_version(version: int) -> None:
    broker = AdminBroker()
    broker.create("t")
    topic_id = broker.image.topics_by_name["t"].topic_id
    if version >= 6:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="t"), DeleteTopicState(name="nope")]
        )
    else:
        request = DeleteTopicsRequest(topic_names=["t", "nope"])
    gone, unknown = broker.call(request, version).responses
    assert (gone.name, gone.error_code, gone.error_message) == ("t", 0, None)
    assert gone.topic_id == (topic_id if version >= 6 else bytes(16))
    assert (unknown.name, unknown.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert bool(unknown.error_message) == (version >= 5)
    assert not broker.image.topics_by_name
