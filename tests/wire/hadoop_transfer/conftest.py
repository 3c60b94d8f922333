"""Nodes for each test, closed after it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.wire.hadoop_transfer.nodes import Nodes


@pytest.fixture
def start_nodes(tmp_path: Path) -> Iterator[Callable[..., Nodes]]:
    started: list[Nodes] = []

    def start(count: int = 1, volumes: int = 1) -> Nodes:
        started.append(Nodes(tmp_path / str(len(started)), count, volumes))
        return started[-1]

    yield start
    for nodes in started:
        nodes.close()
