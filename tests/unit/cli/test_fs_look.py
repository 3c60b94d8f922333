"""Times as `find` takes them."""

import time

import pytest

from headrace.base.errors import UsageError
from headrace.cli.fs_look import time_ms


def test_how_long_ago() -> None:
    now_ms = time.time() * 1000
    for text, seconds in (("90s", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)):
        assert abs(now_ms - seconds * 1000 - time_ms(text)) < 60_000


def test_dates() -> None:
    assert time_ms("1970-01-02") == 86_400_000, "UTC unless it says otherwise"
    assert time_ms("1970-01-02T01:00:00+01:00") == 86_400_000


@pytest.mark.parametrize("text", ["", "7", "7w", "-7d", "yesterday", "9999999999999d"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        time_ms(text)
