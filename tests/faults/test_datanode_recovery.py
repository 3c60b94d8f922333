"""A writer dies and leaves a block half written: recovery makes its replicas alike and ends."""

import getpass
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.faults.test_datanode_kill import MIB, SETTINGS, Files, eventually

from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.testing.filesystem import LocalFileSystem
from headrace.wire.hadoop.protos.client_namenode_pb2 import (
    IsFileClosedRequestProto,
    RecoverLeaseRequestProto,
)

WRITER = """
import sys, time, hdfs_native
from hdfs_native import WriteOptions
url, path = sys.argv[1:]
file = hdfs_native.Client(url).create(path, WriteOptions(replication=3, overwrite=True))
piece = bytes(range(256)) * 4096
for _ in range(5):
    file.write(piece)
print("written", flush=True)
time.sleep(60)
"""
DATA = bytes(range(256)) * 4096 * 5


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=4, settings=SETTINGS) as running:
        yield running


def half_written(dfs: LocalFileSystem, files: Files) -> None:
    """/file: written by a process that is killed before it could close it."""
    command = [sys.executable, "-c", WRITER, dfs.url, "/file"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        eventually(lambda: bytes_on_disk(dfs) >= 3 * 4 * MIB, "the bytes are on their way")
        writer.kill()
    assert len(files.blocks("/file")) == 1


def bytes_on_disk(dfs: LocalFileSystem) -> int:
    replicas = [
        path
        for node in dfs.datanodes
        for path in node.data.glob("data/current/BP-*/current/rbw/blk_*")
    ]
    return sum(path.stat().st_size for path in replicas)


def recovered(dfs: LocalFileSystem) -> None:
    host, port = dfs.address.split(":")
    with BlockingRpcClient(host, int(port), getpass.getuser()) as rpc:
        ask = RecoverLeaseRequestProto(src="/file", clientName="another")
        rpc.call("recoverLease", ask)
        closed = IsFileClosedRequestProto(src="/file")
        eventually(lambda: bool(rpc.call("isFileClosed", closed).result), "the file is closed")


def test_the_lease_of_a_dead_writer_is_recovered(dfs: LocalFileSystem) -> None:
    files = Files(dfs)
    half_written(dfs, files)
    recovered(dfs)
    content = files.read("/file")
    assert len(content) >= 4 * MIB
    assert content == DATA[: len(content)]
    (block,) = files.blocks("/file")
    assert block.b.numBytes == len(content)


def test_all_nodes_restart_before_the_recovery(dfs: LocalFileSystem) -> None:
    """Replicas that were being written come back as RWR: the shortest of them is kept."""
    files = Files(dfs)
    half_written(dfs, files)
    for node in dfs.datanodes:
        node.kill()
    for node in dfs.datanodes:
        node.launch()
    for node in dfs.datanodes:
        node.await_announcement()
    recovered(dfs)
    content = files.read("/file")
    assert len(content) >= 4 * MIB
    assert content == DATA[: len(content)]
