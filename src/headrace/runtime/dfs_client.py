"""Reads and writes files of an HDFS on the loop, as any user: what WebHDFS moves data with.

Owns: one RPC client a user, and the way from a path to blocks.
Must not know: HTTP, who may act for whom: the NameNode hears both names and decides.
`file_writer` writes a file block by block, `block_streams` reads the bytes of one block.

A read goes on at the next replica when one fails, a write with the DataNodes that remain. A writer
that fails all the same abandons its file to the lease's recovery: a WebHDFS client that saw an
error sends its file again.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from google.protobuf.message import Message

from headrace.base.promise import Promise
from headrace.runtime.block_streams import FAILURES, BlockFailed, read_block
from headrace.runtime.file_writer import FileWriter
from headrace.runtime.hadoop_client import RpcClient, RpcUnavailable
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.block_meta import DataChecksum, checksum_of
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos.client_datanode_pb2 import GetReplicaVisibleLengthRequestProto
from headrace.wire.hadoop.rpc_calls import RpcUser
from headrace.wire.hadoop.rpc_protocols import CLIENT_DATANODE, CLIENT_NAMENODE

_USERS_MAX = 256


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

    async def server_defaults(self, user: RpcUser) -> hdfs.FsServerDefaultsProto:
        request = pb.GetServerDefaultsRequestProto()
        defaults: hdfs.FsServerDefaultsProto = (
            await self.call(user, "getServerDefaults", request)
        ).serverDefaults
        return defaults

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
            except (*FAILURES, BlockFailed) as error:
                failure = error
        raise BlockFailed(f"no replica of block {block.b.blockId} can be read: {failure}")

    # -- writing -------------------------------------------------------------------------

    async def create(
        self,
        user: RpcUser,
        request: pb.CreateRequestProto,
        pieces: AsyncIterator[bytes],
        defaults: hdfs.FsServerDefaultsProto,
    ) -> None:
        request.clientName = _client_name()
        checksum = _checksum_of(defaults)
        status = (await self.call(user, "create", request)).fs
        call = partial(self.call, user)
        writer = FileWriter(call, request.src, request.clientName, status, checksum)
        await self._write(writer, pieces)

    async def append(self, user: RpcUser, path: str, pieces: AsyncIterator[bytes]) -> None:
        name = _client_name()
        checksum = _checksum_of(await self.server_defaults(user))
        request = pb.AppendRequestProto(src=path, clientName=name, flag=pb.APPEND)
        answer = await self.call(user, "append", request)
        writer = FileWriter(partial(self.call, user), path, name, answer.stat, checksum)
        reopened = answer.block if answer.HasField("block") else None
        await self._write(writer, pieces, reopened)

    async def _write(
        self,
        writer: FileWriter,
        pieces: AsyncIterator[bytes],
        reopened: hdfs.LocatedBlockProto | None = None,
    ) -> None:
        renewing = self._loop.create_task(writer.keep_lease(), name="webhdfs-lease")
        try:
            if reopened is not None:
                await writer.reopen(reopened)
            async for piece in pieces:
                await writer.write(piece)
            await writer.close()
        except BaseException:
            writer.abort()
            raise
        finally:
            renewing.cancel()


def _client_name() -> str:
    return f"DFSClient_NONMAPREDUCE_webhdfs_{secrets.token_hex(8)}"


def _checksum_of(defaults: hdfs.FsServerDefaultsProto) -> DataChecksum:
    return checksum_of(defaults.checksumType, defaults.bytesPerChecksum)


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
