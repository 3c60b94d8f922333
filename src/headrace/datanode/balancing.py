"""REPLACE_BLOCK: a balancer has this node fetch a replica from another one.

    balancer ──REPLACE_BLOCK──▶ this node ──COPY_BLOCK──▶ the source
             ◀──── SUCCESS ────           ◀── packets ───

Owns: the fetching side. Must not know: sockets, why blocks move. Spec: DataXceiver.replaceBlock.

Invariants: the copy is finalized, and told to the NameNode with the hint which replica is to go,
only when every checksum was right; a copy that breaks off leaves nothing behind.
"""

from headrace.base.errors import StorageError
from headrace.datanode.context import Context
from headrace.datanode.copying import AwaitedCopy
from headrace.datanode.errors import Refusal
from headrace.datanode.receiver import BlockReceiver
from headrace.datanode.replica import Replica
from headrace.datanode.session import TransferSession
from headrace.datanode.streams import Stream
from headrace.wire.hadoop.block_meta import checksum_of
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BaseHeaderProto,
    BlockOpResponseProto,
    OpCopyBlockProto,
    OpReplaceBlockProto,
    Status,
)
from headrace.wire.hadoop.transfer import (
    ExtendedBlock,
    Op,
    block_of,
    block_proto,
    encode_request,
    no_token,
    parse_delimited,
    parse_message,
    transfer_address,
)


def replace_block(session: TransferSession, raw: memoryview) -> None:
    request = parse_message(OpReplaceBlockProto, raw)
    context = session.context
    block = block_of(request.header.block)
    context.dataset.check_pool(block.pool_id)
    if block.block_id in context.dataset.replicas:
        raise Refusal(f"Block {block} is here already", status=Status.ERROR)
    waiting = AwaitedCopy(session, "the block could not be moved")
    session.begin_activity(waiting)
    fetch = _Fetch(context, block, request, waiting)
    host, _, port = transfer_address(request.source.id).rpartition(":")
    context.connect(host, int(port), fetch)


class _Fetch:
    """A StreamHandler: asks the source for the block, then receives it."""

    def __init__(
        self,
        context: Context,
        block: ExtendedBlock,
        request: OpReplaceBlockProto,
        waiting: AwaitedCopy,
    ) -> None:
        self._context = context
        self._block = block
        self._delete_hint = request.delHint
        self._source = request.source.id
        self._waiting: AwaitedCopy | None = waiting
        self._stream: Stream | None = None
        self._replica: Replica | None = None
        self._receiver: BlockReceiver | None = None

    @property
    def wanted_bytes(self) -> int:
        return self._receiver.wanted_bytes if self._receiver is not None else 0

    @property
    def idle_timeout_ms(self) -> int:
        return self._context.settings.socket_timeout_ms

    def on_connected(self, stream: Stream) -> None:
        self._stream = stream
        header = BaseHeaderProto(block=block_proto(self._block), token=no_token())
        stream.send([encode_request(Op.COPY_BLOCK, OpCopyBlockProto(header=header))])

    def on_data(self, view: memoryview) -> int:
        if self._receiver is not None:
            return self._receiver.on_data(view)
        found = parse_delimited(view)
        if found is None:
            return 0
        raw, end = found
        answer = parse_message(BlockOpResponseProto, raw)
        if answer.status != Status.SUCCESS:
            self._finish(f"the source refused: {answer.message}")
        else:
            self._receive(answer)
        return end

    def _receive(self, answer: BlockOpResponseProto) -> None:
        assert self._stream is not None
        info = answer.readOpChecksumInfo.checksum
        try:
            self._replica = self._context.dataset.create_temporary(
                self._block, checksum_of(info.type, info.bytesPerChecksum)
            )
        except Refusal as refusal:
            self._finish(refusal.message)
            return
        self._receiver = BlockReceiver(
            self._context,
            self._replica,
            self._stream,
            None,
            acks=False,
            on_done=self._on_done,
            on_last=self._on_last,
            on_corrupt=lambda: self._context.report_bad_block(self._block, self._source),
        )
        # Packets may be here already, behind the answer.
        self._stream.resume()

    def _on_last(self) -> None:
        assert self._replica is not None
        try:
            self._context.dataset.finalize(self._replica, self._delete_hint)
        except (Refusal, StorageError) as error:
            self._finish(str(error))

    def _on_done(self, whole: bool) -> None:
        self._finish(None if whole else "the copy broke off")

    def on_drained(self) -> None:
        return None

    def on_end(self) -> bool:
        return False

    def on_closed(self, reason: str) -> None:
        if self._receiver is not None:
            self._receiver.on_closed(reason)
        self._finish(reason)

    def _finish(self, error: str | None) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        if error is not None and self._replica is not None:
            self._context.dataset.delete(self._replica, tell=False)
        if self._stream is not None:
            self._stream.close(error or "the block is here")
        waiting.on_done(error)
