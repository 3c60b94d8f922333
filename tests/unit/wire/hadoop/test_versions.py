"""Which of two Hadoop releases is the older one."""

import pytest

from headrace.wire.hadoop.versions import is_older

ORDER = [
    "",
    "rubbish",
    "0.23",
    "2.0.5-alpha",
    "2.1.0-alpha",
    "2.1.0-beta",
    "2.1.0",
    "2.1.1-SNAPSHOT",
    "2.1.1",
    "2.10.0",
    "3.0.0-alpha4",
    "3.5.0",
    "3.5.0.1",
    "10.0",
]


@pytest.mark.parametrize("index", range(1, len(ORDER)))
def test_releases_have_an_order(index: int) -> None:
    version = ORDER[index]
    if version != "rubbish":  # as old as none at all
        assert all(is_older(before, version) for before in ORDER[:index])
    assert not any(is_older(version, before) for before in ORDER[:index])
    assert not is_older(version, version)


@pytest.mark.parametrize(("one", "other"), [("3.5", "3.5.0"), ("3", "3.0.0")])
def test_trailing_zeros_do_not_count(one: str, other: str) -> None:
    assert not is_older(one, other)
    assert not is_older(other, one)
