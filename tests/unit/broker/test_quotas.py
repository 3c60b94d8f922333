"""Rates, precedence and throttling of clients with quotas."""

from typing import Any

import pytest
from tests.unit.broker.dialogue import batch, dialogue, wanted

from headrace.base.broker_config import BrokerConfig
from headrace.broker import session
from headrace.broker.quotas import ClientQuotas, Rate, TokenBucket
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.metadata import MetadataRequest
from headrace.wire.kafka.records import build_batch


def test_a_rate_over_its_quota_waits_until_it_is_kept_again() -> None:
    rate = Rate(sample_ms=1000, count_max=11)
    rate.record(500, 0)
    assert rate.throttle_ms(100, 0) == 0, "over ten seconds 500 are 50 a second"
    rate.record(1500, 500)
    throttle_ms = rate.throttle_ms(100, 500)
    # The window covers ten seconds from the first sample: 2000 there are 200 a second.
    assert throttle_ms == pytest.approx(10_000, rel=0.1)
    assert rate.throttle_ms(100, 11_000) == 0


def test_what_is_held_back_keeps_the_rate_in_the_long_run() -> None:
    rate, quota, now_ms, sent = Rate(1000, 11), 1000.0, 0, 0
    while now_ms < 120_000:
        rate.record(700, now_ms)
        sent += 700
        now_ms += 5 + rate.throttle_ms(quota, now_ms)
    assert sent / (now_ms / 1000) == pytest.approx(quota, rel=0.25)


def test_a_bucket_allows_a_burst_and_waits_for_its_debt() -> None:
    bucket = TokenBucket(burst_s=11)
    bucket.take(22, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 0
    bucket.take(4, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 2000
    assert bucket.throttle_ms(2.0, 2000) == 0


def entity(**names: str | None) -> frozenset[tuple[str, str | None]]:
    return frozenset((kind.replace("_", "-"), name) for kind, name in names.items())


def test_the_most_specific_quota_counts() -> None:
    everything = [
        (entity(user="u", client_id="c"), 1.0),
        (entity(user="u", client_id=None), 2.0),
        (entity(user="u"), 3.0),
        (entity(user=None, client_id="c"), 4.0),
        (entity(user=None, client_id=None), 5.0),
        (entity(user=None), 6.0),
        (entity(client_id="c"), 7.0),
        (entity(client_id=None), 8.0),
    ]
    quotas = ClientQuotas(BrokerConfig.of({}))
    for first in range(len(everything)):
        quotas.set({each: {"producer_byte_rate": value} for each, value in everything[first:]})
        found = quotas.quota_of("producer_byte_rate", "u", "c")
        assert found is not None
        assert found[0] == first + 1
    quotas.set({})
    assert not quotas.is_set
    assert quotas.quota_of("producer_byte_rate", "u", "c") is None


def test_a_users_quota_is_shared_by_its_clients() -> None:
    quotas = ClientQuotas(BrokerConfig.of({}))
    quotas.set({entity(user="u"): {"producer_byte_rate": 10.0}})
    assert quotas.of("u", "a").on_produced(90, 0) == 0
    assert quotas.of("u", "b").on_produced(90, 0) > 0
    assert quotas.of("v", "b").on_produced(900, 0) == 0


def test_time_of_requests_is_a_share_of_one_thread() -> None:
    quotas = ClientQuotas(BrokerConfig.of({}))
    quotas.set({entity(client_id="c"): {"request_percentage": 5.0}})
    limits = quotas.of("u", "c")
    assert limits.times_requests
    assert limits.on_requested(400, 0) == 0, "of ten seconds 0.4 are four percent"
    assert limits.on_requested(400, 0) == 1000, "never longer than one sample"
    assert not quotas.of("u", "d").times_requests


def op(key: str, value: float | None) -> OpData:
    return OpData(key=key, value=value or 0.0, remove=value is None)


def alter(broker: SimulatedBroker, ops: list[OpData], **names: str | None) -> Any:
    parts = [
        EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in names.items()
    ]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)])
    return broker.connect().ask(request, 1).entries[0]


def described(broker: SimulatedBroker, strict: bool, *components: ComponentData) -> Any:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    return broker.connect().ask(request, 1)


def test_quotas_are_set_described_and_removed() -> None:
    broker = SimulatedBroker()
    assert alter(broker, [op("producer_byte_rate", 1000.0)], client_id="a").error_code == 0
    assert alter(broker, [op("request_percentage", 12.5)], user=None).error_code == 0
    both = alter(broker, [op("consumer_byte_rate", 5.0)], user="u", client_id=None)
    assert both.error_code == 0
    assert len(described(broker, False).entries) == 3
    (found,) = described(
        broker, True, ComponentData(entity_type="client-id", match_type=0, match="a")
    ).entries
    assert [(v.key, v.value) for v in found.values] == [("producer_byte_rate", 1000.0)]
    any_client = ComponentData(entity_type="client-id", match_type=2, match=None)
    assert len(described(broker, False, any_client).entries) == 2
    assert len(described(broker, True, any_client).entries) == 1
    default_user = ComponentData(entity_type="user", match_type=1, match=None)
    assert len(described(broker, False, default_user).entries) == 1
    broker.kill()
    broker.start()
    assert broker.broker.quotas.is_set
    assert alter(broker, [op("producer_byte_rate", None)], client_id="a").error_code == 0
    assert len(described(broker, False).entries) == 2


@pytest.mark.parametrize(
    ("names", "ops"),
    [
        ({}, [op("producer_byte_rate", 1.0)]),
        ({"user": ""}, [op("producer_byte_rate", 1.0)]),
        ({"group": "g"}, [op("producer_byte_rate", 1.0)]),
        ({"ip": "127.0.0.1", "user": "u"}, [op("connection_creation_rate", 1.0)]),
        ({"ip": "127.0.0.1"}, [op("producer_byte_rate", 1.0)]),
        ({"user": "u"}, [op("connection_creation_rate", 1.0)]),
        ({"user": "u"}, [op("nonsense", 1.0)]),
        ({"user": "u"}, [op("producer_byte_rate", -1.0)]),
        ({"user": "u"}, [op("producer_byte_rate", 1.5)]),
        ({"user": "u"}, [op("producer_byte_rate", 1.0), op("producer_byte_rate", 2.0)]),
    ],
)
def test_nonsense_is_refused(names: dict[str, str], ops: list[OpData]) -> None:
    answer = alter(SimulatedBroker(), ops, **names)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message


def put(client: Any, size: int) -> Any:
    return client.produce("t", 0, bytes(build_batch([(b"k", bytes(size), (), 1)])))


def test_a_producer_over_its_quota_is_told_and_muted() -> None:
    broker, client = dialogue("t", partitions=1)
    assert alter(broker, [op("producer_byte_rate", 1000.0)], client_id=None).error_code == 0
    put(client, 5_000)
    assert broker.broker.quotas.throttled_count == 0
    put(client, 10_000)
    assert broker.broker.quotas.throttled_count == 1
    assert 3_000 < broker.broker.quotas.throttled_ms < 7_000
    raw = client
    raw.transport.feed(raw.frame(MetadataRequest(topics=None), 12))
    broker.settle()
    assert raw.transport.take() == [], "it is muted"
    broker.advance(8_000)
    assert len(raw.transport.take()) == 1


def slow_requests(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, took_ms: int) -> None:
    """Every Produce and Fetch takes the loop that long."""
    for name in ("parse_produce", "parse_fetch"):

        def parse(*arguments: Any, of: Any = getattr(session, name)) -> Any:
            broker.clock.advance(took_ms)
            return of(*arguments)

        monkeypatch.setattr(session, name, parse)


@pytest.mark.parametrize("version", [8, 11])
def test_a_produce_that_took_too_long_is_told_and_muted(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    broker, client = dialogue("t", partitions=1)
    alter(broker, [op("request_percentage", 5.0)], client_id=None)
    slow_requests(broker, monkeypatch, 800)
    request = client.produce_request("t", {0: batch("a")}, version=version)
    assert client.ask(request, version).throttle_time_ms == 1_000
    client.transport.feed(client.frame(MetadataRequest(topics=None), 12))
    broker.settle()
    assert client.transport.take() == [], "it is muted"
    broker.advance(1_500)
    assert len(client.transport.take()) == 1


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("max_wait_ms", [0, 300])
def test_a_fetch_that_took_too_long_is_told_in_its_answer_now_or_later(
    monkeypatch: pytest.MonkeyPatch, version: int, max_wait_ms: int
) -> None:
    broker, client = dialogue("t", partitions=1)
    alter(broker, [op("request_percentage", 5.0)], client_id=None)
    slow_requests(broker, monkeypatch, 800)
    asked = client.fetch_request(
        {"t": [wanted(0, 0)]}, version, max_wait_ms=max_wait_ms, min_bytes=1
    )
    client.transport.feed(client.frame(asked, version))
    broker.settle()
    if max_wait_ms:
        assert client.transport.take() == []
        broker.advance(max_wait_ms)
    (answer,) = client.answers(FetchRequest, version)
    assert answer.error_code == 0
    assert answer.throttle_time_ms == 1_000


def test_the_longer_of_two_times_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, client = dialogue("t", partitions=1)
    put(client, 20_000)
    alter(broker, [op("consumer_byte_rate", 1000.0), op("producer_byte_rate", 1.0)], client_id=None)
    alter(broker, [op("request_percentage", 5.0)], client_id=None)
    slow_requests(broker, monkeypatch, 800)
    asked = client.fetch_request({"t": [wanted(0, 0)]}, 12)
    assert client.ask(asked, 12).throttle_time_ms > 5_000
    broker.advance(60_000)
    produce = client.produce_request("t", {0: batch("a")})
    assert client.ask(produce, 11).throttle_time_ms > 5_000


def test_mutations_over_the_quota_are_refused_with_a_time() -> None:
    broker = SimulatedBroker()
    alter(broker, [op("controller_mutation_rate", 1.0)], client_id=None)

    def create(name: str, version: int) -> Any:
        topic = CreatableTopic(name=name, num_partitions=8, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        return broker.connect().ask(request, version)

    assert create("a", 7).topics[0].error_code == 0
    assert create("b", 7).topics[0].error_code == 0, "a burst of eleven seconds, and a debt"
    refused = create("c", 7)
    assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms == pytest.approx(5_000, abs=100)
    older = create("d", 5)
    assert older.topics[0].error_code == 0
    assert older.throttle_time_ms > 5_000
    broker.advance(20_000)
    assert create("c", 7).topics[0].error_code == 0


def test_connections_from_one_address_are_slowed_down() -> None:
    broker = SimulatedBroker()
    alter(broker, [op("connection_creation_rate", 1.0)], ip=None)
    for _ in range(10):
        broker.connect().ask(MetadataRequest(topics=None), 12)
    slow = broker.connect()
    slow.transport.feed(slow.frame(MetadataRequest(topics=None), 12))
    broker.settle()
    assert slow.transport.take() == []
    broker.advance(3_000)
    assert len(slow.transport.take()) == 1
