"""A DataNode dies while hdfs-native writes: the write goes on and completes, byte for byte right.

The writer is a process of its own. hdfs-native 0.14.7 has a lost wake-up of its runtime (told in
docs/NAMESPACE.md) that a DataNode can make rare but, when the node that dies is the client's own
first one, not rule out: a writer that stands still is let go and the case is played once more.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import hdfs_native
import pytest
from hdfs_native import WriteOptions
from tests.faults.test_datanode_kill import MIB, SETTINGS, Files, eventually, pipeline_of

from headrace.testing.filesystem import LocalFileSystem
from headrace.wire.hadoop.exceptions import RemoteError

SIZE_MIB = 40
TRIES = 3
STANDS_STILL_S = 20.0
NEW_FILES = 20

WRITER = """
import sys, hdfs_native
from hdfs_native import WriteOptions
url, path, count = sys.argv[1:]
piece = bytes(range(256)) * 4096
with hdfs_native.Client(url).create(path, WriteOptions(replication=3)) as file:
    for index in range(int(count)):
        file.write(index.to_bytes(4, "big") + piece[4:])
        if index == 8:
            print("streaming", flush=True)
            assert sys.stdin.readline()
print("closed", flush=True)
"""
PIECE = bytes(range(256)) * 4096
DATA = b"".join(index.to_bytes(4, "big") + PIECE[4:] for index in range(SIZE_MIB))


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=4, settings=SETTINGS) as running:
        yield running


def written(dfs: LocalFileSystem, files: Files, path: str, position: int) -> bool:
    """Write and kill; False if the client stood still afterwards."""
    command = [sys.executable, "-c", WRITER, dfs.url, path, str(SIZE_MIB)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"streaming\n"
        pipeline = pipeline_of(files.nodes_of(files.blocks(path)[0]))
        assert len(pipeline) == 3
        writer.stdin.write(b"go on\n")
        writer.stdin.flush()
        victim = pipeline[position]
        victim.kill()
        try:
            writer.wait(STANDS_STILL_S)
        except subprocess.TimeoutExpired:
            writer.kill()
            victim.start()
            eventually(lambda: dfs.health()["live_datanodes"] == 4, "four nodes")
            return False
        assert writer.returncode == 0
        assert writer.stdout.readline() == b"closed\n"
    return True


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_put_goes_on_where_nobody_can_stand_in(victim: int) -> None:
    """Three DataNodes, three replicas, and `headrace fs put`."""
    with LocalFileSystem(datanodes=3, settings=SETTINGS) as three:
        files = Files(three)
        for path in (f"/file-{again}" for again in range(TRIES)):
            command = [sys.executable, "-P", "-m", "headrace", "fs", "put", "-", path]
            with subprocess.Popen([*command, "--fs", three.url], stdin=subprocess.PIPE) as put:
                assert put.stdin is not None
                put.stdin.write(DATA[: 20 * MIB])
                put.stdin.flush()
                eventually(partial(is_begun, files, path), "a block")
                three.datanodes[victim].kill()
                put.stdin.write(DATA[20 * MIB :])
                put.stdin.close()
                try:
                    put.wait(STANDS_STILL_S)
                except subprocess.TimeoutExpired:
                    put.kill()
            if put.returncode == 0:
                break
            assert put.returncode < 0, "it stood still, or goes on"
            three.datanodes[victim].start()
            eventually(lambda: three.health()["live_datanodes"] == 3, "three nodes")
        assert files.read(path) == DATA


def is_begun(files: Files, path: str) -> bool:
    """A copy has a name of its own until it is whole."""
    names = [status.path for status in files.client.list_status("/")]
    aside = [name for name in names if name.startswith(f"{path}.") and name.endswith("._COPYING_")]
    try:
        return any(files.blocks(name) for name in aside)
    except RemoteError:
        return False


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_write_goes_on_when_a_node_of_its_pipeline_dies(
    dfs: LocalFileSystem, position: int
) -> None:
    files = Files(dfs)
    paths = (f"/file-{again}" for again in range(TRIES))
    path = next((path for path in paths if written(dfs, files, path, position)), None)
    assert path is not None, f"the client stood still {TRIES} times"
    content = files.read(path)
    assert len(content) == SIZE_MIB * MIB
    assert hashlib.md5(content).digest() == hashlib.md5(DATA).digest()
    (block,) = files.blocks(path)
    assert block.b.numBytes == SIZE_MIB * MIB
    assert len([node for node in files.nodes_of(block) if node.is_alive]) >= 2


def test_no_new_file_is_sent_to_a_node_that_just_died(dfs: LocalFileSystem) -> None:
    """hdfs-native gives up a new block when one node of its pipeline can't be reached."""
    client = hdfs_native.Client(dfs.url)
    victim = dfs.datanodes[1]
    victim.kill()
    eventually(lambda: dfs.health()["doubtful_datanodes"] == 1, "a doubtful node")
    assert dfs.health()["live_datanodes"] == 4, "dead long before ten heartbeats"
    for number in range(NEW_FILES):
        with client.create(f"/new-{number}", WriteOptions(replication=3)) as file:
            file.write(PIECE)
    victim.start()
    eventually(lambda: dfs.health()["doubtful_datanodes"] == 0, "its return")
    files = Files(dfs)
    assert all(files.read(f"/new-{number}") == PIECE for number in range(NEW_FILES))
