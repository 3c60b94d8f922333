"""The broker that the fault tests break: ours, and the real Kafka as control."""

from collections.abc import Iterator

import pytest
from tests.interop.conftest import TARGETS, Target, java, start_target
from tests.interop.hdfs.conftest import hadoop

__all__ = ["hadoop", "java"]
"""Fixtures: Hadoop's tools, and the class path of programs that run against the broker."""


@pytest.fixture(params=TARGETS)
def victim(request: pytest.FixtureRequest) -> Iterator[Target]:
    with start_target(str(request.param)) as broker:
        yield broker
