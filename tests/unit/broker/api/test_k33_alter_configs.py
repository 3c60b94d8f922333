"""AlterConfigs through bytes in every version."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.cluster.image import RESOURCE_TOPIC
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)


@pytest.mark.parametrize("version", versions_of(AlterConfigsRequest))
def test_every_version(version: int) -> None:
    broker = AdminBroker()
    broker.create("t", segment_ms="5")
    resources = [
        AlterConfigsResource(
            resource_type=RESOURCE_TOPIC,
            resource_name=name,
            configs=[AlterableConfig(name="retention.ms", value="7")],
        )
        for name in ("t", "nope")
    ]
    done, unknown = broker.call(AlterConfigsRequest(resources=resources), version).responses
    assert (done.resource_name, done.error_code, done.error_message) == ("t", 0, None)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.image.topic_configs("t") == {"retention.ms": "7"}
