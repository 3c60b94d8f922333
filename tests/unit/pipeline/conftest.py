"""Fixtures of the pipeline's tests: a broker that does as told."""

from collections.abc import Iterator

import pytest
from tests.unit.client.fake_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    broker = FakeBroker()
    yield broker
    broker.close()
