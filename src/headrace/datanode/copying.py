"""A replica sent to other nodes: for re-replication, pipeline repair and the balancer.

Owns: the sending side of WRITE_BLOCK, TRANSFER_BLOCK and REPLACE_BLOCK's receiving one.
Must not know: sockets, why a copy is wanted. Spec: DataNode.DataTransfer, DataXceiver.

The far side sets up its pipeline, gets the packets of a BlockSender, and (for a client's
transfer only) says at the end that it has all.
"""

from collections.abc import Callable, Sequence

from headrace.base.errors import CorruptionError, HeadraceError
from headrace.datanode.context import Context
from headrace.datanode.dataset import FINALIZED, RBW
from headrace.datanode.errors import Refusal
from headrace.datanode.sender import BlockSender
from headrace.datanode.session import TransferSession
from headrace.datanode.streams import Stream
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BaseHeaderProto,
    BlockOpResponseProto,
    ChecksumProto,
    ClientOperationHeaderProto,
    DNTransferAckProto,
    OpTransferBlockProto,
    OpWriteBlockProto,
    Status,
)
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeInfoProto
from headrace.wire.hadoop.transfer import (
    ExtendedBlock,
    Op,
    block_of,
    block_proto,
    encode_request,
    encode_status,
    no_token,
    parse_delimited,
    parse_message,
    transfer_address,
)

Stage = OpWriteBlockProto.BlockConstructionStage
OnDone = Callable[[str | None], None]
"""Called once: None if the copy was sent (and confirmed, where that is asked), or why not."""


class BlockCopy:
    """A StreamHandler that sends one replica to the first of `targets`."""

    def __init__(
        self,
        context: Context,
        block: ExtendedBlock,
        targets: Sequence[DatanodeInfoProto],
        *,
        stage: Stage,
        client_name: str,
        on_done: OnDone,
    ) -> None:
        self.wanted_bytes = 0
        self._context = context
        self._block = block
        self._targets = targets
        self._stage = stage
        self._client_name = client_name
        self._on_done: OnDone | None = on_done
        self._stream: Stream | None = None
        self._sender: BlockSender | None = None
        self._answered = False

    @property
    def idle_timeout_ms(self) -> int:
        settings = self._context.settings
        extension = settings.extension_ms * len(self._targets)
        if self._answered:
            return settings.socket_write_timeout_ms + extension
        return settings.socket_timeout_ms + extension

    def begin(self) -> None:
        """Open the replica and connect. Refusal or StorageError if that is not possible."""
        context, block = self._context, self._block
        replica = context.dataset.readable(block)
        # A stamp newer than asked for is sent as what it is.
        block = ExtendedBlock(
            block.pool_id, block.block_id, replica.generation_stamp, replica.visible_length
        )
        self._block = block
        try:
            self._sender = BlockSender(context, replica, 0, replica.visible_length)
        except CorruptionError:
            context.report_bad_block(block, None)
            raise
        host, _, port = transfer_address(self._targets[0].id).rpartition(":")
        context.active += 1
        context.connect(host, int(port), self)

    # -- StreamHandler -----------------------------------------------------------------

    def on_connected(self, stream: Stream) -> None:
        self._stream = stream
        assert self._sender is not None
        checksum = self._sender.checksum
        header = ClientOperationHeaderProto(
            baseHeader=BaseHeaderProto(block=block_proto(self._block), token=no_token()),
            clientName=self._client_name,
        )
        request = OpWriteBlockProto(
            header=header,
            targets=self._targets[1:],
            source=DatanodeInfoProto(id=self._context.identity),
            stage=self._stage,
            pipelineSize=0,
            minBytesRcvd=0,
            maxBytesRcvd=0,
            latestGenerationStamp=0,
            requestedChecksum=ChecksumProto(
                type=int(checksum.type),  # type: ignore[arg-type]
                bytesPerChecksum=checksum.bytes_per_checksum,
            ),
        )
        stream.send([encode_request(Op.WRITE_BLOCK, request)])

    def on_data(self, view: memoryview) -> int:
        found = parse_delimited(view)
        if found is None:
            return 0
        raw, end = found
        if not self._answered:
            answer = parse_message(BlockOpResponseProto, raw)
            if answer.status != Status.SUCCESS:
                self._finish(f"refused: {answer.message or Status.Name(answer.status)}")
                return end
            self._answered = True
            self.on_drained()
            return end
        ack = parse_message(DNTransferAckProto, raw)
        if ack.status != Status.SUCCESS:
            self._finish(f"not taken: {Status.Name(ack.status)}")
        else:
            self._finish(None)
        return end

    def on_drained(self) -> None:
        sender, stream = self._sender, self._stream
        if sender is None or stream is None or not self._answered:
            return
        if not sender.done:
            try:
                self._context.counters.bytes_read += sender.send_more(stream)
            except (HeadraceError, OSError) as error:
                self._finish(f"can't read: {error}")
                return
        if not sender.done:
            if not stream.backlogged:
                self._context.timers.call_soon(self._send_on)
        elif not self._client_name and not stream.backlogged:
            self._finish(None)

    def _send_on(self) -> None:
        stream = self._stream
        if self._on_done is not None and stream is not None and not stream.backlogged:
            self.on_drained()

    def on_end(self) -> bool:
        return False

    def on_closed(self, reason: str) -> None:
        self._finish(reason)

    def _finish(self, error: str | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is None:
            return
        self._context.active -= 1
        if self._sender is not None:
            self._sender.close()
        if self._stream is not None:
            self._stream.close(error or "sent", after_sending=error is None)
        if error is None:
            self._context.counters.blocks_replicated += 1
        on_done(error)


def transfer_block(session: TransferSession, raw: memoryview) -> None:
    """TRANSFER_BLOCK: a client brings a new node into its pipeline, and we have the bytes."""
    request = parse_message(OpTransferBlockProto, raw)
    context = session.context
    block = block_of(request.header.baseHeader.block)
    replica = context.dataset.find(block)
    if not request.targets:
        raise Refusal("a transfer without a target")
    if replica.generation_stamp < block.generation_stamp:
        raise Refusal(f"{replica} is older than {block}")
    match replica.state:
        case state if state is RBW:
            stage = Stage.TRANSFER_RBW
        case state if state is FINALIZED:
            stage = Stage.TRANSFER_FINALIZED
        case _:
            raise Refusal(f"{replica} is in the wrong state for a transfer")
    transfer = AwaitedCopy(session, "transfer failed")
    copy = BlockCopy(
        context,
        block,
        list(request.targets),
        stage=stage,
        client_name=request.header.clientName,
        on_done=transfer.on_done,
    )
    copy.begin()
    session.begin_activity(transfer)


class AwaitedCopy:
    """A connection that waits for the copy it asked for; `failed` begins the refusal."""

    def __init__(self, session: TransferSession, failed: str) -> None:
        self.wanted_bytes = 0
        self._failed = failed
        self._session = session
        self._over = False

    @property
    def idle_timeout_ms(self) -> int:
        return self._session.context.settings.socket_write_timeout_ms

    def on_done(self, error: str | None) -> None:
        if self._over:
            return
        self._over = True
        if error is not None:
            self._session.refuse(Refusal(f"{self._failed}: {error}"))
            return
        self._session.stream.send([encode_status(Status.SUCCESS)])
        self._session.end_activity()

    def on_data(self, _view: memoryview) -> int:
        return 0

    def on_drained(self) -> None:
        return None

    def on_end(self) -> bool:
        return True

    def on_closed(self, _reason: str) -> None:
        self._over = True
