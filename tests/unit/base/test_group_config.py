"""The configs of single groups: bounds that the broker's own keys set."""

import pytest

from headrace.base.broker_config import BrokerConfig
from headrace.base.config import ConfigError
from headrace.base.group_config import validate_group_configs

INTERVAL = "consumer.assignment.interval.ms"


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
