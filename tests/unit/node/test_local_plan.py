"""Names and ports of a local cluster."""

import random
import socket
from collections.abc import Mapping

import pytest

from headrace.base.errors import HeadraceError, UsageError
from headrace.node.local_plan import ClusterPlan, NodePlan, file_defaults, plan_cluster
from headrace.node.local_ports import FREE_PORT_MAX, FREE_PORT_MIN, is_free


def plan_log(
    brokers: int,
    controllers: int,
    base_port: int | None,
    remembered: Mapping[str, object],
    source: random.Random,
) -> list[NodePlan]:
    """Without a file system."""
    return list(plan_cluster(brokers, controllers, 0, base_port, remembered, source).log)


def remembered_ports(log: list[NodePlan]) -> dict[str, dict[str, int]]:
    return ClusterPlan(tuple(log), None, ()).remembered_ports()


def test_free_ports_are_found_and_kept() -> None:
    first = plan_log(1, 0, None, {}, random.Random(1))
    (node,) = first
    assert (node.name, node.node_id, node.role) == ("broker-1", 1, "broker,controller")
    assert FREE_PORT_MIN <= node.port <= FREE_PORT_MAX
    assert node.port != node.metrics_port
    again = plan_log(1, 0, None, remembered_ports(first), random.Random(2))
    assert again == first


def test_a_remembered_port_that_is_taken_is_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        remembered = {"broker-1": {"port": port, "metrics_port": port}}
        (node,) = plan_log(1, 0, None, remembered, random.Random(1))
    assert port not in (node.port, node.metrics_port)


@pytest.mark.parametrize("remembered", [{"broker-1": 7}, {"broker-1": {"port": "x"}}, {"x": {}}])
def test_a_torn_memory_is_ignored(remembered: dict[str, object]) -> None:
    assert plan_log(1, 0, None, remembered, random.Random(1))


def test_a_base_decides() -> None:
    base = next(p for p in range(24_000, 31_000) if all(map(is_free, (p, p + 100, p + 500))))
    (node,) = plan_log(1, 0, base, {"broker-1": {"port": 1}}, random.Random(1))
    assert (node.port, node.controller_port) == (base, base + 100)
    assert node.metrics_port == base + 500
    assert node.listen == f"127.0.0.1:{base}"


def test_refusals() -> None:
    with pytest.raises(UsageError, match="1 to 100 brokers"):
        plan_log(0, 0, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="1 to 100 brokers"):
        plan_log(101, 0, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="0 to 100 controllers"):
        plan_log(1, -1, None, {}, random.Random(1))
    with pytest.raises(UsageError, match="ports go from"):
        plan_log(1, 0, 65_536, {}, random.Random(1))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HeadraceError, match=f"port {port} for broker-1 is in use"):
            plan_log(1, 0, port, {}, random.Random(1))


def test_the_first_three_brokers_are_controllers_where_there_are_no_others() -> None:
    plans = plan_log(5, 0, None, {}, random.Random(1))
    assert [plan.role for plan in plans] == ["broker,controller"] * 3 + ["broker"] * 2
    assert [plan.node_id for plan in plans] == [1, 2, 3, 4, 5]
    assert [bool(plan.controller_port) for plan in plans] == [True] * 3 + [False] * 2
    ports = [p.port for p in plans] + [p.controller_port for p in plans if p.is_controller]
    assert len(set(ports)) == 8


def test_dedicated_controllers_come_first_and_have_ids_of_their_own() -> None:
    plans = plan_log(3, 3, None, {}, random.Random(1))
    names = [plan.name for plan in plans]
    assert names == [f"controller-{i}" for i in (1, 2, 3)] + [f"broker-{i}" for i in (1, 2, 3)]
    assert [plan.node_id for plan in plans] == [101, 102, 103, 1, 2, 3]
    assert [plan.role for plan in plans] == ["controller"] * 3 + ["broker"] * 3
    assert plans[0].listen == plans[0].controller_listen
    again = plan_log(3, 3, None, remembered_ports(plans), random.Random(9))
    assert again == plans


def test_ports_by_base_of_a_whole_cluster() -> None:
    steps = [(0, 100, 500), (1, 101, 501), (600, 601, 602)]
    base = next(
        p for p in range(24_000, 31_000) if all(is_free(p + step) for row in steps for step in row)
    )
    controller, *brokers = plan_log(2, 1, base, {}, random.Random(1))
    assert (controller.controller_port, controller.metrics_port) == (base + 100, base + 600)
    assert [(b.port, b.metrics_port) for b in brokers] == [
        (base, base + 500),
        (base + 1, base + 501),
    ]


def test_a_file_system_is_a_namenode_and_its_datanodes() -> None:
    plan = plan_cluster(1, 0, 2, None, {}, random.Random(1))
    names = [node.name for node in plan.nodes]
    assert names == ["broker-1", "namenode-1", "datanode-1", "datanode-2"]
    assert plan.namenode is not None
    assert plan.namenode.url == f"hdfs://{plan.namenode.listen}"
    assert [node.namenode for node in plan.datanodes] == [plan.namenode.listen] * 2
    ports = [port for node in plan.nodes for port in node.ports.values()]
    assert len(set(ports)) == len(ports) == 3 + 2 + 6
    again = plan_cluster(1, 0, 2, None, plan.remembered_ports(), random.Random(2))
    assert again == plan


def test_a_directory_without_a_file_system_gets_one_and_keeps_its_ports() -> None:
    alone = plan_cluster(1, 0, 0, None, {}, random.Random(1))
    assert (alone.namenode, alone.datanodes) == (None, ())
    grown = plan_cluster(1, 0, 3, None, alone.remembered_ports(), random.Random(2))
    assert grown.log == alone.log
    assert len(grown.datanodes) == 3


def free_base() -> int:
    """For a broker, a NameNode and two DataNodes; elsewhere each time, since one test listens."""
    steps = (0, 100, 500, 200, 250, *range(300, 306))
    for _ in range(1_000):
        base = random.randrange(24_000, 31_000)
        if all(is_free(base + step) for step in steps):
            return base
    return pytest.fail("no free ports")


def test_ports_by_base_of_a_file_system() -> None:
    base = free_base()
    plan = plan_cluster(1, 0, 2, base, {}, random.Random(1))
    assert plan.namenode is not None
    assert (plan.namenode.port, plan.namenode.http_port) == (base + 200, base + 250)
    assert [(n.port, n.ipc_port, n.http_port) for n in plan.datanodes] == [
        (base + 300, base + 301, base + 302),
        (base + 303, base + 304, base + 305),
    ]


@pytest.mark.parametrize("datanodes", [-1, 34])
def test_too_many_datanodes_are_refused(datanodes: int) -> None:
    with pytest.raises(UsageError, match="0 to 33 DataNodes"):
        plan_cluster(1, 0, datanodes, None, {}, random.Random(1))


@pytest.mark.parametrize(("datanodes", "replicas"), [(1, "1"), (2, "2"), (3, "3"), (9, "3")])
def test_files_have_three_replicas_at_most(datanodes: int, replicas: str) -> None:
    assert file_defaults(datanodes) == {"dfs.replication": replicas}
    assert file_defaults(0) == {}


@pytest.mark.parametrize(("step", "name"), [(200, "namenode-1"), (304, "datanode-2")])
def test_a_taken_port_is_told_with_its_node(step: int, name: str) -> None:
    base = free_base()
    with (
        socket.create_server(("127.0.0.1", base + step)),
        pytest.raises(HeadraceError, match=f"port {base + step} for {name} is in use"),
    ):
        plan_cluster(1, 0, 2, base, {}, random.Random(1))
