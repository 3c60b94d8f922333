"""Orders for DataNodes to leave: kept, merged with the lists of files, taken back."""

import pytest

from headrace.base.errors import UsageError
from headrace.namespace.datanodes import AdminState
from headrace.namespace.host_orders import HostOrders, Order, Wish
from headrace.namespace.leaving import Hosts
from headrace.testing.disk import SimulatedDisk
from headrace.testing.namenode import SimulatedNameNode
from headrace.wire.hadoop.exceptions import RemoteError

PATH = "/hosts.json"


def test_orders_outlive_the_process_and_add_to_the_lists() -> None:
    disk = SimulatedDisk()
    orders = HostOrders(disk, PATH)
    orders.give({"a", "a:1"}, "a:1", Order(Wish.DECOMMISSIONED))
    orders.give({"b"}, "b", Order(Wish.IN_MAINTENANCE, 77))
    again = HostOrders(disk, PATH)
    hosts = again.added_to(Hosts(frozenset({"x"}), frozenset({"y"})))
    assert hosts.included == {"x"}
    assert hosts.excluded == {"y", "a:1"}
    assert hosts.maintenance == {"b": 77}


def test_a_new_order_replaces_those_under_other_names_of_the_node() -> None:
    disk = SimulatedDisk()
    orders = HostOrders(disk, PATH)
    orders.give({"a", "a:1"}, "a", Order(Wish.DECOMMISSIONED))
    orders.give({"a", "a:1"}, "a:1", Order(Wish.IN_MAINTENANCE))
    assert orders.added_to(Hosts()) == Hosts(maintenance={"a:1": 0})
    orders.give({"a", "a:1"}, "a", Order(Wish.IN_SERVICE))
    assert HostOrders(disk, PATH).added_to(Hosts()) == Hosts()


@pytest.mark.parametrize("content", [b"{", b"[1]", b'[{"hostName": "a", "adminState": "GONE"}]'])
def test_a_damaged_file_stops_the_start(content: bytes) -> None:
    disk = SimulatedDisk()
    disk.replace_file(PATH, content)
    with pytest.raises(UsageError, match=r"hosts\.json is damaged"):
        HostOrders(disk, PATH)


def test_an_order_is_obeyed_and_its_progress_told() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    for index in range(5):
        cluster.write(f"/f{index}", 100)
    namenode = cluster.namenode
    namenode.read_hosts = Hosts
    namenode.host_orders = HostOrders(SimulatedDisk(), PATH)
    (node,) = namenode.order_admin_state(
        f"{cluster.nodes[1].address}:9866", Order(Wish.DECOMMISSIONED)
    )
    assert node.uuid == cluster.nodes[1].uuid
    assert node.admin_state is AdminState.DECOMMISSION_INPROGRESS
    cluster.run(60_000)
    assert node.admin_state is AdminState.DECOMMISSIONED
    assert namenode.leaving.waiting_blocks(node) == 0
    namenode.order_admin_state(node.name, Order(Wish.IN_SERVICE))
    assert node.admin_state is AdminState.NORMAL


def test_who_is_not_there_or_on_the_exclude_list_can_not_be_ordered() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    namenode = cluster.namenode
    namenode.host_orders = HostOrders(SimulatedDisk(), PATH)
    with pytest.raises(RemoteError, match="no DataNode of this cluster"):
        namenode.order_admin_state("nowhere", Order(Wish.DECOMMISSIONED))
    address = cluster.nodes[0].address
    namenode.read_hosts = lambda: Hosts(excluded=frozenset({address}))
    with pytest.raises(RemoteError, match=r"dfs\.hosts\.exclude"):
        namenode.order_admin_state(address, Order(Wish.IN_SERVICE))
