"""The broker that the fault tests break: ours, and the real Kafka as control."""

from collections.abc import Iterator

import pytest
from tests.interop.conftest import TARGETS, Target, start_target


@pytest.fixture(params=TARGETS)
def victim(request: pytest.FixtureRequest) -> Iterator[Target]:
    with start_target(str(request.param)) as broker:
        yield broker
