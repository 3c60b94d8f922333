"""CreateTopics through bytes in every version.

What is decided is tested in `tests/unit/cluster`; here each version's shape is.
"""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


@pytest.mark.parametrize("version", versions_of(CreateTopicsRequest))
def test_every_version(version: int) -> None:
    broker = AdminBroker()
    good = CreatableTopic(
        name="t",
        num_partitions=2,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="5")],
    )
    bad = CreatableTopic(name="a b", num_partitions=1, replication_factor=1)
    made, refused = broker.call(CreateTopicsRequest(topics=[good, bad]), version).topics
    assert (made.name, made.error_code, made.error_message) == ("t", 0, None)
    assert (refused.name, refused.error_code) == ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert refused.error_message
    assert len(broker.image.topics_by_name["t"].partitions) == 2
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (2, 1)
        assert ("retention.ms", "5", 1) in [
            (config.name, config.value, config.config_source) for config in made.configs
        ]
    topic_id = broker.image.topics_by_name["t"].topic_id
    assert made.topic_id == (topic_id if version >= 7 else bytes(16))


def test_validate_only() -> None:
    broker = AdminBroker()
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1)
    (result,) = broker.call(CreateTopicsRequest(topics=[topic], validate_only=True), 4).topics
    assert result.error_code == 0
    assert not broker.image.topics_by_name
