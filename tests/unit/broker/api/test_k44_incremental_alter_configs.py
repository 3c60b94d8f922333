"""IncrementalAlterConfigs through bytes in every version."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.cluster.configs import Operation
from headrace.cluster.image import RESOURCE_TOPIC
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


@pytest.mark.parametrize("version", versions_of(IncrementalAlterConfigsRequest))
def test_every_version(version: int) -> None:
    broker = AdminBroker()
    broker.create("t", segment_ms="5", cleanup_policy="compact,delete")
    changes = [
        AlterableConfig(name="retention.ms", config_operation=Operation.SET, value="7"),
        AlterableConfig(name="segment.ms", config_operation=Operation.DELETE, value=None),
        AlterableConfig(name="cleanup.policy", config_operation=Operation.SUBTRACT, value="delete"),
    ]
    resources = [
        AlterConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=name, configs=changes)
        for name in ("t", "nope")
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)
    done, unknown = broker.call(request, version).responses
    assert (done.resource_name, done.error_code, done.error_message) == ("t", 0, None)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.image.topic_configs("t") == {"retention.ms": "7", "cleanup.policy": "compact"}
