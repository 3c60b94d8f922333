"""Reads and writes files of an HDFS on the loop, as any user: what WebHDFS moves data with.

Owns: one RPC client a user, the clock of leases, and the way from a path to blocks.
Must not know: HTTP, who may act for whom: the NameNode hears both names and decides.
`block_streams` moves the bytes of one block.

A writer that fails abandons its file to the lease's recovery: a WebHDFS client that saw an error
sends its file again. A read goes on at the next replica when one fails.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import Message

from headrace.base.errors import ProtocolError
from headrace.base.promise import Promise
from headrace.runtime.block_streams import BlockFailed, BlockWriter, read_block
from headrace.runtime.hadoop_client import RpcClient, RpcUnavailable
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos.client_datanode_pb2 import GetReplicaVisibleLengthRequestProto
from headrace.wire.hadoop.rpc_calls import RpcUser
from headrace.wire.hadoop.rpc_protocols import CLIENT_DATANODE, CLIENT_NAMENODE

_USERS_MAX = 256
_RENEW_INTERVAL_S = 20.0
_COMPLETE_ATTEMPTS = 50
_COMPLETE_PAUSE_S = 0.1
_BLOCK_ATTEMPTS = 4


class DfsClient:
    """One NameNode's files. All on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._by_user: dict[RpcUser, RpcClient] = {}
        """The one that called last at the end."""

    def close(self) -> None:
        for client in self._by_user.values():
            client.close()
        self._by_user.clear()

    async def call(self, user: RpcUser, method: str, request: Message) -> Any:
        client = self._by_user.pop(user, None)
        if client is None:
            self._forget_idle()
            client = RpcClient(self._loop, self._host, self._port, user)
        self._by_user[user] = client
        return await settled(client.call(CLIENT_NAMENODE, method, request))

    def _forget_idle(self) -> None:
        """Room for one more user. Nobody loses a call that is in flight."""
        idle = [user for user, client in self._by_user.items() if not client.busy]
        for user in idle[: max(0, len(self._by_user) - _USERS_MAX + 1)]:
            self._by_user.pop(user).close()

    # -- reading -------------------------------------------------------------------------

    async def locate(self, user: RpcUser, path: str) -> hdfs.LocatedBlocksProto:
        request = pb.GetBlockLocationsRequestProto(src=path, offset=0, length=2**63 - 1)
        located: hdfs.LocatedBlocksProto = (
            await self.call(user, "getBlockLocations", request)
        ).locations
        if located.HasField("lastBlock") and not located.isLastBlockComplete:
            await self._add_open_block(user, located)
        return located

    async def _add_open_block(self, user: RpcUser, located: hdfs.LocatedBlocksProto) -> None:
        """A block that is being written is read as far as its DataNodes say, as by any client."""
        last = located.lastBlock
        if located.blocks and located.blocks[-1].b.blockId == last.b.blockId:
            del located.blocks[-1]
        request = GetReplicaVisibleLengthRequestProto(block=last.b)
        unknown = 0
        for node in last.locs:
            client = RpcClient(self._loop, node.id.ipAddr, node.id.ipcPort, user.effective)
            try:
                call = client.call(CLIENT_DATANODE, "getReplicaVisibleLength", request)
                last.b.numBytes = (await settled(call)).length
                break
            except RemoteError as error:
                unknown += error.class_name == java.REPLICA_NOT_FOUND
            except RpcUnavailable:
                continue
            finally:
                client.close()
        else:
            if unknown < len(last.locs):
                raise RemoteError(java.IO, f"Cannot obtain block length for blk_{last.b.blockId}")
            last.b.numBytes = 0
        located.fileLength += last.b.numBytes
        located.blocks.append(last)

    async def read(
        self, located: hdfs.LocatedBlocksProto, offset: int, length: int
    ) -> AsyncIterator[bytes]:
        """`length` bytes from `offset`, in pieces; both lie inside the file."""
        end = offset + length
        for block in located.blocks:
            first, last = block.offset, block.offset + block.b.numBytes
            if first >= end or last <= offset:
                continue
            start = max(offset, first) - first
            stop = min(end, last) - first
            async for piece in self._read_replicas(block, start, stop - start):
                yield piece

    async def _read_replicas(
        self, block: hdfs.LocatedBlockProto, start: int, length: int
    ) -> AsyncIterator[bytes]:
        failure: Exception = BlockFailed("the block has no replica")
        for node in block.locs:
            try:
                async for piece in read_block(node.id, block, start, length):
                    start += len(piece)
                    length -= len(piece)
                    yield piece
                return
            except (OSError, EOFError, TimeoutError, BlockFailed, ProtocolError) as error:
                failure = error
        raise BlockFailed(f"no replica of block {block.b.blockId} can be read: {failure}")

    # -- writing -------------------------------------------------------------------------

    async def create(
        self, user: RpcUser, request: pb.CreateRequestProto, pieces: AsyncIterator[bytes]
    ) -> None:
        request.clientName = _client_name()
        status = (await self.call(user, "create", request)).fs
        writer = _FileWriter(self, user, request.src, request.clientName, status)
        await self._write(writer, pieces)

    async def append(self, user: RpcUser, path: str, pieces: AsyncIterator[bytes]) -> None:
        name = _client_name()
        request = pb.AppendRequestProto(src=path, clientName=name, flag=pb.APPEND)
        answer = await self.call(user, "append", request)
        writer = _FileWriter(self, user, path, name, answer.stat)
        if answer.HasField("block"):
            await writer.reopen(answer.block)
        await self._write(writer, pieces)

    async def _write(self, writer: "_FileWriter", pieces: AsyncIterator[bytes]) -> None:
        renewing = self._loop.create_task(writer.keep_lease(), name="webhdfs-lease")
        try:
            async for piece in pieces:
                await writer.write(piece)
            await writer.close()
        except BaseException:
            writer.abort()
            raise
        finally:
            renewing.cancel()


class _FileWriter:
    """One file being written, block after block."""

    def __init__(
        self,
        dfs: DfsClient,
        user: RpcUser,
        path: str,
        client_name: str,
        status: hdfs.HdfsFileStatusProto,
    ) -> None:
        self._dfs = dfs
        self._user = user
        self._path = path
        self._client_name = client_name
        self._status = status
        self._previous: hdfs.ExtendedBlockProto | None = None
        self._block: BlockWriter | None = None

    async def keep_lease(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_INTERVAL_S)
            request = pb.RenewLeaseRequestProto(clientName=self._client_name)
            await self._dfs.call(self._user, "renewLease", request)

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._block is None:
                self._block = await self._next_block()
            room = self._status.blocksize - self._block.length
            await self._block.write(view[:room])
            view = view[room:]
            if self._block.length >= self._status.blocksize:
                await self._end_block()

    async def reopen(self, located: hdfs.LocatedBlockProto) -> None:
        """The last block, which has room, gets a new generation stamp and goes on."""
        request = pb.UpdateBlockForPipelineRequestProto(
            block=located.b, clientName=self._client_name
        )
        answer = await self._dfs.call(self._user, "updateBlockForPipeline", request)
        stamp = answer.block.b.generationStamp
        self._block = await BlockWriter.open(located, self._client_name, append_stamp=stamp)
        update = pb.UpdatePipelineRequestProto(
            clientName=self._client_name,
            oldBlock=located.b,
            newBlock=self._block.name,
            newNodes=[node.id for node in located.locs],
            storageIDs=located.storageIDs,
        )
        await self._dfs.call(self._user, "updatePipeline", update)

    async def _next_block(self) -> BlockWriter:
        excluded: list[hdfs.DatanodeInfoProto] = []
        for _ in range(_BLOCK_ATTEMPTS):
            request = pb.AddBlockRequestProto(
                src=self._path,
                clientName=self._client_name,
                previous=self._previous,
                excludeNodes=excluded,
                fileId=self._status.fileId,
            )
            located = (await self._dfs.call(self._user, "addBlock", request)).block
            try:
                return await BlockWriter.open(located, self._client_name)
            except (OSError, EOFError, TimeoutError, BlockFailed) as error:
                bad = error.node_index if isinstance(error, BlockFailed) else 0
                excluded.append(located.locs[bad])
                abandon = pb.AbandonBlockRequestProto(
                    b=located.b,
                    src=self._path,
                    holder=self._client_name,
                    fileId=self._status.fileId,
                )
                await self._dfs.call(self._user, "abandonBlock", abandon)
        raise RemoteError(java.IO, f"no pipeline could be made for {self._path}")

    async def _end_block(self) -> None:
        assert self._block is not None
        await self._block.close()
        self._previous, self._block = self._block.name, None

    async def close(self) -> None:
        if self._block is not None:
            await self._end_block()
        request = pb.CompleteRequestProto(
            src=self._path,
            clientName=self._client_name,
            last=self._previous,
            fileId=self._status.fileId,
        )
        for _ in range(_COMPLETE_ATTEMPTS):
            if (await self._dfs.call(self._user, "complete", request)).result:
                return
            await asyncio.sleep(_COMPLETE_PAUSE_S)
        raise RemoteError(java.IO, f"{self._path} is not complete: its last block was not reported")

    def abort(self) -> None:
        if self._block is not None:
            self._block.abort()
            self._block = None


def _client_name() -> str:
    return f"DFSClient_NONMAPREDUCE_webhdfs_{secrets.token_hex(8)}"


async def settled(promise: Promise[Any]) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def on_settled(done: Promise[Any]) -> None:
        if future.done():
            return
        if done.error is None:
            future.set_result(done.value())
        else:
            future.set_exception(done.error)

    promise.then(on_settled)
    return await future
