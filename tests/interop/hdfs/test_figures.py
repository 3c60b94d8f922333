"""What the NameNode tells of blocks at risk, by `dfsadmin -report`, /jmx, /metrics and /conf."""

import json
import os
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hdfs_native import WriteOptions
from tests.faults.test_datanode_kill import Files, eventually, replica_path
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.hdfs.conftest import Shell

from headrace.testing.filesystem import LocalFileSystem

pytestmark = pytest.mark.java

BYTES = 70_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalFileSystem]:
    """One DataNode, and a file that wants three replicas, beside one that wants no more."""
    with LocalFileSystem(datanodes=1) as running:
        for path, replication in (("/f", 3), ("/g", 1)):
            with Files(running).client.create(path, WriteOptions(replication=replication)) as file:
                file.write(os.urandom(BYTES))
        yield running


@pytest.fixture
def hdfs(hadoop: HadoopTools, cluster: LocalFileSystem) -> Shell:
    return partial(hadoop.run, settings={"fs.defaultFS": cluster.url})


def get(cluster: LocalFileSystem, path: str) -> str:
    with urllib.request.urlopen(cluster.http_url + path, timeout=10) as answer:
        return bytes(answer.read()).decode()


def bean(cluster: LocalFileSystem, name: str) -> dict[str, Any]:
    name = f"Hadoop:service=NameNode,name={name}"
    (found,) = json.loads(get(cluster, f"/jmx?qry={name}"))["beans"]
    assert found["name"] == name
    return dict(found)


def gauge(cluster: LocalFileSystem, name: str) -> float:
    (line,) = [one for one in get(cluster, "/metrics").splitlines() if one.startswith(name + " ")]
    return float(line.split()[1])


def test_beans_are_hadoop_s(cluster: LocalFileSystem) -> None:
    names = {one["name"] for one in json.loads(get(cluster, "/jmx"))["beans"]}
    beans = ("NameNodeStatus", "FSNamesystemState", "NameNodeInfo", "ReplicatedBlocksState")
    assert names >= {f"Hadoop:service=NameNode,name={name}" for name in beans}
    assert bean(cluster, "NameNodeStatus")["State"] == "active"
    state = bean(cluster, "FSNamesystemState")
    assert (state["FSState"], state["NumLiveDataNodes"]) == ("Operational", 1)
    assert state["BlocksTotal"] == 2
    system = bean(cluster, "FSNamesystem")
    assert (system["NumLiveDataNodes"], system["NumDeadDataNodes"]) == (1, 0)
    assert (system["BlocksTotal"], system["UnderReplicatedBlocks"]) == (2, 1)
    assert (system["MissingBlocks"], system["CorruptBlocks"], system["ExcessBlocks"]) == (0, 0, 0)
    assert system["CapacityTotal"] == state["CapacityTotal"] > 0
    assert system["TransactionsSinceLastCheckpoint"] >= 0
    assert system["FilesTotal"] == state["FilesTotal"] == 3
    info = bean(cluster, "NameNodeInfo")
    assert info["Safemode"] == ""
    (node,) = json.loads(info["LiveNodes"]).values()
    assert node["xferaddr"] == cluster.datanodes[0].where["listen"]
    assert json.loads(get(cluster, "/jmx?qry=Hadoop:service=NameNode,name=Nothing")) == {
        "beans": []
    }


def test_what_the_rpc_port_did_is_told(cluster: LocalFileSystem) -> None:
    port = cluster.address.rpartition(":")[2]
    before = bean(cluster, f"RpcActivityForPort{port}")
    assert before["NumOpenConnections"] >= 1, "the DataNode's"
    Files(cluster).blocks("/f")
    after = bean(cluster, f"RpcActivityForPort{port}")
    for name in ("ReceivedBytes", "SentBytes", "RpcProcessingTimeNumOps"):
        assert after[name] > before[name] > 0, name


def test_one_attribute_is_told(cluster: LocalFileSystem) -> None:
    name = "Hadoop:service=NameNode,name=FSNamesystem"
    expected = {"beans": [{"name": name, "BlocksTotal": 2}]}
    assert json.loads(get(cluster, f"/jmx?get={name}::BlocksTotal")) == expected
    found = json.loads(get(cluster, f"/jmx?qry={name}*"))["beans"]
    assert [one["name"] for one in found] == [name + "State", name]


def test_its_configuration_is_told(cluster: LocalFileSystem) -> None:
    told = {one["key"]: one["value"] for one in json.loads(get(cluster, "/conf"))["properties"]}
    assert told["dfs.heartbeat.interval"] == 1
    assert told["dfs.replication"] == 1
    assert told["dfs.permissions.superusergroup"] == "supergroup"


def test_blocks_with_one_replica_left_are_told_apart(hdfs: Shell, cluster: LocalFileSystem) -> None:
    told = hdfs("dfsadmin", "-report").check().stdout
    assert "Low redundancy blocks with highest priority to recover: 1\n" in told
    assert "Badly Distributed Blocks: 0\n" in told
    state = bean(cluster, "ReplicatedBlocksState")
    assert state["HighestPriorityLowRedundancyReplicatedBlocks"] == 1
    assert state["LowRedundancyReplicatedBlocks"] == 1
    assert state["BytesInFutureReplicatedBlocks"] == 0
    assert state["TotalReplicatedBlocks"] == 2
    assert gauge(cluster, "headrace_blocks_highest_priority") == 1


def test_bytes_that_leaving_safe_mode_would_cost_are_told(
    hdfs: Shell, cluster: LocalFileSystem
) -> None:
    """A replica from the future, as an old edit log would find it."""
    node = cluster.datanodes[0]
    (block,) = Files(cluster).blocks("/f")
    node.stop()
    cluster.namenode.stop()
    replica = replica_path(node, block.b.blockId)
    (meta,) = replica.parent.glob(f"{replica.name}_*.meta")
    future = block.b.generationStamp + 1000
    meta.rename(meta.with_name(f"{replica.name}_{future}.meta"))
    cluster.namenode.start()
    node.start()
    words = f"Forcing exit from safemode will cause {BYTES} byte(s) to be deleted."
    eventually(lambda: words in hdfs("dfsadmin", "-report").check().stdout, "the report is in")
    assert bean(cluster, "NameNodeStatus")["BytesWithFutureGenerationStamps"] == BYTES
    assert bean(cluster, "ReplicatedBlocksState")["BytesInFutureReplicatedBlocks"] == BYTES
    assert gauge(cluster, "headrace_blocks_in_future_bytes") == BYTES
    assert "ON" in hdfs("dfsadmin", "-safemode", "leave").check().stdout
    assert "OFF" in hdfs("dfsadmin", "-safemode", "forceExit").check().stdout
    assert bean(cluster, "NameNodeStatus")["BytesWithFutureGenerationStamps"] == 0
