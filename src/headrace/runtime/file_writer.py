"""One file being written, block after block, whatever DataNodes come and go.

Owns: the blocks of the file, the clock of its lease, and what is done when a pipeline breaks.
Must not know: HTTP, users (`call` is one's), the bytes of packets (`block_pipeline`'s).
Spec: DataStreamer of Hadoop 3.5. A DataNode that is lost is not replaced: the NameNode has the
block copied once it is complete.

A pipeline that broke goes on so:

    1. whoever broke it is left out; with nobody left the write fails
    2. updateBlockForPipeline: the NameNode gives out a new generation stamp
    3. the remaining DataNodes are asked to go on under it. One that refuses is left out: back to 1
    4. updatePipeline: from now on a replica with the old stamp is stale
    5. what was not acked is sent again

A file whose last packet was under way only needs 1 to 4: every DataNode that closes its replica
has all of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from headrace.base.errors import ProtocolError
from headrace.runtime.block_pipeline import Outgoing, Pipeline, Stage
from headrace.runtime.block_streams import FAILURES, BlockFailed, replica_checksum
from headrace.runtime.hadoop_client import RpcUnavailable
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.block_meta import DataChecksum
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs

_RENEW_INTERVAL_S = 20.0
_COMPLETE_ATTEMPTS = 50
_COMPLETE_PAUSE_S = 0.1
_BLOCK_ATTEMPTS = 4

Call = Callable[[str, Message], Awaitable[Any]]
"""A method of the NameNode's, as the file's user."""


class _OpenBlock:
    """The block that is being written."""

    def __init__(self, located: hdfs.LocatedBlockProto, outgoing: Outgoing) -> None:
        self.located = located
        """With the stamp that the NameNode knows, and the DataNodes that are left."""
        self.outgoing = outgoing
        self.pipeline: Pipeline | None = None

    @property
    def name(self) -> hdfs.ExtendedBlockProto:
        """With its present length: what `addBlock`, `complete` and `updatePipeline` are told."""
        name = hdfs.ExtendedBlockProto()
        name.CopyFrom(self.located.b)
        name.numBytes = self.outgoing.acked
        return name

    def leave_out(self, index: int) -> hdfs.DatanodeInfoProto:
        located = self.located
        if not 0 <= index < len(located.locs):
            index = 0
        node = hdfs.DatanodeInfoProto()
        node.CopyFrom(located.locs[index])
        for held in (located.locs, located.storageIDs, located.storageTypes):
            if index < len(held):
                del held[index]
        return node


class FileWriter:
    def __init__(
        self,
        call: Call,
        path: str,
        client_name: str,
        status: hdfs.HdfsFileStatusProto,
        checksum: DataChecksum,
    ) -> None:
        self._ask = call
        self._path = path
        self._client_name = client_name
        self._status = status
        self._checksum = checksum
        self._previous: hdfs.ExtendedBlockProto | None = None
        self._block: _OpenBlock | None = None
        self._failed: list[hdfs.DatanodeInfoProto] = []
        """DataNodes that failed this file: they get no more of its blocks."""

    async def _call(self, method: str, request: Message) -> Any:
        """An answer that can't be read is the NameNode's fault and no DataNode's."""
        try:
            return await self._ask(method, request)
        except ProtocolError as error:
            raise RpcUnavailable(f"{method}: {error}") from error

    async def keep_lease(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_INTERVAL_S)
            request = pb.RenewLeaseRequestProto(clientName=self._client_name)
            try:
                await self._call("renewLease", request)
            except (RpcUnavailable, RemoteError):
                continue  # it lasts for several intervals; that it is lost, the next call tells

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            block = self._block
            if block is None:
                block = self._block = await self._next_block()
            room = self._status.blocksize - block.outgoing.length
            block.outgoing.take(view[:room])
            view = view[room:]
            await self._surely(block, Pipeline.flow)
            if block.outgoing.length >= self._status.blocksize:
                await self._end_block(block)

    async def close(self) -> None:
        if self._block is not None:
            await self._end_block(self._block)
        request = pb.CompleteRequestProto(
            src=self._path,
            clientName=self._client_name,
            last=self._previous,
            fileId=self._status.fileId,
        )
        for _ in range(_COMPLETE_ATTEMPTS):
            if (await self._call("complete", request)).result:
                return
            await asyncio.sleep(_COMPLETE_PAUSE_S)
        raise RemoteError(java.IO, f"{self._path} is not complete: its last block was not reported")

    def abort(self) -> None:
        if self._block is not None and self._block.pipeline is not None:
            self._block.pipeline.abort()
        self._block = None

    # -- blocks ------------------------------------------------------------------------

    async def reopen(self, located: hdfs.LocatedBlockProto) -> None:
        """The last block, which has room, goes on, with checksums as its replicas have them."""
        if located.b.numBytes:
            self._checksum = await self._kept_checksum(located)
        block = self._block = _OpenBlock(located, Outgoing(self._checksum, located.b.numBytes))
        try:
            await self._connect(block, Stage.PIPELINE_SETUP_APPEND)
        except (*FAILURES, BlockFailed) as error:
            await self._recover(block, error, Stage.PIPELINE_SETUP_APPEND_RECOVERY)

    async def _kept_checksum(self, located: hdfs.LocatedBlockProto) -> DataChecksum:
        failure: Exception = BlockFailed("it has no replica")
        for node in located.locs:
            try:
                return await replica_checksum(node.id, located)
            except (*FAILURES, BlockFailed) as error:
                failure = error
        raise RemoteError(java.IO, f"the last block of {self._path} can't be read: {failure}")

    async def _next_block(self) -> _OpenBlock:
        for _ in range(_BLOCK_ATTEMPTS):
            request = pb.AddBlockRequestProto(
                src=self._path,
                clientName=self._client_name,
                previous=self._previous,
                excludeNodes=self._failed,
                fileId=self._status.fileId,
            )
            located: hdfs.LocatedBlockProto = (await self._call("addBlock", request)).block
            block = _OpenBlock(located, Outgoing(self._checksum))
            stamp = located.b.generationStamp
            try:
                block.pipeline = await Pipeline.open(
                    located, self._client_name, block.outgoing, Stage.PIPELINE_SETUP_CREATE, stamp
                )
                return block
            except (*FAILURES, BlockFailed) as error:
                self._failed.append(block.leave_out(_culprit(error)))
                abandon = pb.AbandonBlockRequestProto(
                    b=located.b,
                    src=self._path,
                    holder=self._client_name,
                    fileId=self._status.fileId,
                )
                await self._call("abandonBlock", abandon)
        raise RemoteError(java.IO, f"no pipeline could be made for {self._path}")

    async def _end_block(self, block: _OpenBlock) -> None:
        await self._surely(block, Pipeline.end)
        self._previous, self._block = block.name, None

    # -- recovery ----------------------------------------------------------------------

    async def _surely(self, block: _OpenBlock, step: Callable[[Pipeline], Awaitable[None]]) -> None:
        """A step of the block's, with as many pipelines as it takes."""
        while True:
            assert block.pipeline is not None
            try:
                await step(block.pipeline)
                return
            except (*FAILURES, BlockFailed) as error:
                block.pipeline.abort()
                if block.outgoing.is_closing:
                    await self._recover(block, error, Stage.PIPELINE_CLOSE_RECOVERY)
                    return
                await self._recover(block, error, Stage.PIPELINE_SETUP_STREAMING_RECOVERY)

    async def _recover(
        self, block: _OpenBlock, error: Exception, stage: "Stage.BlockConstructionStage"
    ) -> None:
        """A pipeline of those that remain. Each round leaves one out, so there is an end."""
        while True:
            self._failed.append(block.leave_out(_culprit(error)))
            if not block.located.locs:
                names = ", ".join(f"{node.id.ipAddr}:{node.id.xferPort}" for node in self._failed)
                raise RemoteError(
                    java.IO, f"All datanodes [{names}] are bad. Aborting {self._path}: {error}"
                )
            try:
                await self._connect(block, stage)
                return
            except (*FAILURES, BlockFailed) as again:
                error = again

    async def _connect(self, block: _OpenBlock, stage: "Stage.BlockConstructionStage") -> None:
        """Under a new stamp."""
        located = block.located
        request = pb.UpdateBlockForPipelineRequestProto(
            block=block.name, clientName=self._client_name
        )
        renewed = (await self._call("updateBlockForPipeline", request)).block
        located.blockToken.CopyFrom(renewed.blockToken)
        new = block.name
        new.generationStamp = renewed.b.generationStamp
        block.pipeline = await Pipeline.open(
            located, self._client_name, block.outgoing, stage, new.generationStamp
        )
        update = pb.UpdatePipelineRequestProto(
            clientName=self._client_name,
            oldBlock=block.name,
            newBlock=new,
            newNodes=[node.id for node in located.locs],
            storageIDs=located.storageIDs,
        )
        try:
            await self._call("updatePipeline", update)
        except BaseException:
            block.pipeline.abort()
            raise
        located.b.CopyFrom(new)


def _culprit(error: Exception) -> int:
    """The index of the DataNode to leave out: of a connection that broke, the one we talk to."""
    return error.node_index if isinstance(error, BlockFailed) else 0
