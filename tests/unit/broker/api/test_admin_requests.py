"""Any well-formed admin request is answered: with an error perhaps, with an exception never.

Requests are drawn from the messages' own schema tables; names are drawn so that they often
mean something.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.wire.kafka.message import Field, Message
from headrace.wire.kafka.messages.alter_client_quotas import AlterClientQuotasRequest
from headrace.wire.kafka.messages.alter_configs import AlterConfigsRequest
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest
from headrace.wire.kafka.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.kafka.messages.create_topics import CreateTopicsRequest
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.describe_client_quotas import DescribeClientQuotasRequest
from headrace.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.kafka.messages.describe_configs import DescribeConfigsRequest
from headrace.wire.kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.kafka.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.kafka.messages.metadata import MetadataRequest

REQUESTS = (
    MetadataRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    CreatePartitionsRequest,
    DescribeConfigsRequest,
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
)

WORDS = (
    "there",
    "new.topic",
    "new_topic",
    "a b",
    "",
    "1",
    "-1",
    "cleanup.policy",
    "retention.ms",
    "log.retention.ms",
    "node.id",
    "compact",
    "__consumer_offsets",
    "__cluster_metadata",
)
STRINGS = st.one_of(st.sampled_from(WORDS), st.text(max_size=8).filter(lambda s: s.isprintable()))
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def numbers(bits: int) -> st.SearchStrategy[int]:
    near = st.sampled_from((-2, -1, 0, 1, 2, 3, 4, 8, 16, 32))
    return st.one_of(near, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def values(field: Field, version: int) -> st.SearchStrategy[Any]:
    one: st.SearchStrategy[Any]
    if not isinstance(field.type, str):
        one = messages(field.type, version)
    elif field.type in BITS:
        one = numbers(BITS[field.type])
    elif field.type == "bool":
        one = st.booleans()
    elif field.type == "string":
        one = STRINGS
    elif field.type == "float64":
        one = st.floats()
    else:
        assert field.type == "uuid", field.type
        one = st.sampled_from((bytes(16), b"u" * 16, bytes(15) + b"\1"))
    drawn = st.lists(one, max_size=3) if field.array else one
    nullable = field.null_since <= version <= field.null_until
    return st.one_of(st.none(), drawn) if nullable else drawn


def messages(kind: type[Message], version: int) -> st.SearchStrategy[Any]:
    fields = {
        field.name: values(field, version)
        for field in kind.FIELDS
        if field.since <= version <= field.until
    }
    return st.builds(kind, **fields)


@pytest.mark.parametrize(
    ("kind", "version"),
    [(kind, version) for kind in REQUESTS for version in versions_of(kind)],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_request_is_answered(kind: type[Message], version: int, data: st.DataObject) -> None:
    broker = AdminBroker(broker_ids=(1, 2))
    broker.create("there", 2)
    requests = data.draw(st.lists(messages(kind, version), min_size=1, max_size=3))
    for request in requests:
        broker.call(request, version)
    assert not broker.cluster.failures
    assert broker.image == broker.cluster.host.state
    broker.cluster.disk.kill()
    before = decided(broker)
    broker.cluster.open()
    assert decided(broker) == before


def decided(broker: AdminBroker) -> dict[str, tuple[bytes, list[tuple[int, ...]]]]:
    """What a start must find again. Who leads may change: the broker says that it lost its life."""
    return {
        name: (topic.topic_id, [partition.replicas for partition in topic.partitions])
        for name, topic in broker.image.topics_by_name.items()
    }
