"""What `hdfs dfsadmin` orders DataNodes to do, by their own ports and by lists of hosts.

One cluster for all tests; the last of them shuts a DataNode down.
"""

import getpass
import os
import random
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hdfs_native import WriteOptions
from tests.faults.test_datanode_kill import SETTINGS, Files, eventually, pipeline_of, replica_path
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.hdfs.conftest import Shell

from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.testing.filesystem import LocalFileSystem, LocalProcess
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.client_datanode_pb2 import GetDatanodeInfoRequestProto
from headrace.wire.hadoop.rpc_calls import RpcUser
from headrace.wire.hadoop.rpc_protocols import CLIENT_DATANODE

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def excluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of `dfs.hosts.exclude`."""
    path = tmp_path_factory.mktemp("hosts") / "exclude"
    path.touch()
    return path


@pytest.fixture(scope="module")
def cluster(excluded: Path) -> Iterator[LocalFileSystem]:
    own = {
        "dfs.hosts.exclude": str(excluded),
        "dfs.replication": "2",
        "dfs.block.scanner.volume.bytes.per.second": "0",
    }
    with LocalFileSystem(datanodes=3, settings={**SETTINGS, **own}) as running:
        yield running


@pytest.fixture
def hdfs(hadoop: HadoopTools, cluster: LocalFileSystem) -> Shell:
    return partial(hadoop.run, settings={"fs.defaultFS": cluster.url})


def ipc(node: LocalProcess) -> str:
    return str(node.where["ipc"])


ORDERS = [
    ("-evictWriters", "NODE"),
    ("-triggerBlockReport", "NODE"),
    ("-triggerBlockReport", "-incremental", "NODE"),
    ("-refreshNamenodes", "NODE"),
    ("-deleteBlockPool", "NODE", "BP-1"),
    ("-getVolumeReport", "NODE"),
    ("-reconfig", "datanode", "NODE", "start"),
    ("-reconfig", "datanode", "NODE", "status"),
    ("-reconfig", "datanode", "NODE", "properties"),
    ("-shutdownDatanode", "NODE"),
    ("-shutdownDatanode", "NODE", "upgrade"),
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_an_order_of_anybody_else_is_refused(
    hdfs: Shell, cluster: LocalFileSystem, order: tuple[str, ...]
) -> None:
    node = cluster.datanodes[0]
    words = [word.replace("NODE", ipc(node)) for word in order]
    refused = hdfs("dfsadmin", *words, user="eve")
    told = refused.stdout + refused.stderr
    # `-reconfig` tells what its thread met and succeeds.
    assert refused.status != 0 or order[0] == "-reconfig", told
    assert "Permission denied." in told
    assert node.is_alive
    assert "Uptime" in hdfs("dfsadmin", "-getDatanodeInfo", ipc(node), user="eve").check().stdout


def reported(hdfs: Shell, node: LocalProcess, what: str) -> str:
    """What `-report` tells of a DataNode; one that leaves is in two of its lists."""
    told = hdfs("dfsadmin", "-report").check().stdout
    section = next(part for part in told.split("Name: ") if part.startswith(node.where["listen"]))
    (line,) = [one for one in section.splitlines() if one.startswith(what)]
    return line.partition(":")[2].strip()


def test_a_block_report_is_sent_when_the_superuser_says_so(
    hdfs: Shell, cluster: LocalFileSystem
) -> None:
    node = cluster.datanodes[1]
    last_report = partial(reported, hdfs, node, "Last Block Report")

    before = last_report()

    def is_later() -> bool:
        hdfs("dfsadmin", "-triggerBlockReport", ipc(node)).check()
        return last_report() != before

    eventually(is_later, "a block report of another second")


def test_writers_are_evicted_and_go_on_elsewhere(hdfs: Shell, cluster: LocalFileSystem) -> None:
    files = Files(cluster)
    first, rest = os.urandom(200_000), os.urandom(300_000)
    with files.client.create("/evicted", WriteOptions(replication=2)) as file:
        file.write(first)
        eventually(lambda: bool(files.blocks("/evicted")), "the block is begun")
        (block,) = files.blocks("/evicted")
        node = pipeline_of(files.nodes_of(block))[-1]
        assert "writers are evicted" not in node.log_text()
        hdfs("dfsadmin", "-evictWriters", ipc(node)).check()
        assert "writers are evicted" in node.log_text()
        file.write(rest)
    assert files.read("/evicted") == first + rest


def test_a_node_of_the_exclude_file_leaves_and_comes_back(
    hdfs: Shell, cluster: LocalFileSystem, excluded: Path
) -> None:
    files = Files(cluster)
    data = os.urandom(100_000)
    with files.client.create("/leaves", WriteOptions(replication=2)) as file:
        file.write(data)
    (block,) = files.blocks("/leaves")
    node = files.nodes_of(block)[0]
    status = partial(reported, hdfs, node, "Decommission Status")
    assert status() == "Normal"
    excluded.write_text(f"# leaves today\n{node.where['listen']}\n")
    assert status() == "Normal", "the file is read when that is ordered"
    assert "Superuser" in hdfs("dfsadmin", "-refreshNodes", user="eve").stderr
    hdfs("dfsadmin", "-refreshNodes").check()
    eventually(lambda: status() == "Decommissioned", "its blocks are copied")
    others = [one for one in files.nodes_of(files.blocks("/leaves")[0]) if one is not node]
    assert len(others) == 2
    excluded.write_text("")
    hdfs("dfsadmin", "-refreshNodes").check()
    assert status() == "Normal"
    assert files.read("/leaves") == data
    excluded.unlink()
    try:
        refused = hdfs("dfsadmin", "-refreshNodes")
        assert refused.status != 0
        assert "No such file" in refused.stderr
        assert status() == "Normal"
    finally:
        excluded.touch()


def test_the_bandwidth_of_balancing_reaches_the_datanodes(
    hdfs: Shell, cluster: LocalFileSystem
) -> None:
    hdfs("dfsadmin", "-setBalancerBandwidth", "7654321").check()
    for node in cluster.datanodes:
        ask = partial(hdfs, "dfsadmin", "-getBalancerBandwidth", ipc(node), user="eve")
        eventually(
            lambda ask=ask: "is 7654321 bytes" in ask().check().stdout,  # type: ignore[misc]
            "it comes with a heartbeat",
        )


def calls(cluster: LocalFileSystem, method: str) -> float:
    """How often the NameNode was asked for it."""
    with urllib.request.urlopen(f"{cluster.http_url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    name = f'headrace_namenode_calls_total{{method="{method}"}} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_a_reader_of_a_corrupt_replica_tells_the_namenode(
    hdfs: Shell, cluster: LocalFileSystem, tmp_path: Path
) -> None:
    """Hadoop's client finds it, reads another, and says which was bad; scanners are off here."""
    files = Files(cluster)
    data = random.Random(7).randbytes(100_000)
    with files.client.create("/bad", WriteOptions(replication=2)) as file:
        file.write(data)
    (block,) = files.blocks("/bad")
    node = files.nodes_of(block)[0]
    path = replica_path(node, block.b.blockId)
    damaged = bytearray(data)
    damaged[60_000] ^= 1
    path.write_bytes(damaged)
    before = calls(cluster, "reportBadBlocks")
    hdfs("dfs", "-get", "/bad", str(tmp_path / "good")).check()
    assert (tmp_path / "good").read_bytes() == data
    assert calls(cluster, "reportBadBlocks") > before
    assert not any("corrupt" in one.log_text() for one in cluster.datanodes), "by no DataNode"

    def is_replaced() -> bool:
        good = files.nodes_of(files.blocks("/bad")[0])
        return len(good) == 2 and not (path.exists() and path.read_bytes() == damaged)

    eventually(is_replaced, "a good copy was made, and the bad one went")
    for one in files.nodes_of(files.blocks("/bad")[0]):
        assert replica_path(one, block.b.blockId).read_bytes() == data


def test_volumes_of_all_datanodes_are_told(hdfs: Shell, cluster: LocalFileSystem) -> None:
    """getDatanodeStorageReport, as the disk balancer asks it."""
    before = calls(cluster, "getDatanodeStorageReport")
    told = hdfs("diskbalancer", "-report", "-top", "3").check()
    assert calls(cluster, "getDatanodeStorageReport") == before + 1
    told_all = told.stdout + told.stderr
    for node in cluster.datanodes:
        assert node.where["uuid"] in told_all


@pytest.mark.parametrize(
    ("real", "may"), [("", True), (getpass.getuser(), True), ("knox", False)], ids=repr
)
def test_orders_in_somebody_s_name_are_asked_of_who_gives_them(
    cluster: LocalFileSystem, real: str, may: bool
) -> None:
    """As at the NameNode: who may not act for a superuser is not heard as one."""
    host, _, port = ipc(cluster.datanodes[0]).rpartition(":")
    user = RpcUser(getpass.getuser() if real in ("", "knox") else "ann", real=real)
    client = BlockingRpcClient(host, int(port), user)
    request = GetDatanodeInfoRequestProto()
    try:
        if may:
            client.call("getDatanodeInfo", request, CLIENT_DATANODE)
        else:
            with pytest.raises(RemoteError, match="knox is not allowed to impersonate"):
                client.call("getDatanodeInfo", request, CLIENT_DATANODE)
    finally:
        client.close()


def test_a_datanode_is_shut_down(hdfs: Shell, cluster: LocalFileSystem) -> None:
    node = cluster.datanodes[2]
    hdfs("dfsadmin", "-shutdownDatanode", ipc(node)).check()
    eventually(lambda: not node.is_alive, "it ends")
    assert "event=stopped status=0" in node.log_text()
