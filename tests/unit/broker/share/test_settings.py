"""The broker's values and a group's own."""

import pytest

from headrace.base.broker_config import BrokerConfig
from headrace.broker.share.settings import ShareSettings


def test_a_group_has_the_brokers_values_unless_it_has_its_own() -> None:
    config = BrokerConfig.of({"group.share.delivery.count.limit": "7"})
    plain = ShareSettings.of_group(config, {})
    assert plain.limits.delivery_count_limit == 7
    assert plain.lock_duration_ms == 30_000
    assert plain.limits.in_flight_max == 2000
    assert (plain.auto_offset_reset, plain.is_read_committed, plain.may_renew) == (
        "latest",
        False,
        True,
    )
    own = ShareSettings.of_group(
        config,
        {
            "share.record.lock.duration.ms": "20000",
            "share.delivery.count.limit": "3",
            "share.partition.max.record.locks": "150",
            "share.auto.offset.reset": "EARLIEST",
            "share.isolation.level": "read_committed",
            "share.renew.acknowledge.enable": "false",
        },
    )
    assert own.lock_duration_ms == 20_000
    assert (own.limits.delivery_count_limit, own.limits.in_flight_max) == (3, 150)
    assert (own.auto_offset_reset, own.is_read_committed, own.may_renew) == (
        "earliest",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("reset", "back_ms"),
    [
        ("latest", None),
        ("earliest", None),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT0.5S", 86_400_500),
    ],
)
def test_a_duration_is_read(reset: str, back_ms: int | None) -> None:
    config = BrokerConfig.of({})
    settings = ShareSettings.of_group(config, {"share.auto.offset.reset": reset})
    assert settings.reset_duration_ms == back_ms


@pytest.mark.parametrize(("limit", "count"), [(2, 2), (3, 2), (4, 2), (5, 3), (10, 5)])
def test_care_is_taken_from_half_of_the_deliveries_on(limit: int, count: int) -> None:
    config = BrokerConfig.of({"group.share.delivery.count.limit": str(limit)})
    assert ShareSettings.of_group(config, {}).limits.throttle_count == count
