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
    first = plan_nodes(1, 0, None, {}, random.Random(1))
    (node,) = first
    assert (node.name, node.node_id, node.role) == ("broker-1", 1, "broker,controller")
    assert FREE_PORT_MIN <= node.port <= FREE_PORT_MAX
    assert node.port != node.metrics_port
    again = plan_nodes(1, 0, None, remembered_ports(first), random.Random(2))
    assert again == first


def test_a_remembered_port_that_is_taken_is_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        remembered = {"broker-1": {"port": port, "metrics_port": port}}
        (node,) = plan_nodes(1, 0, None, remembered, random.Random(1))
    assert port not in (node.port, node.metrics_port)


@pytest.mark.parametrize("remembered", [{"broker-1": 7}, {"broker-1": {"port": "x"}}, {"x": {}}])
def test_a_torn_memory_is_ignored(remembered: dict[str, object]) -> None:
    assert plan_nodes(1, 0, None, remembered, random.Random(1))


def test_a_base_decides() -> None:
    base = next(p for p in range(24_000, 31_000) if all(map(is_free, (p, p + 100, p + 500))))
    (node,) = plan_nodes(1, 0, base, {"broker-1": {"port": 1}}, random.Random(1))
    assert (node.port, node.controller_port) == (base, base + 100)
    assert node.metrics_port == base + 500
    assert node.listen == f"127.0.0.1:{base}"


def test_refusals() -> None:
    with pytest.raises(UsageError, match="1 to 100 brokers"):
        plan_nodes(0, 0, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="1 to 100 brokers"):
        plan_nodes(101, 0, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="0 to 100 controllers"):
        plan_nodes(1, -1, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="ports go from"):
        plan_nodes(1, 0, 65_536, {}, random.Random(1))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HeadraceError, match=f"port {port} for broker-1 is in use"):
            plan_nodes(1, 0, port, {}, random.Random(1))


def test_the_first_three_brokers_are_controllers_where_there_are_no_others() -> None:
    plans = plan_nodes(5, 0, None, {}, random.Random(1))
    assert [plan.role for plan in plans] == ["broker,controller"] * 3 + ["broker"] * 2
    assert [plan.node_id for plan in plans] == [1, 2, 3, 4, 5]
    assert [bool(plan.controller_port) for plan in plans] == [True] * 3 + [False] * 2
    ports = [p.port for p in plans] + [p.controller_port for p in plans if p.is_controller]
    assert len(set(ports)) == 8


def test_dedicated_controllers_come_first_and_have_ids_of_their_own() -> None:
    plans = plan_nodes(3, 3, None, {}, random.Random(1))
    names = [plan.name for plan in plans]
    assert names == [f"controller-{i}" for i in (1, 2, 3)] + [f"broker-{i}" for i in (1, 2, 3)]
    assert [plan.node_id for plan in plans] == [101, 102, 103, 1, 2, 3]
    assert [plan.role for plan in plans] == ["controller"] * 3 + ["broker"] * 3
    assert plans[0].listen == plans[0].controller_listen
    again = plan_nodes(3, 3, None, remembered_ports(plans), random.Random(9))
    assert again == plans


def test_ports_by_base_of_a_whole_cluster() -> None:
    steps = [(0, 100, 500), (1, 101, 501), (600, 601, 602)]
    base = next(
        p for p in range(24_000, 31_000) if all(is_free(p + step) for row in steps for step in row)
    )
    controller, *brokers = plan_nodes(2, 1, base, {}, random.Random(1))
    assert (controller.controller_port, controller.metrics_port) == (base + 100, base + 600)
    assert [(b.port, b.metrics_port) for b in brokers] == [
        (base, base + 500),
        (base + 1, base + 501),
    ]
