"""Names of the trash's checkpoints, in the time zone of who makes them."""

import time
from collections.abc import Iterator
from datetime import UTC, timedelta, timezone, tzinfo

import pytest

from headrace.wire.hadoop.trash_names import checkpoint_name, checkpoint_time_ms, trash_root

NEW_YORK = timezone(timedelta(hours=-5))
TIME_MS = 1_700_000_000_999


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone, without summer time."""
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("zone", "name"), [(UTC, "231114221320"), (NEW_YORK, "231114171320")])
def test_a_name_is_of_its_zone(zone: tzinfo, name: str) -> None:
    assert checkpoint_name(TIME_MS, zone) == name
    assert checkpoint_time_ms(name, zone) == 1_700_000_000_000


@pytest.mark.usefixtures("in_new_york")
def test_no_zone_is_the_machine_s() -> None:
    assert checkpoint_name(TIME_MS, None) == "231114171320"
    assert checkpoint_time_ms("231114171320-2", None) == 1_700_000_000_000
    assert checkpoint_time_ms("2311141713", None) == 1_699_999_980_000


@pytest.mark.parametrize(
    "name",
    ["", "Current", "231114", "231314171320", "231114241320", "231114171320-", "2311141713201"],
)
def test_other_names_are_no_checkpoint_s(name: str) -> None:
    assert checkpoint_time_ms(name, UTC) is None


def test_where_it_is() -> None:
    assert trash_root("ann") == "/user/ann/.Trash"
