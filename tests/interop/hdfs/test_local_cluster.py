"""`headrace up` with both halves: one directory, Kafka's clients and HDFS's, and kill -9."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hdfs_native
import pytest
from confluent_kafka import Consumer, Producer
from tests.interop.hadoop_tools import HadoopTools

from headrace.fs import FileSystem
from headrace.testing.local_cluster import LocalCluster

TIMEOUT_S = 90.0
SETTINGS = {
    "dfs.heartbeat.interval": 1,
    "dfs.blocksize": 1024 * 1024,
    "offsets.topic.num.partitions": 2,
}
CONTENT = bytes(range(256)) * 10_000
"""Two and a half megabytes: three blocks."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, datanodes=3, settings=SETTINGS, restart=True) as running:
        yield running


def until(reached: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        value = reached()
        if value:
            return value
        time.sleep(0.02)
    return pytest.fail(f"it did not happen in time: {what}")


def headrace(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if "HEADRACE" not in key}
    return subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment,
        check=False,
    )


def write(client: hdfs_native.Client, path: str) -> None:
    with client.create(path, hdfs_native.WriteOptions(overwrite=True)) as file:
        file.write(CONTENT)


def read(client: hdfs_native.Client, path: str) -> bytes:
    with client.read(path) as file:
        content: bytes = file.read()
        return content


def health_of(node: dict[str, Any]) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://{node['http']}/health", timeout=5) as answer:
            content: dict[str, Any] = json.loads(answer.read())
            return content
    except OSError:
        return {}


def await_ready(cluster: LocalCluster) -> None:
    """Out of safe mode with every DataNode registered: hdfs-native gives a block up when one of its
    DataNodes refuses the connection."""

    def ready() -> bool:
        health = health_of(cluster.node("namenode-1"))
        if health.get("safe_mode") is not False or health["live_datanodes"] < 3:
            return False
        nodes = [cluster.node(name) for name in cluster.names("datanode")]
        return all(health_of(node).get("status") == "ok" for node in nodes)

    until(ready, "the file system is ready")


def killed_and_back(cluster: LocalCluster, name: str) -> None:
    before = cluster.node(name)["pid"]
    os.kill(before, signal.SIGKILL)
    until(lambda: cluster.node(name)["pid"] not in (None, before), f"{name} is back")


def test_kafka_clients_and_hdfs_clients_meet_one_cluster(cluster: LocalCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("events", b"hello")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "both",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["events"])
    assert until(lambda: consumer.poll(1.0), "a record").value() == b"hello"
    consumer.close()

    client = hdfs_native.Client(cluster.fs)
    write(client, "/met/native")
    assert read(client, "/met/native") == CONTENT
    status = client.get_file_info("/met/native")
    assert (status.replication, status.blocksize) == (3, SETTINGS["dfs.blocksize"])
    assert FileSystem(cluster.fs).cat_file("/met/native") == CONTENT
    with urllib.request.urlopen(
        f"{cluster.web}/webhdfs/v1/met/native?op=OPEN", timeout=TIMEOUT_S
    ) as answer:
        assert answer.read() == CONTENT


def test_what_up_makes(cluster: LocalCluster) -> None:
    client = hdfs_native.Client(cluster.fs)
    temporary = client.get_file_info("/tmp")
    assert stat.S_IMODE(temporary.permission) == 0o1777
    (home,) = client.list_status("/user")
    assert home.path == f"/user/{home.owner}"
    described = cluster.described
    names = [node["name"] for node in described["nodes"]]
    assert names == ["broker-1", "namenode-1", "datanode-1", "datanode-2", "datanode-3"]
    assert cluster.names("datanode") == names[2:]
    assert all((cluster.data / "logs" / f"{name}.log").exists() for name in names)
    status = headrace("status", "--data", str(cluster.data), "--json")
    told = json.loads(status.stdout)
    assert (status.returncode, told["up"], told["fs"]) == (0, True, cluster.fs)
    for node in told["nodes"]:
        with urllib.request.urlopen(f"http://{node['metrics']}/metrics", timeout=5) as page:
            assert b"# HELP" in page.read()


def test_hadoop_finds_it_by_its_configuration(cluster: LocalCluster, hadoop: HadoopTools) -> None:
    configuration = [
        *("-conf", str(cluster.configuration / "core-site.xml")),
        *("-conf", str(cluster.configuration / "hdfs-site.xml")),
    ]
    made = hadoop.run("dfs", *configuration, "-mkdir", "-p", "/met")
    assert made.status == 0, made.stderr
    put = hadoop.run("dfs", *configuration, "-put", "-", "/met/by-java", stdin="from Java\n")
    assert put.status == 0, put.stderr
    listed = hadoop.run("dfs", *configuration, "-ls", "/")
    assert listed.status == 0, listed.stderr
    rows = {line.split()[-1]: line.split()[0] for line in listed.stdout.splitlines()[1:]}
    assert rows["/tmp"] == "drwxrwxrwt"
    assert "/user" in rows
    stated = hadoop.run("dfs", *configuration, "-stat", "%r %o", "/met/by-java")
    assert stated.stdout.split() == ["3", str(SETTINGS["dfs.blocksize"])]
    checked = headrace("fs", "fsck", "/", "--data", str(cluster.data))
    assert "is HEALTHY" in checked.stdout
    said = headrace("fs", "cat", "/met/by-java", "--data", str(cluster.data))
    assert (said.returncode, said.stdout) == (0, "from Java\n")


def test_a_killed_datanode_comes_back(cluster: LocalCluster) -> None:
    client = hdfs_native.Client(cluster.fs)
    write(client, "/met/outlives-a-datanode")
    killed_and_back(cluster, "datanode-2")
    assert read(client, "/met/outlives-a-datanode") == CONTENT
    await_ready(cluster)
    write(client, "/met/after-a-datanode")
    assert read(client, "/met/after-a-datanode") == CONTENT


def test_a_killed_namenode_comes_back(cluster: LocalCluster) -> None:
    write(hdfs_native.Client(cluster.fs), "/met/outlives-the-namenode")
    address = cluster.fs
    killed_and_back(cluster, "namenode-1")
    assert cluster.fs == address
    await_ready(cluster)
    client = hdfs_native.Client(cluster.fs)
    assert read(client, "/met/outlives-the-namenode") == CONTENT
    write(client, "/met/after-the-namenode")
    assert read(client, "/met/after-the-namenode") == CONTENT


def test_file_nodes_are_stopped_and_started_by_name(cluster: LocalCluster) -> None:
    client = hdfs_native.Client(cluster.fs)
    write(client, "/met/two-of-three")
    cluster.stop_node("datanode-1")
    assert cluster.node("datanode-1")["pid"] is None
    assert headrace("status", "--data", str(cluster.data)).returncode == 1
    assert read(client, "/met/two-of-three") == CONTENT
    cluster.start_node("datanode-1")
    said = headrace("node", "restart", "namenode-1", "--data", str(cluster.data))
    assert said.returncode == 0, said.stderr
    await_ready(cluster)
    assert read(hdfs_native.Client(cluster.fs), "/met/two-of-three") == CONTENT


def test_a_directory_of_brokers_alone_gets_a_file_system_that_stays(tmp_path: Path) -> None:
    data = tmp_path / "grown"
    with LocalCluster(brokers=1, data=data) as alone:
        servers = alone.bootstrap_servers
        assert alone.described["fs"] is None
        refused = headrace("fs", "ls", "/", "--data", str(data))
        assert (refused.returncode, "--datanodes 0" in refused.stderr) == (1, True)
    with LocalCluster(brokers=1, datanodes=1, data=data) as grown:
        assert grown.bootstrap_servers == servers
        url = grown.fs
        write(hdfs_native.Client(url), "/met/stays")
        assert hdfs_native.Client(url).get_file_info("/met/stays").replication == 1
        site = (data / "conf" / "hdfs-site.xml").read_text()
        assert "<name>dfs.replication</name><value>1</value>" in site
    with LocalCluster(brokers=1, datanodes=1, data=data) as again:
        assert again.fs == url
        assert read(hdfs_native.Client(url), "/met/stays") == CONTENT


def test_a_namenode_that_can_not_start_is_explained(tmp_path: Path) -> None:
    (tmp_path / "namenode-1").mkdir()
    (tmp_path / "namenode-1" / "name").write_text("a file in the way")
    said = headrace("up", "--data", str(tmp_path), "--detach", "--datanodes", "1")
    assert said.returncode == 1
    assert "namenode-1 ended while it started" in said.stderr
    assert "File exists" in said.stderr
    assert not (tmp_path / "cluster.json").exists()
    assert headrace("status", "--data", str(tmp_path)).returncode == 1


@pytest.mark.long
def test_lost_blocks_are_told_and_do_not_lock_anybody_out(tmp_path: Path) -> None:
    """Long because the supervisor gives a DataNode its time before it gives up."""
    words = ("up", "--data", str(tmp_path), "--detach", "--datanodes", "1")
    assert headrace(*words).returncode == 0
    client = hdfs_native.Client(json.loads((tmp_path / "cluster.json").read_text())["fs"])
    for number in range(3):
        write(client, f"/met/{number}")
    assert headrace("down", "--data", str(tmp_path)).returncode == 0
    for block in tmp_path.rglob("blk_*"):
        block.unlink()
    said = headrace(*words)
    assert said.returncode == 1
    assert "in safe mode" in said.stderr
    assert not (tmp_path / "cluster.json").exists()
    key = "dfs.namenode.safemode.threshold-pct"
    assert key in said.stderr
    try:
        assert headrace(*words, "--set", f"{key}=0").returncode == 0
        listed = headrace("fs", "ls", "/met", "--data", str(tmp_path), "--json")
        assert len(json.loads(listed.stdout)) == 3
    finally:
        headrace("down", "--data", str(tmp_path))
