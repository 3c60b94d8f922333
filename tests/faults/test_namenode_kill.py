"""kill -9 of the NameNode under a load of creates, renames and deletes, 20 times.

Clients retry a call under its own ids until it is answered, as Hadoop's do: then every operation
has taken effect exactly once (D9, D10), and what was answered is there at the end.
"""

import getpass
import threading
import time
from collections.abc import Iterator
from random import Random

import pytest

from headrace.client.hadoop_rpc import BlockingRpcClient, RpcConnectionError
from headrace.testing.filesystem import LocalFileSystem
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.acl_pb2 import FsPermissionProto

KILLS = 20
WORKERS = 4
ANSWER_TIMEOUT_S = 60.0


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    # Checkpoints after few edits: restarts begin from them too.
    with LocalFileSystem(datanodes=0, settings={"dfs.namenode.checkpoint.txns": 500}) as running:
        yield running


class Worker:
    """One client with a directory of its own, and what must be in it."""

    def __init__(self, dfs: LocalFileSystem, index: int) -> None:
        host, port = dfs.address.split(":")
        self.rpc = BlockingRpcClient(host, int(port), getpass.getuser(), timeout_ms=5_000)
        self.random = Random(index)
        self.root = f"/w{index}"
        self.names: set[str] = set()
        self.made = 0
        self.answered = 0
        self.failure: BaseException | None = None

    def until_answered(self, method: str, request: object) -> object:
        """The same call, under the same ids, until the server answers it."""
        call_id = self.rpc._call_id
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            self.rpc._call_id = call_id
            try:
                answer: object = self.rpc.call(method, request)  # type: ignore[arg-type]
            except RpcConnectionError:
                assert time.monotonic() < deadline, f"{method} was not answered"
                time.sleep(0.01)
                continue
            self.answered += 1
            return answer

    def run(self, stop: threading.Event) -> None:
        try:
            self.mkdirs(self.root)
            while not stop.is_set():
                self.step()
        except BaseException as error:
            self.failure = error
        finally:
            self.rpc.close()

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.5 or not self.names:
            self.create()
        elif choice < 0.8:
            self.rename()
        else:
            self.delete()

    def mkdirs(self, path: str) -> None:
        masked = FsPermissionProto(perm=0o755)
        request = pb.MkdirsRequestProto(src=path, masked=masked, createParent=True)
        self.until_answered("mkdirs", request)

    def create(self) -> None:
        self.made += 1
        name = f"f{self.made}"
        path = f"{self.root}/{name}"
        create = pb.CreateRequestProto(
            src=path,
            masked=FsPermissionProto(perm=0o644),
            clientName=self.root,
            createFlag=1,
            createParent=False,
            replication=1,
            blockSize=1 << 27,
        )
        answer = self.until_answered("create", create)
        file_id = answer.fs.fileId  # type: ignore[attr-defined]
        complete = pb.CompleteRequestProto(src=path, clientName=self.root, fileId=file_id)
        done = self.until_answered("complete", complete)
        assert done.result is True  # type: ignore[attr-defined]
        self.names.add(name)

    def rename(self) -> None:
        self.made += 1
        old, new = self.random.choice(sorted(self.names)), f"r{self.made}"
        request = pb.Rename2RequestProto(
            src=f"{self.root}/{old}", dst=f"{self.root}/{new}", overwriteDest=False
        )
        self.until_answered("rename2", request)
        self.names.remove(old)
        self.names.add(new)

    def delete(self) -> None:
        name = self.random.choice(sorted(self.names))
        request = pb.DeleteRequestProto(src=f"{self.root}/{name}", recursive=False)
        answer = self.until_answered("delete", request)
        assert answer.result is True, f"{name} was gone already"  # type: ignore[attr-defined]
        self.names.remove(name)


def listed(dfs: LocalFileSystem, path: str) -> set[str]:
    host, port = dfs.address.split(":")
    names: set[str] = set()
    with BlockingRpcClient(host, int(port), getpass.getuser()) as rpc:
        start_after = b""
        for _ in range(1_000):
            request = pb.GetListingRequestProto(
                src=path, startAfter=start_after, needLocation=False
            )
            page = rpc.call("getListing", request).dirList
            names |= {entry.path.decode() for entry in page.partialListing}
            if not page.remainingEntries:
                return names
            start_after = page.partialListing[-1].path
    raise AssertionError("a listing without end")


def test_nothing_acknowledged_is_lost_and_nothing_is_half_done(dfs: LocalFileSystem) -> None:
    stop = threading.Event()
    workers = [Worker(dfs, index) for index in range(WORKERS)]
    threads = [threading.Thread(target=worker.run, args=(stop,)) for worker in workers]
    for thread in threads:
        thread.start()
    random = Random(7)
    try:
        for _ in range(KILLS):
            time.sleep(random.uniform(0.05, 0.6))
            dfs.namenode.kill()
            dfs.namenode.start()
    finally:
        stop.set()
        for thread in threads:
            thread.join(ANSWER_TIMEOUT_S + 10)
    assert [worker.failure for worker in workers] == [None] * WORKERS
    assert sum(worker.answered for worker in workers) > KILLS * WORKERS
    dfs.namenode.kill()
    assert list((dfs.namenode.data / "name").glob("fsimage_*")), "no start had a checkpoint"
    dfs.namenode.start()
    for worker in workers:
        assert listed(dfs, worker.root) == worker.names
