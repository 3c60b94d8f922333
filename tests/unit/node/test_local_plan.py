"""Names and ports of a local cluster."""

import random
import socket

import pytest

from headrace.base.errors import HeadraceError, UsageError
from headrace.node.local_plan import (
    FREE_PORT_MAX,
    FREE_PORT_MIN,
    is_free,
    plan_nodes,
    remembered_ports,
)


def test_free_ports_are_found_and_kept() -> None:
    first = plan_nodes(1, None, {}, random.Random(1))
    (node,) = first
    assert (node.name, node.node_id, node.role) == ("broker-1", 1, "broker,controller")
    assert FREE_PORT_MIN <= node.port <= FREE_PORT_MAX
    assert node.port != node.metrics_port
    again = plan_nodes(1, None, remembered_ports(first), random.Random(2))
    assert again == first


def test_a_remembered_port_that_is_taken_is_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        remembered = {"broker-1": {"port": port, "metrics_port": port}}
        (node,) = plan_nodes(1, None, remembered, random.Random(1))
    assert port not in (node.port, node.metrics_port)


@pytest.mark.parametrize("remembered", [{"broker-1": 7}, {"broker-1": {"port": "x"}}, {"x": {}}])
def test_a_torn_memory_is_ignored(remembered: dict[str, object]) -> None:
    assert plan_nodes(1, None, remembered, random.Random(1))


def test_a_base_decides() -> None:
    base = next(p for p in range(24_000, 31_000) if is_free(p) and is_free(p + 500))
    (node,) = plan_nodes(1, base, {"broker-1": {"port": 1}}, random.Random(1))
    assert (node.port, node.metrics_port) == (base, base + 500)
    assert node.listen == f"127.0.0.1:{base}"


def test_refusals() -> None:
    with pytest.raises(UsageError, match="come with replication"):
        plan_nodes(3, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="at least one"):
        plan_nodes(0, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="ports go from"):
        plan_nodes(1, 65_536, {}, random.Random(1))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HeadraceError, match=f"port {port} for broker-1 is in use"):
            plan_nodes(1, port, {}, random.Random(1))
