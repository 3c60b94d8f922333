"""CreatePartitions through bytes in every version."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


@pytest.mark.parametrize("version", versions_of(CreatePartitionsRequest))
def test_every_version(version: int) -> None:
    broker = AdminBroker()
    broker.create("t", 2)
    wanted = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("t", "nope")]
    grown, unknown = broker.call(CreatePartitionsRequest(topics=wanted), version).results
    assert (grown.name, grown.error_code, grown.error_message) == ("t", 0, None)
    assert (unknown.name, unknown.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert len(broker.image.topics_by_name["t"].partitions) == 3
