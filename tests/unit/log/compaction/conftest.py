"""Compacted logs for the tests of compaction."""

from collections.abc import Callable

import pytest
from tests.unit.log.compaction.compacted_log import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    return Bench
