"""Subscriptions to clients' metrics, and what they push."""

import struct
from typing import Any

import pytest

from headrace.broker.telemetry import ClientTelemetry, subscription_of
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.compression import Compression, compress
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from headrace.wire.kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.list_config_resources import ListConfigResourcesRequest
from headrace.wire.kafka.messages.push_telemetry import PushTelemetryRequest
from headrace.wire.kafka.telemetry import TelemetryError, read_points

CLIENT_METRICS = 16
ABOUT = {
    "client_instance_id": "00",
    "client_id": "app-1",
    "client_software_name": "librdkafka",
    "client_software_version": "2.0",
    "client_source_address": "10.0.0.1",
    "client_source_port": "555",
}


def nested(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def metric(name: bytes, value: float, *, delta: bool = False) -> bytes:
    point = bytes([4 << 3 | 1]) + struct.pack("<d", value)
    data = nested(1, point) + (bytes([2 << 3, 1]) if delta else b"")
    return nested(2, nested(1, name) + nested(7 if delta else 5, data))


def otlp(*metrics: bytes) -> bytes:
    return nested(1, nested(2, b"".join(metrics)))


def test_numbers_are_found_in_otlp() -> None:
    content = otlp(metric(b"a.rate", 2.5), metric(b"b.count", 3.0, delta=True))
    assert [tuple(point) for point in read_points(content)] == [
        ("a.rate", 2.5, False),
        ("b.count", 3.0, True),
    ]


@pytest.mark.parametrize("content", [b"\x0a\x05\x00", b"\xff" * 11, b"\x0b", b"\x0a\x02\x12\x7f"])
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(TelemetryError):
        list(read_points(content))


def test_all_subscriptions_that_fit_count_together() -> None:
    subscriptions = {
        "a": {"metrics": "org.apache.kafka.producer", "interval.ms": "60000"},
        "b": {"metrics": "consumer.", "interval.ms": "1000", "match": "client_id=app-.*"},
        "c": {"metrics": "*", "match": "client_software_name=other"},
    }
    found = subscription_of(ABOUT, subscriptions)
    assert found.metrics == ("consumer.", "org.apache.kafka.producer")
    assert found.push_interval_ms == 1000
    assert subscription_of(ABOUT, {}).metrics == ()
    assert subscription_of({**ABOUT, "client_software_name": "other"}, subscriptions).metrics == (
        "",
    )


def test_pushes_are_kept_while_their_client_lives() -> None:
    telemetry = ClientTelemetry(max_bytes=1000)
    wanted = telemetry.subscribe(b"i" * 16, ABOUT, {"a": {"metrics": "*"}}, 0)

    def push(content: bytes, codec: int = 0, number: int | None = None) -> ErrorCode:
        subscription_id = wanted.subscription_id if number is None else number
        return telemetry.push(b"i" * 16, subscription_id, codec, content, is_last=False, now_ms=10)

    content = otlp(metric(b"sent", 2.0, delta=True), metric(b"rate", 7.0))
    assert push(content) == ErrorCode.NONE
    assert push(compress(Compression.ZSTD, content), Compression.ZSTD) == ErrorCode.NONE
    rows = {name: value for _, _, name, value in telemetry.rows(20)}
    assert rows == {"sent": 4.0, "rate": 7.0}
    assert push(content, number=1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert push(bytes(2000)) == ErrorCode.TELEMETRY_TOO_LARGE
    assert push(b"\x0b") == ErrorCode.INVALID_RECORD
    assert push(content, codec=9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert not list(telemetry.rows(10_000_000))


def configure(broker: SimulatedBroker, name: str, *pairs: tuple[str, str | None, int]) -> int:
    resource = AlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, value=value, config_operation=operation)
            for key, value, operation in pairs
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return int(broker.connect().ask(request, 1).responses[0].error_code)


def test_a_whole_conversation() -> None:
    broker = SimulatedBroker()
    assert configure(broker, "s", ("metrics", "a,b", 0), ("interval.ms", "5000", 0)) == 0
    assert configure(broker, "s", ("metrics", "c", 2)) == 0
    assert configure(broker, "s", ("interval.ms", "5", 0)) == ErrorCode.INVALID_CONFIG
    assert configure(broker, "s", ("match", "nobody=x", 0)) == ErrorCode.INVALID_CONFIG
    assert configure(broker, "s", ("nonsense", "x", 0)) == ErrorCode.INVALID_CONFIG
    assert configure(broker, "", ("metrics", "x", 0)) == ErrorCode.INVALID_REQUEST
    assert described(broker, "s") == {"metrics": "a,b,c", "interval.ms": "5000", "match": ""}
    assert described(broker, "none") == {}
    client = broker.connect()
    client.ask(ApiVersionsRequest(client_software_name="app", client_software_version="1"), 3)
    assert 71 in advertised(broker)
    told = client.ask(GetTelemetrySubscriptionsRequest(), 0)
    assert told.requested_metrics == ["a", "b", "c"]
    assert told.push_interval_ms == 5000
    assert any(told.client_instance_id)
    push = PushTelemetryRequest(
        client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id,
        metrics=otlp(metric(b"a.x", 1.0)),
    )
    assert client.ask(push, 0).error_code == 0
    rows = list(broker.broker.telemetry.rows(broker.clock.monotonic_ms()))
    assert rows == [("simulated", "app 1", "a.x", 1.0)]


def advertised(broker: SimulatedBroker) -> list[int]:
    request = ApiVersionsRequest(client_software_name="app", client_software_version="1")
    return [each.api_key for each in broker.connect().ask(request, 3).api_keys]


def test_clients_are_not_bothered_while_nobody_asks() -> None:
    broker = SimulatedBroker()
    assert not {71, 72} & set(advertised(broker))
    configure(broker, "s", ("metrics", "a", 0))
    broker.kill()
    broker.start()
    assert {71, 72} <= set(advertised(broker))
    configure(broker, "s", ("metrics", None, 1))
    assert not {71, 72} & set(advertised(broker))


def described(broker: SimulatedBroker, name: str) -> dict[str, str | None]:
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name)
    answer = broker.connect().ask(DescribeConfigsRequest(resources=[resource]), 4)
    return {each.name: each.value for each in answer.results[0].configs}


def test_resources_with_configs_are_listed() -> None:
    broker = SimulatedBroker()
    broker.create_topic("t")
    configure(broker, "s", ("metrics", "a", 0))

    def listed(version: int, *types: int) -> Any:
        request = ListConfigResourcesRequest(resource_types=list(types) if version else [])
        return broker.connect().ask(request, version)

    assert [each.resource_name for each in listed(0).config_resources] == ["s"]
    by_type = [(each.resource_type, each.resource_name) for each in listed(1).config_resources]
    assert (2, "t") in by_type
    assert (16, "s") in by_type
    assert any(kind == 4 for kind, _ in by_type)
    assert [each.resource_name for each in listed(1, 2).config_resources] == ["t"]
    assert listed(1, 77).error_code == ErrorCode.UNSUPPORTED_VERSION
