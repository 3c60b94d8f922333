"""DataNodes that leave, rest, come back, and share the load: by our commands and by Hadoop's."""

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hdfs_native
import pytest
from hdfs_native import WriteOptions
from tests.conftest import not_run
from tests.faults.test_datanode_kill import SETTINGS, Files, eventually, replica_path
from tests.interop import hadoop_tools
from tests.interop.java_tools import JavaMissingError

from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.testing.filesystem import LocalFileSystem, LocalProcess
from headrace.wire.hadoop.protos.client_namenode_pb2 import RefreshNodesRequestProto

MIB = 1 << 20
BALANCER = "org.apache.hadoop.hdfs.server.balancer.Balancer"
FEW_BYTES_PERCENT = "0.00001"
"""The volumes of a test are large disks: a threshold that a few megabytes pass."""


def fs(dfs: LocalFileSystem, *words: str, status: int = 0) -> Any:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", "fs", *words, "--fs", dfs.url, "--json"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr.decode()
    return json.loads(done.stdout) if done.stdout else done.stderr.decode()


def write(client: hdfs_native.Client, count: int, replication: int) -> dict[str, bytes]:
    written = {f"/file-{index}": os.urandom(MIB) for index in range(count)}
    for path, data in written.items():
        with client.create(path, WriteOptions(replication=replication)) as file:
            file.write(data)
    return written


def blocks_on(node: LocalProcess) -> int:
    pattern = "data/current/BP-*/current/finalized/*/*/blk_*"
    return sum(path.suffix != ".meta" for path in node.data.glob(pattern))


def used_bytes(dfs: LocalFileSystem) -> int:
    return sum(node["used"] for node in fs(dfs, "report")["datanodes"])


def on_both_racks(files: Files, path: str, where: dict[str, str]) -> bool:
    (block,) = files.blocks(path)
    nodes = [node.where["listen"] for node in files.nodes_of(block)]
    return len(nodes) == 2 and len({where[name] for name in nodes}) == 2


def test_decommission_maintenance_and_back(tmp_path: Path) -> None:
    racks = tmp_path / "racks"
    racks.touch()
    settings = {**SETTINGS, "net.topology.table.file.name": str(racks)}
    with LocalFileSystem(datanodes=3, settings=settings) as dfs:
        files = Files(dfs)
        written = write(files.client, 4, 2)
        name = dfs.datanodes[0].where["listen"]
        assert fs(dfs, "decommission", name) == [
            {"name": name, "state": "DECOMMISSIONED", "blocks_waiting": 0}
        ]
        for path, data in written.items():
            (block,) = files.blocks(path)
            others = [node for node in files.nodes_of(block) if node is not dfs.datanodes[0]]
            assert len(others) == 2
            for node in others:
                assert replica_path(node, block.b.blockId).read_bytes() == data
        (told,) = [one for one in fs(dfs, "report")["datanodes"] if one["name"] == name]
        assert told["state"] == "decommissioned"
        # The order outlives the NameNode, which reads the table of racks when it starts.
        names = [node.where["listen"] for node in dfs.datanodes]
        where = dict(zip(names, ("/east", "/west", "/west"), strict=True))
        racks.write_text("".join(f"{name} {rack}\n" for name, rack in where.items()))
        dfs.namenode.kill()
        dfs.namenode.start()
        dfs.await_datanodes(3)
        assert fs(dfs, "decommission", name)[0]["state"] == "DECOMMISSIONED"
        assert fs(dfs, "recommission", name)[0]["state"] == "NORMAL"
        assert fs(dfs, "maintenance", name, "--minutes", "5")[0]["state"] == "IN_MAINTENANCE"
        assert fs(dfs, "recommission", name)[0]["state"] == "NORMAL"
        assert "no DataNode" in fs(dfs, "decommission", "nowhere:1", status=1)
        assert {one["name"]: one["rack"] for one in fs(dfs, "report")["datanodes"]} == where
        # The blocks that were copied to the western nodes are not all there any more.
        again = Files(dfs)
        for path in written:
            eventually(partial(on_both_racks, again, path, where), f"{path} is on both racks")
            assert again.read(path) == written[path]


@pytest.mark.parametrize("role", ["namenode", "datanode"])
def test_a_release_that_is_too_old_is_told(role: str, tmp_path: Path) -> None:
    """A NameNode keeps the DataNode out until that is mended; a DataNode ends by itself."""
    other = "datanode" if role == "namenode" else "namenode"
    key = f"dfs.{role}.min.supported.{other}.version"
    dfs = LocalFileSystem(tmp_path, datanodes=1, settings={key: "4.0.0"})
    (node,) = dfs.datanodes
    try:
        dfs.namenode.start()
        node.launch()
        words = "version is too low to communicate"
        eventually(lambda: node.log_path.exists() and words in node.log_text(), "it is told")
        if role == "datanode":
            eventually(lambda: not node.is_alive, "it ends")
            assert "event=stopped status=1" in node.log_text()
        else:
            assert "level=error event=registration_refused" in node.log_text()
            assert node.is_alive
        assert dfs.health()["live_datanodes"] == 0
    finally:
        dfs.kill()


def test_a_node_that_is_taken_off_the_list_ends(tmp_path: Path) -> None:
    included = tmp_path / "include"
    included.write_text("127.0.0.1")
    with LocalFileSystem(datanodes=1, settings={"dfs.hosts": str(included)}) as dfs:
        (node,) = dfs.datanodes
        included.write_text("elsewhere")
        host, port = dfs.address.split(":")
        with BlockingRpcClient(host, int(port), getpass.getuser()) as rpc:
            rpc.call("refreshNodes", RefreshNodesRequestProto())
        eventually(lambda: not node.is_alive, "it ends")
        assert "the host is not in the include-list" in node.log_text()
        node.launch()
        eventually(lambda: "registration_refused" in node.log_text(), "it waits to be let in")
        assert node.is_alive


def test_blocks_move_to_the_empty_node() -> None:
    with LocalFileSystem(datanodes=1, settings=SETTINGS) as dfs:
        files = Files(dfs)
        written = write(files.client, 12, 1)
        dfs.add_datanode().start()
        dfs.await_datanodes(2)
        # How much is used is told by heartbeats.
        eventually(lambda: used_bytes(dfs) >= 12 * MIB, "the NameNode knows how much is used")
        told = fs(dfs, "balance", "--threshold", FEW_BYTES_PERCENT)
        assert told["balanced"]
        assert told["moved"] >= 5
        assert told["failed"] == 0
        eventually(lambda: sum(map(blocks_on, dfs.datanodes)) == 12, "one replica each")
        assert all(blocks_on(node) >= 4 for node in dfs.datanodes)
        for path, data in written.items():
            assert files.read(path) == data


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[Path]:
    """Room for two DataNodes with 64 MiB each: Hadoop's threshold is at least one per cent."""
    volumes = [tmp_path / f"datanode-{index}" / "data" for index in range(2)]
    mounted = []
    try:
        for volume in volumes:
            volume.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(volume)]
            if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
                not_run("a small file system can't be mounted here")
            mounted.append(volume)
        yield tmp_path
    finally:
        for volume in mounted:
            subprocess.run(["umount", "-l", str(volume)], check=True)


@pytest.mark.long
@pytest.mark.java
def test_hadoop_s_own_balancer(small_disks: Path) -> None:
    try:
        hadoop_tools.prepare()
    except JavaMissingError as missing:
        not_run(str(missing))
    settings = {**SETTINGS, "dfs.blocksize": MIB}
    with LocalFileSystem(small_disks, datanodes=1, settings=settings) as dfs:
        files = Files(dfs)
        written = write(files.client, 20, 1)
        dfs.add_datanode().start()
        dfs.await_datanodes(2)
        eventually(lambda: fs(dfs, "report")["used"] >= 20 * MIB, "the figures")
        keys = {
            "fs.defaultFS": dfs.url,
            "dfs.namenode.rpc-address": dfs.address,
            "dfs.blocksize": str(MIB),
            "dfs.balancer.getBlocks.min-block-size": "1",
        }
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in keys.items()
        )
        conf = small_disks / "conf"
        conf.mkdir()
        for name in ("core-site.xml", "hdfs-site.xml"):
            (conf / name).write_text(f"<configuration>{properties}</configuration>")
        done = subprocess.run(
            ["java", "-cp", f"{conf}:{hadoop_tools.class_path()}", BALANCER, "-threshold", "5"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "The cluster is balanced" in done.stdout
        assert all(blocks_on(node) >= 6 for node in dfs.datanodes)
        for path, data in written.items():
            assert files.read(path) == data
