"""Fixtures of the client's tests: a broker that does as told, and a client of it."""

from collections.abc import Iterator

import pytest
from tests.unit.client.fake_broker import FakeBroker

from headrace.client.cluster import Cluster


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    broker = FakeBroker()
    yield broker
    broker.close()


@pytest.fixture
def cluster(broker: FakeBroker) -> Iterator[Cluster]:
    with Cluster(broker.address, request_timeout_ms=2_000, retry_timeout_ms=2_000) as cluster:
        yield cluster
