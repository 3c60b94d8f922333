"""Racks: the operator's table, placement over them, and replicas that all lie on one."""

from random import Random

import pytest

from headrace.base.errors import UsageError
from headrace.namespace.placement import sort_for_reader
from headrace.namespace.racks import Racks, parse_racks
from headrace.namespace.requests import GetBlockLocations, SetReplication
from headrace.testing.namenode import SimulatedNameNode
from headrace.testing.namespace_checkers import check_healed

TABLE = """\
# who is where
10.0.0.1   /east/r1
DN2        /east//r2/   # by name
127.0.0.1:9866 /a
127.0.0.1:9867 /b
"""


def test_a_table_of_hosts() -> None:
    racks = Racks(parse_racks(TABLE, "racks"))
    assert racks("10.0.0.1", "x", 1) == "/east/r1"
    assert racks("10.0.0.2", "dn2", 1) == "/east/r2"
    assert [racks("127.0.0.1", "h", port) for port in (9866, 9867, 9868)] == [
        "/a",
        "/b",
        "/default-rack",
    ]


@pytest.mark.parametrize("line", ["host", "host rack", "host /r extra", "host /"])
def test_a_line_that_is_none_is_named(line: str) -> None:
    with pytest.raises(UsageError, match="racks, line 2"):
        parse_racks(f"a /b\n{line}\n", "racks")


def racks_of(cluster: SimulatedNameNode, path: str) -> set[str]:
    (block,) = cluster.ask(GetBlockLocations(path, 0, 1000)).blocks
    return {storage.datanode.rack for storage in block.locations}


def test_the_table_stands_over_what_a_datanode_says() -> None:
    cluster = SimulatedNameNode(datanodes=2)
    cluster.namenode.rack_of = Racks({"10.0.0.2": "/far"})
    for node in cluster.nodes:
        node.register()
    assert [node.rack for node in cluster.namenode.datanodes] == ["/default-rack", "/far"]


def test_a_reader_is_sent_to_its_own_rack_first() -> None:
    cluster = SimulatedNameNode(datanodes=4, racks=2)
    cluster.namenode.rack_of = Racks(
        {node.address: node.rack for node in cluster.nodes} | {"10.9.9.9": "/rack1"}
    )
    cluster.write("/f", 100, replication=3)
    for _ in range(10):
        (block,) = cluster.ask(GetBlockLocations("/f", 0, 1000)).blocks
        order = [storage.datanode.rack for storage in block.locations]
        assert order == sorted(order, reverse=True)
        assert order[0] == "/rack1"


def test_of_several_nodes_on_its_own_machine_a_reader_is_always_sent_to_the_same() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100, replication=4)
    (block,) = cluster.ask(GetBlockLocations("/f", 0, 1000)).blocks
    storages = tuple(block.locations)
    here = storages[0].datanode.identity.ip_address
    for storage in storages[:3]:
        storage.datanode.identity = storage.datanode.identity._replace(ip_address=here)
    random = Random(1)
    orders = {sort_for_reader(storages, here, random) for _ in range(20)}
    assert orders == {storages}
    assert len({sort_for_reader(storages, "10.9.9.9", random) for _ in range(20)}) > 1


def test_a_second_rack_gets_its_share_of_what_was_on_one() -> None:
    cluster = SimulatedNameNode(datanodes=5, racks=1)
    far = cluster.nodes[4]
    far.is_running = False
    cluster.run(60_000, 5_000)
    for index in range(4):
        cluster.write(f"/f{index}", 100, replication=3)
    cluster.write("/alone", 100, replication=1)
    far.rack = "/far"
    far.is_running = True
    far.register()
    cluster.run(60_000, 1_000)
    for index in range(4):
        assert len(racks_of(cluster, f"/f{index}")) == 2
    assert racks_of(cluster, "/alone") == {"/rack0"}
    check_healed(cluster)
    assert cluster.namenode.blocks.needed.badly_placed_count == 0


def test_nothing_moves_in_circles_where_the_other_rack_is_full() -> None:
    cluster = SimulatedNameNode(datanodes=4, racks=1)
    far = cluster.nodes[3]
    far.rack, far.remaining = "/far", 0
    far.register()
    cluster.run(3_000)
    cluster.write("/f", 100, replication=2)
    cluster.run(60_000, 1_000)
    assert sum(len(node.deleted) for node in cluster.nodes) == 0
    assert cluster.namenode.blocks.needed.badly_placed_count == 1
    far.remaining = 10**12
    cluster.run(30_000, 1_000)
    assert len(racks_of(cluster, "/f")) == 2


def test_the_last_replica_of_a_rack_is_not_the_one_that_goes() -> None:
    cluster = SimulatedNameNode(datanodes=4, racks=2)
    cluster.write("/f", 100, replication=4)
    cluster.ask(SetReplication("/f", 2))
    cluster.run(30_000, 1_000)
    assert len(racks_of(cluster, "/f")) == 2
    check_healed(cluster)
