"""DataNodes that die while nobody writes, come back, or have a byte of theirs flipped.

Clients are real (hdfs-native); every file is compared byte by byte with what was written. Deaths
in mid-write: `test_datanode_kill_native`, `test_datanode_kill_java`, `test_datanode_flush_java`.
"""

import contextlib
import getpass
import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import hdfs_native
import pytest
from hdfs_native import WriteOptions
from tests.wire.hadoop_transfer.peer import Peer

from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.testing.filesystem import LocalFileSystem, LocalProcess
from headrace.wire.hadoop.protos.client_namenode_pb2 import GetBlockLocationsRequestProto
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    ERROR,
    ERROR_CHECKSUM,
    SUCCESS,
    ClientReadStatusProto,
)
from headrace.wire.hadoop.protos.hdfs_pb2 import LocatedBlockProto
from headrace.wire.hadoop.transfer import block_of, encode_delimited

MIB = 1 << 20
SETTINGS = {
    "dfs.namenode.redundancy.interval.seconds": 1,
    "dfs.namenode.reconstruction.pending.timeout-sec": 5,
    "dfs.block.scanner.volume.bytes.per.second": 256 * MIB,
}
WAIT_S = 40.0


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=4, settings=SETTINGS) as running:
        yield running


class Files:
    """A client, and where the NameNode says the blocks are."""

    def __init__(self, dfs: LocalFileSystem) -> None:
        self.dfs = dfs
        self.client = hdfs_native.Client(dfs.url)

    def blocks(self, path: str) -> list[LocatedBlockProto]:
        host, port = self.dfs.address.split(":")
        with BlockingRpcClient(host, int(port), getpass.getuser()) as rpc:
            request = GetBlockLocationsRequestProto(src=path, offset=0, length=1 << 40)
            return list(rpc.call("getBlockLocations", request).locations.blocks)

    def nodes_of(self, block: LocatedBlockProto) -> list[LocalProcess]:
        """The processes that hold a block, in no order."""
        by_port = {transfer_port(node): node for node in self.dfs.datanodes}
        return [by_port[location.id.xferPort] for location in block.locs]

    def read(self, path: str) -> bytes:
        with self.client.read(path) as file:
            return bytes(file.read(file.tell() + (1 << 30)))


def transfer_port(node: LocalProcess) -> int:
    return int(node.where["listen"].split(":")[1])


def connected_ports(pid: int) -> set[int]:
    """Ports of other processes that a process has TCP connections to."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[2].split(":")[1], 16) for row in rows if row[3] == "01" and row[9] in inodes}


def pipeline_of(nodes: list[LocalProcess]) -> list[LocalProcess]:
    """First to last: each node is connected to the next one's transfer port."""
    by_port = {transfer_port(node): node for node in nodes}
    after = {}
    for node in nodes:
        for port in connected_ports(node.pid) & set(by_port):
            after[transfer_port(node)] = port
    (first,) = set(by_port) - set(after.values())
    order = [first]
    while order[-1] in after:
        order.append(after[order[-1]])
    return [by_port[port] for port in order]


def is_registered(node: LocalProcess) -> bool:
    try:
        with urllib.request.urlopen(f"http://{node.where['http']}/health", timeout=5) as answer:
            return bool(json.loads(answer.read())["status"] == "ok")
    except OSError:
        return False


def is_live(dfs: LocalFileSystem, datanodes: int) -> bool:
    try:
        health = dfs.health()
    except OSError:
        return False  # safe mode, told by the status
    return bool(health["live_datanodes"] == datanodes and not health["safe_mode"])


def options(replication: int) -> WriteOptions:
    return WriteOptions(replication=replication, overwrite=True)


def eventually(holds: Callable[[], bool], what: str, tell: Callable[[], str] = lambda: "") -> None:
    """`tell` says more of what does not hold."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}\n{tell()}"
        time.sleep(0.1)


def test_a_node_dies_while_idle_and_its_blocks_are_copied(dfs: LocalFileSystem) -> None:
    files = Files(dfs)
    data = os.urandom(5 * MIB)
    with files.client.create("/file", options(3)) as file:
        file.write(data)
    holders = files.nodes_of(files.blocks("/file")[0])
    holders[0].kill()
    eventually(
        lambda: len([n for n in files.nodes_of(files.blocks("/file")[0]) if n.is_alive]) == 3,
        "three live replicas",
    )
    assert files.read("/file") == data


def replica_path(node: LocalProcess, block_id: int) -> Path:
    (path,) = node.data.glob(f"data/current/BP-*/current/finalized/*/*/blk_{block_id}")
    return path


def meta_of(path: Path) -> bytes:
    """The checksums beside a replica; nothing where they are missing."""
    with contextlib.suppress(FileNotFoundError):
        for meta in path.parent.glob(f"{path.name}_*.meta"):
            return meta.read_bytes()
    return b""


def good_replicas(dfs: LocalFileSystem, block_id: int, data: bytes, meta: bytes) -> tuple[int, int]:
    """How many replicas on disk are right, bytes and checksums, and how many are wrong."""
    found = []
    for node in dfs.datanodes:
        for path in node.data.glob(f"data/current/BP-*/current/finalized/*/*/blk_{block_id}"):
            with contextlib.suppress(FileNotFoundError):
                found.append((path.read_bytes(), meta_of(path)) == (data, meta))
    return found.count(True), found.count(False)


def damage(path: Path, kind: str) -> None:
    (meta,) = path.parent.glob(f"{path.name}_*.meta")
    match kind:
        case "a flipped byte" | "a flipped checksum":
            damaged, at = (path, MIB + 7) if kind == "a flipped byte" else (meta, 3_000)
            with damaged.open("r+b") as file:
                file.seek(at)
                flipped = bytes([file.read(1)[0] ^ 0x10])
                file.seek(at)
                file.write(flipped)
        case "no checksums":
            meta.unlink()
        case _:
            os.truncate(meta, 2)


def test_what_is_damaged_is_not_read_and_is_replaced(dfs: LocalFileSystem) -> None:
    """Of each file one replica is bad, its bytes or its checksums."""
    files = Files(dfs)
    kinds = ("a flipped byte", "a flipped checksum", "no checksums", "two bytes of checksums")
    written = {}
    for index, kind in enumerate(kinds):
        path, data = f"/file-{index}", os.urandom(3 * MIB)
        with files.client.create(path, options(3)) as file:
            file.write(data)
        (block,) = files.blocks(path)
        bad = replica_path(files.nodes_of(block)[0], block.b.blockId)
        written[path] = (block.b.blockId, data, meta_of(bad))
        damage(bad, kind)
    for _ in range(4):
        for path, (_, data, _) in written.items():
            assert files.read(path) == data, path
    # hdfs-native does not tell the NameNode; the nodes' own scanners do.
    for path, (block_id, data, meta) in written.items():
        healed = partial(good_replicas, dfs, block_id, data, meta)
        eventually(lambda healed=healed: healed() == (3, 0), path)  # type: ignore[misc]
        assert files.read(path) == data


@pytest.mark.parametrize("kind", ["a flipped byte", "two bytes of checksums"])
def test_what_is_found_bad_while_the_namenode_is_down_is_replaced_once_it_is_back(
    dfs: LocalFileSystem, kind: str
) -> None:
    """A reader comes across it, and the node looks again for itself."""
    files = Files(dfs)
    data = os.urandom(3 * MIB)
    with files.client.create("/file", options(3)) as file:
        file.write(data)
    (block,) = files.blocks("/file")
    node = files.nodes_of(block)[0]
    bad = replica_path(node, block.b.blockId)
    meta = meta_of(bad)
    dfs.namenode.kill()
    damage(bad, kind)
    with Peer(("127.0.0.1", transfer_port(node))) as peer:
        answer = peer.ask_read(block_of(block.b), 0, len(data))
        if kind == "a flipped byte":
            assert answer.status == SUCCESS
            verdict = ClientReadStatusProto(status=ERROR_CHECKSUM)
            peer.send(encode_delimited(verdict))
            eventually(lambda: "corrupt_replica" in node.log_text(), "the node's own look")
        else:
            assert answer.status == ERROR
    dfs.namenode.start()
    healed = partial(good_replicas, dfs, block.b.blockId, data, meta)
    eventually(lambda: healed() == (3, 0), "three good replicas", node.log_text)
    assert Files(dfs).read("/file") == data


def test_a_node_that_comes_back_brings_its_replicas(dfs: LocalFileSystem) -> None:
    files = Files(dfs)
    data = os.urandom(2 * MIB)
    with files.client.create("/file", options(1)) as file:
        file.write(data)
    (holder,) = files.nodes_of(files.blocks("/file")[0])
    holder.kill()
    holder.start()
    eventually(lambda: is_registered(holder), "the node is registered again")
    assert files.blocks("/file")[0].locs
    assert files.read("/file") == data


def test_the_namenode_restarts_and_the_nodes_find_it_again(dfs: LocalFileSystem) -> None:
    files = Files(dfs)
    data = os.urandom(2 * MIB)
    with files.client.create("/file", options(3)) as file:
        file.write(data)
    dfs.namenode.kill()
    dfs.namenode.start()
    eventually(lambda: is_live(dfs, 4), "four nodes and no safe mode")
    again = Files(dfs)
    assert again.read("/file") == data
    with again.client.create("/more", options(3)) as file:
        file.write(data)
    assert again.read("/more") == data
