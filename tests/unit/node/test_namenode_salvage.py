"""What is copied of a damaged file: stretches of readable blocks, each a file of its own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.base.promise import Promise
from headrace.namespace.http.fsck_repairs import Remains
from headrace.namespace.settings import NamespaceSettings
from headrace.node.namenode_salvage import Salvager
from headrace.runtime import dfs_client
from headrace.runtime.block_streams import BlockFailed
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.rpc_calls import RpcUser

REMAINS = Remains("/f", "/lost+found/f", 0o640, "ann")


class Files:
    """A file of ten-byte blocks: `.` can be read, `x` has no replica, `c` only corrupt ones, `!`
    one that fails after four bytes."""

    def __init__(self, blocks: str, *, is_there: bool = False) -> None:
        self.blocks = blocks
        self.is_there = is_there
        self.calls: list[tuple[RpcUser, str, Any]] = []
        self.written: dict[str, bytes] = {}
        self.is_closed = False

    def __call__(self, *_: object) -> "Files":
        return self

    def close(self) -> None:
        self.is_closed = True

    async def call(self, user: RpcUser, method: str, request: Any) -> Any:
        self.calls.append((user, method, request))
        answer = pb.GetFileInfoResponseProto()
        if self.is_there:
            answer.fs.SetInParent()
        return answer

    async def server_defaults(self, _user: RpcUser) -> hdfs.FsServerDefaultsProto:
        defaults = hdfs.FsServerDefaultsProto()
        defaults.bytesPerChecksum = 4096
        return defaults

    async def locate(self, _user: RpcUser, _path: str) -> hdfs.LocatedBlocksProto:
        located = hdfs.LocatedBlocksProto()
        for index, kind in enumerate(self.blocks):
            block = located.blocks.add(offset=index * 10, corrupt=kind == "c")
            block.b.numBytes = 10
            if kind != "x":
                block.locs.add()
        return located

    async def read(
        self, _located: hdfs.LocatedBlocksProto, offset: int, length: int
    ) -> AsyncIterator[bytes]:
        index = offset // 10
        yield bytes([index]) * 4
        if self.blocks[index] == "!":
            raise BlockFailed(f"block {index} can't be read")
        yield bytes([index]) * (length - 4)

    async def create(
        self,
        _user: RpcUser,
        request: pb.CreateRequestProto,
        pieces: AsyncIterator[bytes],
        defaults: hdfs.FsServerDefaultsProto,
    ) -> None:
        assert request.masked.perm == 0o640
        assert defaults.bytesPerChecksum == 4096
        self.written[request.src] = b"".join([piece async for piece in pieces])


async def settled(promise: Promise[str]) -> str:
    return str(await dfs_client.settled(promise))


def salvaged(files: Files, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(dfs_client, "DfsClient", files)

    async def run() -> str:
        salvager = Salvager(asyncio.get_running_loop(), ("127.0.0.1", 1), NamespaceSettings())
        try:
            return await settled(salvager(REMAINS))
        finally:
            salvager.close()
            assert files.is_closed

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("blocks", "stretches"),
    [
        (".x.", [[0], [2]]),
        ("x..", [[1, 2]]),
        ("..xc.x", [[0, 1], [4]]),
        ("xx", []),
    ],
)
def test_each_stretch_is_a_file(
    blocks: str, stretches: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(blocks)
    told = salvaged(files, monkeypatch)
    assert told == f"{blocks.count('.')} of {len(blocks)} blocks are in /lost+found/f"
    assert files.written == {
        f"/lost+found/f/{number}": b"".join(bytes([index]) * 10 for index in stretch)
        for number, stretch in enumerate(stretches)
    }
    (folder,) = [request for _, method, request in files.calls if method == "mkdirs"]
    assert (folder.src, folder.masked.perm) == ("/lost+found/f", 0o750)
    assert {user for user, _, _ in files.calls} == {RpcUser("ann")}


def test_a_block_that_fails_ends_its_stretch_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(".!.")
    with pytest.raises(RemoteError, match="block 1 can't be read"):
        salvaged(files, monkeypatch)
    assert files.written == {
        "/lost+found/f/0": bytes(10) + bytes([1]) * 4,
        "/lost+found/f/1": bytes([2]) * 10,
    }


def test_what_is_there_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(".", is_there=True)
    with pytest.raises(RemoteError, match=r"/lost\+found/f is there already"):
        salvaged(files, monkeypatch)
    assert files.written == {}


def test_nothing_begins_once_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dfs_client, "DfsClient", Files("."))

    async def run() -> None:
        salvager = Salvager(asyncio.get_running_loop(), ("127.0.0.1", 1), NamespaceSettings())
        under_way = salvager(REMAINS)
        salvager.close()
        for promise in (under_way, salvager(REMAINS)):
            with pytest.raises(RemoteError, match="is being stopped"):
                await settled(promise)

    asyncio.run(run())
