"""kill -9 of the NameNode 20 times, while real clients write, append, rename, delete and read.

hdfs-native in processes of its own and Hadoop's client, three DataNodes, files of no byte to three
blocks, names that all of them replace. What each client saw is judged by `check_file_history` (D1,
D9, D10); afterwards no file stays open (D6), fsck is content, every replica is right (D4, D16), and
the namespace is what checkpoint and edits give, the older checkpoint too (D13).
"""

import getpass
import shutil
import threading
import time
import urllib.request
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import hdfs_native
import pytest
from google.protobuf.message import Message
from tests.faults.file_load import JavaWorker, Kill, NativeWorker
from tests.faults.file_worker import FOLDERS, REPLICATION, SHARED
from tests.faults.test_datanode_kill import eventually, is_live
from tests.interop.hadoop_tools import HadoopTools

from headrace.base.events import EventLog
from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.datanode.dataset import FINALIZED, Dataset
from headrace.datanode.loading import load_replicas
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.log.file_budget import FileBudget
from headrace.namespace.checkpoint import (
    check_gap,
    image_offsets,
    image_path,
    load_newest,
    replay_files,
)
from headrace.namespace.filesystem import Namespace, walk
from headrace.namespace.image import read_image
from headrace.namespace.inodes import FileInode
from headrace.namespace.journal import Journal, log_path, open_log
from headrace.namespace.settings import NamespaceSettings
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.testing.datanode_checkers import check_replicas
from headrace.testing.file_history import FileOp, check_file_history
from headrace.testing.filesystem import LocalFileSystem
from headrace.testing.history import Outcome
from headrace.testing.namenode import durable_state
from headrace.testing.namespace_checkers import check_namespace
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.hdfs_pb2 import HdfsFileStatusProto

pytestmark = pytest.mark.java

NATIVE_WORKERS = 3
DATANODES = 3
SETTINGS = {
    "dfs.replication": REPLICATION,
    "dfs.namenode.redundancy.interval.seconds": 1,
    # Checkpoints after few edits: restarts begin from them too.
    "dfs.namenode.checkpoint.txns": 300,
}
ANSWERS_TIMEOUT_S = 60.0


class Answers:
    """How many calls were acknowledged, to all clients together."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def on_answer(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def await_more(self, more: int) -> None:
        with self._changed:
            wanted = self._count + more
            enough = self._changed.wait_for(lambda: self._count >= wanted, ANSWERS_TIMEOUT_S)
        assert enough, f"no {more} answers within {ANSWERS_TIMEOUT_S} s"


class Load:
    """All clients."""

    def __init__(self, hadoop: HadoopTools, dfs: LocalFileSystem, seed: int) -> None:
        self.answers = Answers()
        client = hdfs_native.Client(dfs.url)
        for folder in ("/shared", *FOLDERS):
            client.mkdirs(folder, 0o755, True)
        on_answer = self.answers.on_answer
        self.java = JavaWorker(hadoop, dfs.url, seed, on_answer)
        self.native = [
            NativeWorker(dfs.url, f"native{index}", seed * 100 + index, on_answer)
            for index in range(NATIVE_WORKERS)
        ]

    def stop(self) -> list[str]:
        """What went wrong."""
        workers = (*self.native, self.java)
        for worker in workers:
            worker.begin_stop()
        ends = [worker.stop() for worker in workers]
        return [end for end in ends if end is not None]

    def ops(self, kills: list[Kill]) -> list[FileOp]:
        return [*self.java.ops, *(op for worker in self.native for op in worker.ops(kills))]


class Live:
    """What the NameNode says."""

    def __init__(self, dfs: LocalFileSystem) -> None:
        self._dfs = dfs
        self.client = hdfs_native.Client(dfs.url)

    def call(self, method: str, request: Message) -> Any:
        host, port = self._dfs.address.split(":")
        with BlockingRpcClient(host, int(port), getpass.getuser()) as rpc:
            return rpc.call(method, request)

    def open_files(self) -> list[str]:
        request = pb.ListOpenFilesRequestProto(id=0, types=[pb.ALL_OPEN_FILES])
        answer = self.call("listOpenFiles", request)
        assert not answer.hasMore, "more open files than there are clients"
        return [entry.path for entry in answer.entries]

    def close_open_files(self) -> int:
        """Have leases recovered whose clients are gone, and wait for the end of it (D6)."""
        opened = self.open_files()

        def are_closed() -> bool:
            # Asked again and again: until all DataNodes have reported, the answer is "not yet".
            for path in self.open_files():
                self.client.recover_lease(path)
            return not self.open_files()

        eventually(are_closed, "the end of every lease", tell=self._tell_open_files)
        return len(opened)

    def _tell_open_files(self) -> str:
        """What keeps them open: their blocks, what DataNodes have of those, what was logged."""
        told = []
        for path in self.open_files():
            request = pb.GetBlockLocationsRequestProto(src=path, offset=0, length=1 << 60)
            answer = self.call("getBlockLocations", request)
            told.append(f"{path}: {answer}")
            for located in (*answer.locations.blocks, answer.locations.lastBlock):
                told += map(str, self._dfs.data.glob(f"datanode-*/**/blk_{located.b.blockId}*"))
        for log in self._dfs.data.glob("*.log"):
            lines = [line for line in log.read_text().splitlines() if "recover" in line]
            told += [f"{log.name}: {line}" for line in lines[-50:]]
        return "\n".join(told)

    def contents(self) -> dict[str, bytes]:
        files = {}
        for status in self.client.list_status("/", True):
            if not status.isdir:
                with self.client.read(status.path) as file:
                    files[status.path] = bytes(file.read())
        return files

    def fsck(self) -> str:
        url = f"{self._dfs.http_url}/fsck?ugi={getpass.getuser()}&path=/"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    def is_whole(self) -> bool:
        lines = [line.split() for line in self.fsck().splitlines()]
        counts = {" ".join(words[:-1]): words[-1] for words in lines if len(words) > 1}
        under = [words for words in lines if words[:2] == ["Under-replicated", "blocks:"]]
        assert under, counts
        return under[0][2] == "0" and "HEALTHY" in lines[-1]

    def tree(self) -> dict[str, tuple[object, ...]]:
        found = {}
        folders = ["/"]
        while folders:
            folder = folders.pop()
            for status in self._listing(folder):
                path = f"{folder.rstrip('/')}/{status.path.decode()}"
                found[path] = told(status)
                if status.fileType == HdfsFileStatusProto.IS_DIR:
                    folders.append(path)
        return found

    def _listing(self, folder: str) -> Iterator[HdfsFileStatusProto]:
        start_after = b""
        for _ in range(1_000):
            request = pb.GetListingRequestProto(
                src=folder, startAfter=start_after, needLocation=True
            )
            page = self.call("getListing", request).dirList
            yield from page.partialListing
            if not page.remainingEntries:
                return
            start_after = page.partialListing[-1].path
        raise AssertionError("a listing without end")


def told(status: HdfsFileStatusProto) -> tuple[object, ...]:
    blocks = [
        (located.b.blockId, located.b.generationStamp, located.b.numBytes)
        for located in status.locations.blocks
    ]
    return (
        *(status.fileId, status.owner, status.group, status.permission.perm),
        *(status.modification_time, status.length, status.block_replication, blocks),
    )


def kept(ns: Namespace) -> dict[str, tuple[object, ...]]:
    """A namespace in the words of `told`."""
    found: dict[str, tuple[object, ...]] = {}
    for inode in walk(ns.root):
        if inode is ns.root:
            continue
        rest: tuple[object, ...] = (0, 0, [])
        if isinstance(inode, FileInode):
            blocks = [(b.block_id, b.generation_stamp, b.num_bytes) for b in inode.blocks]
            rest = (inode.length, inode.replication, blocks)
        access = inode.access
        head = (inode.inode_id, access.owner, access.group, access.mode)
        found[inode.path()] = (*head, inode.modification_time_ms, *rest)
    return found


def replayed(name: Path) -> Namespace:
    """Checkpoint and edits, as a start reads them; every checkpoint there gives the same."""
    storage, clock, directory = DiskStorage(), SystemClock(), str(name)
    settings = NamespaceSettings(superuser=getpass.getuser())
    damaged: list[str] = []
    ns = load_newest(storage, directory, settings, lambda path, _: damaged.append(path))
    log = open_log(storage, directory, clock, FileBudget(storage))
    check_gap(log, ns)
    failures: list[BaseException] = []
    journal = Journal(log, ns, clock, on_durable=lambda: None, on_fatal=failures.append)
    journal.load()
    assert (damaged, failures) == ([], [])
    check_namespace(ns)
    state = durable_state(ns)
    offsets = image_offsets(storage, directory)
    assert offsets, "no checkpoint was made in all that time"
    for offset in offsets:
        image = storage.read_file(image_path(directory, offset))
        other = read_image(memoryview(image), settings)
        replay_files(storage, log_path(directory), other, log.log_end_offset)
        assert durable_state(other) == state, f"D13: checkpoint {offset} and its edits"
    log.close()
    return ns


def check_datanodes(dfs: LocalFileSystem, ns: Namespace) -> None:
    """D4, D5: on disk every block has its replicas, whole, of its generation."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for node in dfs.datanodes:
        storage = DiskStorage()
        volume = Volume(storage, str(node.data / "data"))
        pool = PoolIdentity(ns.pool_id, ns.namespace_id, ns.cluster_id, ns.c_time_ms)
        volume.format(pool, "", lambda: "")
        dataset = Dataset(storage, [volume], lambda action: action())
        load_replicas(dataset, EventLog(lambda _: None, SystemClock()))
        dataset.pool = pool
        check_replicas(dataset)
        counts.update(
            (replica.block_id, replica.generation_stamp, replica.num_bytes)
            for replica in dataset.replicas.values()
            if replica.state is FINALIZED
        )
    for block in ns.blocks.values():
        name = (block.block_id, block.generation_stamp, block.num_bytes)
        assert counts[name] == REPLICATION, f"D16: {block.name} has {counts[name]} replicas"


def kill(dfs: LocalFileSystem) -> Kill:
    began = time.monotonic()
    dfs.namenode.kill()
    return Kill(began, time.monotonic())


@pytest.mark.parametrize(
    ("seed", "kills"),
    [(1, 20), *(pytest.param(seed, 100, marks=pytest.mark.long) for seed in (2, 3))],
)
def test_nothing_acknowledged_is_lost_and_nothing_is_half_done(
    hadoop: HadoopTools, tmp_path: Path, seed: int, kills: int
) -> None:
    random = Random(seed)
    struck: list[Kill] = []
    with LocalFileSystem(tmp_path / "dfs", datanodes=DATANODES, settings=SETTINGS) as dfs:
        load = Load(hadoop, dfs, seed)
        try:
            for _ in range(kills):
                load.answers.await_more(random.randrange(1, 40))
                time.sleep(random.uniform(0, 0.03))  # anywhere in what comes next
                struck.append(kill(dfs))
                dfs.namenode.start()
        finally:
            failures = load.stop()
        assert failures == []
        dfs.namenode.kill()
        dfs.namenode.start()
        eventually(lambda: is_live(dfs, DATANODES), "all DataNodes and no safe mode")
        live = Live(dfs)
        recovered = live.close_open_files()
        ops = load.ops(struck)
        counts = Counter(op.outcome for op in ops)
        print(f"seed {seed}, {kills} kills, {dict(counts)}, {recovered} files were left open")
        files = live.contents()
        assert check_file_history(ops, files, frozenset(SHARED)) == []
        assert counts[Outcome.OK] > kills
        assert counts[Outcome.INFO] > 0, "no kill struck a call"
        crcs = [f"{len(data)}:{zlib.crc32(data):x}" for data in files.values()]
        assert load.java.read(list(files)) == crcs
        eventually(live.is_whole, "a healthy file system with all its replicas")
        tree = live.tree()
        dfs.namenode.kill()
        shutil.copytree(dfs.namenode.data / "name", tmp_path / "name")
        ns = replayed(tmp_path / "name")
        assert kept(ns) == tree
        for node in dfs.datanodes:
            node.stop()
        check_datanodes(dfs, ns)
