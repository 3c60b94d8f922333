"""What may be set for a single group, and how it fits with the broker's own keys."""

import pytest

from headrace.base.broker_config import BrokerConfig
from headrace.base.broker_keys import BROKER_CONFIG
from headrace.base.config import ConfigError
from headrace.base.group_config import GROUP_CONFIG, duration_ms, validate_group_configs

INTERVAL = "consumer.assignment.interval.ms"
BROKER = {name: key.default for name, key in BROKER_CONFIG.keys.items()}


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4S", 93_784_000),
        ("PT0.5S", 500),
        ("pt5m", 300_000),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1H", None),
        ("PT1H1D", None),
        ("-PT1H", None),
        ("", None),
    ],
)
def test_durations(text: str, span_ms: int | None) -> None:
    assert duration_ms(text) == span_ms


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"share.auto.offset.reset": "earliest"},
        {"share.auto.offset.reset": "by_duration:PT10M", "share.isolation.level": "read_committed"},
        {"share.record.lock.duration.ms": "15000", "share.delivery.count.limit": "10"},
        {"share.partition.max.record.locks": "100", "share.renew.acknowledge.enable": "false"},
        {"share.session.timeout.ms": "60000", "share.heartbeat.interval.ms": "15000"},
        {"consumer.session.timeout.ms": "50000"},
    ],
)
def test_what_may_be_set(wanted: dict[str, str]) -> None:
    validate_group_configs(wanted, BROKER)
    assert GROUP_CONFIG.parse_given(wanted).keys() == wanted.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "soon"),
        ("share.auto.offset.reset", "by_duration:1h"),
        ("share.isolation.level", "serializable"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "4001"),
        ("share.session.timeout.ms", "44999"),
        ("share.heartbeat.interval.ms", "15001"),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("share.unknown", "1"),
    ],
)
def test_what_may_not(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_group_configs({name: value}, BROKER)
    assert name in str(refused.value)


def test_a_session_is_longer_than_its_heartbeat() -> None:
    broker = {**BROKER, "group.share.max.heartbeat.interval.ms": 50_000}
    with pytest.raises(ConfigError, match=r"must be greater than share\.heartbeat\.interval\.ms"):
        validate_group_configs({"share.heartbeat.interval.ms": "45000"}, broker)


@pytest.mark.parametrize("value", ["0", "1000", "15000"])
def test_an_assignment_interval_within_its_bounds(value: str) -> None:
    validate_group_configs({INTERVAL: value}, BrokerConfig.of({}).values)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("15001", "less than or equal to group.consumer.max.assignment.interval.ms"),
        ("99", "greater than or equal to group.consumer.min.assignment.interval.ms"),
        ("-1", INTERVAL),
    ],
)
def test_an_assignment_interval_out_of_bounds(value: str, reason: str) -> None:
    key = "group.consumer.min.assignment.interval.ms"
    broker = BrokerConfig.of({key: "100", "group.consumer.assignment.interval.ms": "100"})
    with pytest.raises(ConfigError) as refused:
        validate_group_configs({INTERVAL: value}, broker.values)
    assert reason in refused.value.reason


def test_a_broker_whose_own_interval_is_out_of_bounds_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be between"):
        BrokerConfig.of({"group.consumer.assignment.interval.ms": "20000"})
