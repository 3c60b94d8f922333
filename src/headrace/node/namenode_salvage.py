"""Copies what is left of damaged files to /lost+found, for `hdfs fsck -move`.

Owns: a client of this NameNode's own file system, made with the first copy, and the copies under
way. Must not know: which files are damaged (`namespace.http.fsck_repairs`).
Spec: NamenodeFsck.copyBlocksToLostFound. Each stretch of readable blocks becomes a file `0`, `1`, …
in a directory that has the damaged file's path.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.namespace.settings import NamespaceSettings
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.http.fsck_repairs import Remains
    from headrace.runtime.dfs_client import DfsClient
    from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs


class Salvager:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: tuple[str, int],
        settings: NamespaceSettings,
    ) -> None:
        self._loop = loop
        self._address = address
        self._settings = settings
        self._dfs: DfsClient | None = None
        self._tasks: set[asyncio.Task[str]] = set()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._dfs is not None:
            self._dfs.close()

    def __call__(self, remains: "Remains") -> Promise[str]:
        promise: Promise[str] = Promise()
        stopped = RemoteError(java.IO, "the NameNode is being stopped")
        if self._is_closed:
            promise.reject(stopped)
            return promise

        def on_done(task: asyncio.Task[str]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                promise.reject(stopped)
                return
            error = task.exception()
            if error is not None:
                promise.reject(error)
            else:
                promise.resolve(task.result())

        task = self._loop.create_task(self._move(remains), name="fsck-salvage")
        self._tasks.add(task)
        task.add_done_callback(on_done)
        return promise

    def _client(self) -> "DfsClient":
        if self._dfs is None:
            from headrace.runtime.dfs_client import DfsClient

            self._dfs = DfsClient(self._loop, *self._address)
        return self._dfs

    async def _move(self, remains: "Remains") -> str:
        from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
        from headrace.wire.hadoop.rpc_calls import RpcUser

        dfs, user = self._client(), RpcUser(remains.user)
        there = await dfs.call(user, "getFileInfo", pb.GetFileInfoRequestProto(src=remains.target))
        if there.HasField("fs"):
            # Perhaps of another file that had this name: nobody else may have its bytes any more.
            raise RemoteError(
                java.FILE_ALREADY_EXISTS,
                f"{remains.target} is there already: rename or delete it, then move again",
            )
        folder = pb.MkdirsRequestProto(src=remains.target, createParent=True)
        folder.masked.perm = remains.mode | (remains.mode & 0o444) >> 2
        await dfs.call(user, "mkdirs", folder)
        defaults = await dfs.server_defaults(user)
        copying = _Copying(dfs, await dfs.locate(user, remains.path))
        number = 0
        while copying.has_more():
            request = pb.CreateRequestProto(
                src=f"{remains.target}/{number}",
                clientName="",
                createFlag=pb.CREATE,
                createParent=False,
                replication=self._settings.replication,
                blockSize=self._settings.block_size,
            )
            request.masked.perm = remains.mode
            await dfs.create(user, request, copying.stretch(), defaults)
            number += 1
        if copying.unreadable:
            raise RemoteError(java.IO, "; ".join(copying.unreadable))
        return f"{copying.copied} of {copying.total} blocks are in {remains.target}"


class _Copying:
    """The blocks of one file, from its first to its last."""

    def __init__(self, dfs: "DfsClient", located: "hdfs.LocatedBlocksProto") -> None:
        self._dfs = dfs
        self._located = located
        self._waiting = list(located.blocks)
        self.total = len(self._waiting)
        self.copied = 0
        self.unreadable: list[str] = []
        """Blocks that have replicas which could not be read, and why."""

    def has_more(self) -> bool:
        while self._waiting and not _has_replicas(self._waiting[0]):
            del self._waiting[0]
        return bool(self._waiting)

    async def stretch(self) -> AsyncIterator[bytes]:
        """Bytes up to the next lost block; or into one that turns out to be unreadable."""
        from headrace.runtime.block_streams import BlockFailed

        while self._waiting and _has_replicas(self._waiting[0]):
            block = self._waiting.pop(0)
            try:
                async for piece in self._dfs.read(self._located, block.offset, block.b.numBytes):
                    yield piece
            except BlockFailed as failed:
                self.unreadable.append(str(failed))
                return
            self.copied += 1


def _has_replicas(block: "hdfs.LocatedBlockProto") -> bool:
    return bool(block.locs) and not block.corrupt
