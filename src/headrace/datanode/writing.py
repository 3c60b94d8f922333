"""WRITE_BLOCK: how a pipeline is set up, node by node.

    client ──WRITE_BLOCK [b, c]──▶ a ──WRITE_BLOCK [c]──▶ b ──WRITE_BLOCK []──▶ c
           ◀─── SUCCESS, "" ──────   ◀──── SUCCESS, "" ───   ◀─── SUCCESS, "" ──

A client whose first node can't take part is not told why: the connection ends, as DataXceiver ends
it. hdfs-native does not look at the status. It would go on as if the pipeline were there, find the
connection closed, name the nodes that are left to the NameNode with a new generation stamp, and
none of them has it: the file would be unreadable for good.

Owns: the stages, the replica each of them needs, the answer with the first bad link.
Must not know: packets, sockets. Spec: DataXceiver.writeBlock, BlockConstructionStage.
"""

from headrace.base.errors import ProtocolError, StorageError
from headrace.datanode.context import Context
from headrace.datanode.errors import Refusal
from headrace.datanode.mirror import Mirror
from headrace.datanode.pipelines import append, recover_append, recover_close, recover_rbw
from headrace.datanode.receiver import BlockReceiver
from headrace.datanode.replica import Replica
from headrace.datanode.session import TransferSession
from headrace.wire.hadoop.block_meta import checksum_of
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BlockOpResponseProto,
    OpWriteBlockProto,
    Status,
)
from headrace.wire.hadoop.transfer import (
    ExtendedBlock,
    Op,
    block_of,
    encode_request,
    encode_status,
    parse_message,
    signed,
    transfer_address,
)

Stage = OpWriteBlockProto.BlockConstructionStage
_TRANSFERS = (Stage.TRANSFER_RBW, Stage.TRANSFER_FINALIZED)
_CLIENT_STAGES = (
    Stage.PIPELINE_SETUP_CREATE,
    Stage.PIPELINE_SETUP_STREAMING_RECOVERY,
    Stage.PIPELINE_SETUP_APPEND,
    Stage.PIPELINE_SETUP_APPEND_RECOVERY,
    Stage.PIPELINE_CLOSE_RECOVERY,
)
_TAKING_OVER = (
    Stage.PIPELINE_SETUP_STREAMING_RECOVERY,
    Stage.PIPELINE_SETUP_APPEND,
    Stage.PIPELINE_SETUP_APPEND_RECOVERY,
)
TARGETS_MAX = 64
"""Nodes of one pipeline; replication is 512 at most, pipelines are never so long."""


def write_block(session: TransferSession, raw: memoryview) -> None:
    request = parse_message(OpWriteBlockProto, raw)
    session.refuses_silently = _is_from_client(request)
    _check(request, session.context)
    setup = _Setup(session, request)
    setup.open_replica()
    session.begin_activity(setup)
    setup.begin()


def _is_from_client(request: OpWriteBlockProto) -> bool:
    """Itself, not by a DataNode: this is the pipeline's first node."""
    is_first = request.pipelineSize <= len(request.targets) + 1
    return bool(request.header.clientName) and is_first and request.stage not in _TRANSFERS


def _check(request: OpWriteBlockProto, context: Context) -> None:
    stage = request.stage
    from_client = bool(request.header.clientName)
    if stage not in _CLIENT_STAGES and stage not in _TRANSFERS:
        raise ProtocolError(f"no pipeline starts with stage {Stage.Name(stage)}")
    if not from_client and stage != Stage.PIPELINE_SETUP_CREATE:
        raise ProtocolError(f"stage {Stage.Name(stage)} without a client's name")
    if stage in _TRANSFERS and request.targets:
        raise ProtocolError("a transfer names further targets")
    if len(request.targets) > TARGETS_MAX:
        raise Refusal(f"a pipeline of {len(request.targets)} more nodes is too long")
    own = (context.identity.ipAddr, context.identity.xferPort)
    if any((target.id.ipAddr, target.id.xferPort) == own for target in request.targets):
        raise Refusal("the pipeline names this node twice")


class _Setup:
    """A pipeline being set up; then a BlockReceiver takes its place."""

    def __init__(self, session: TransferSession, request: OpWriteBlockProto) -> None:
        self.wanted_bytes = 0
        self._session = session
        self._context = session.context
        self._request = request
        self._block: ExtendedBlock = block_of(request.header.baseHeader.block)
        self._checksum = checksum_of(
            request.requestedChecksum.type, request.requestedChecksum.bytesPerChecksum
        )
        self._from_client = bool(request.header.clientName)
        self._is_transfer = request.stage in _TRANSFERS
        self._replica: Replica | None = None
        self._closed: Replica | None = None
        """The replica of PIPELINE_CLOSE_RECOVERY, which receives nothing more."""
        self._mirror: Mirror | None = None
        self._over = False

    @property
    def idle_timeout_ms(self) -> int:
        """Longer than the next node has: when that one stalls, we must be there to say so."""
        return self._mirror_timeout_ms + self._context.settings.extension_ms

    @property
    def _mirror_timeout_ms(self) -> int:
        settings = self._context.settings
        return settings.socket_timeout_ms + settings.extension_ms * len(self._request.targets)

    # -- the replica -------------------------------------------------------------------

    def open_replica(self) -> None:
        """Raises Refusal, before anybody else is asked, if this node can't take part."""
        request, dataset, block = self._request, self._context.dataset, self._block
        stamp = signed(request.latestGenerationStamp)
        least, most = signed(request.minBytesRcvd), signed(request.maxBytesRcvd)
        if self._is_transfer or not self._from_client:
            self._replica = dataset.create_temporary(block, self._checksum)
            return
        match request.stage:
            case Stage.PIPELINE_SETUP_CREATE:
                self._replica = dataset.create_rbw(block, self._checksum)
            case Stage.PIPELINE_SETUP_STREAMING_RECOVERY:
                self._replica = recover_rbw(dataset, block, stamp, least, most)
            case Stage.PIPELINE_SETUP_APPEND:
                self._replica = append(dataset, block, stamp, least)
            case Stage.PIPELINE_SETUP_APPEND_RECOVERY:
                self._replica = recover_append(dataset, block, stamp, least)
            case _:
                self._closed = recover_close(dataset, block, stamp, least)
        if self._replica is not None and self._replica.pipeline is not None:
            kept, sent = self._replica.pipeline.checksum, self._checksum
            # Another type is translated; chunks of another size can't be.
            if kept.bytes_per_checksum != sent.bytes_per_checksum:
                raise Refusal(f"{self._replica} has checksums of {kept}, the client sends {sent}")
            # Whoever takes this replica from us meanwhile stops us by it.
            self._replica.pipeline.writer = self

    # -- the next node -----------------------------------------------------------------

    def begin(self) -> None:
        """With a new stamp, or reopened, a replica goes on only when that is on disk: the NameNode
        is told of the stamp next, and replicas that come back from a power cut with the one before
        are worth nothing (D2, D5)."""
        dataset = self._context.dataset
        if self._closed is not None:
            dataset.sync_whole(self._closed, self._on_durable)
        elif self._replica is not None and self._request.stage in _TAKING_OVER:
            dataset.sync_name(self._replica, self._on_durable)
        else:
            self._go_on()

    def _on_durable(self, error: StorageError | None) -> None:
        if self._over:
            return
        if error is not None:
            self._fail(Refusal(f"can't sync: {error}"), None)
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._request.targets:
            self._ask_mirror()
        else:
            self._answer("")

    def _ask_mirror(self) -> None:
        request = self._request
        onward = OpWriteBlockProto()
        onward.CopyFrom(request)
        for field in ("targets", "targetStorageTypes", "targetStorageIds", "targetPinnings"):
            onward.ClearField(field)
        onward.targets.extend(request.targets[1:])
        onward.targetStorageTypes.extend(request.targetStorageTypes[1:])
        onward.targetStorageIds.extend(request.targetStorageIds[1:])
        onward.targetPinnings.extend(request.targetPinnings[1:])
        if request.targetStorageTypes:
            onward.storageType = request.targetStorageTypes[0]
        if request.targetStorageIds:
            onward.storageId = request.targetStorageIds[0]
        if request.targetPinnings:
            onward.pinning = request.targetPinnings[0]
        address = transfer_address(request.targets[0].id)
        mirror = Mirror(
            address,
            encode_request(Op.WRITE_BLOCK, onward),
            self._mirror_timeout_ms,
            self._on_mirror_answer,
        )
        self._mirror = mirror
        mirror.connect(self._context.connect)

    def _on_mirror_answer(self, answer: BlockOpResponseProto | None, reason: str) -> None:
        if self._over:
            return
        assert self._mirror is not None
        address = self._mirror.address
        if answer is not None and answer.status == Status.SUCCESS:
            self._answer(answer.firstBadLink)
            return
        self._context.counters.mirror_failures += 1
        why = reason if answer is None else answer.message
        self._context.log.warning("mirror_refused", block=self._block, mirror=address, reason=why)
        if not self._from_client:
            # Better one copy here than none: the NameNode will order the others again.
            self._mirror.close("refused")
            self._mirror = None
            self._answer("")
            return
        bad_link = address if answer is None else answer.firstBadLink or address
        self._fail(Refusal(f"{address} did not join the pipeline: {why}"), bad_link)

    def _fail(self, refusal: Refusal, bad_link: str | None) -> None:
        self._over = True
        if self._mirror is not None:
            self._mirror.close("the pipeline failed")
        self._let_go()
        self._session.refuse(refusal, bad_link)

    # -- the answer --------------------------------------------------------------------

    def _answer(self, first_bad_link: str) -> None:
        """All nodes behind are ready: say so to the one before, and receive."""
        self._over = True
        session, replica = self._session, self._replica
        session.end_activity()
        if self._from_client:
            session.stream.send([encode_status(Status.SUCCESS, first_bad_link=first_bad_link)])
        else:
            session.stream.send([encode_status(Status.SUCCESS)])
        if replica is None:
            if self._mirror is not None:
                self._mirror.close("done")
            return
        request = self._request
        caching = request.cachingStrategy if request.HasField("cachingStrategy") else None
        receiver = BlockReceiver(
            self._context,
            replica,
            session.stream,
            self._mirror,
            acks=self._from_client and not self._is_transfer,
            on_done=self._on_done,
            on_last=self._on_last,
            on_corrupt=self._on_corrupt,
            caching=caching,
            client_name="" if self._is_transfer else request.header.clientName,
            sent=self._checksum,
        )
        session.begin_activity(receiver)
        session.stream.resume()

    def _on_last(self) -> None:
        assert self._replica is not None
        dataset = self._context.dataset
        try:
            if self._request.stage == Stage.TRANSFER_RBW:
                dataset.convert_to_rbw(self._replica, self._block.num_bytes)
            else:
                dataset.finalize(self._replica)
        except (Refusal, StorageError) as error:
            self._context.log.error("finalize_failed", block=self._block, error=error)
            self._session.stream.close("can't finalize")

    def _on_done(self, whole: bool) -> None:
        session = self._session
        if whole and self._is_transfer:
            session.stream.send([encode_status(Status.SUCCESS)])
        session.end_activity()
        if whole:
            session.stream.close("the block is whole", after_sending=True)
        else:
            self._let_go()

    def _on_corrupt(self) -> None:
        """A copy came broken: the node that sent it has a bad replica."""
        self._context.log.warning(
            "packet_corrupt", block=self._block, peer=self._session.stream.peer
        )
        if not self._from_client and self._request.HasField("source"):
            self._context.report_bad_block(self._block, self._request.source.id)

    def _let_go(self) -> None:
        """A half-received copy is worth nothing; a half-written replica waits for recovery."""
        replica = self._replica
        if replica is None:
            return
        if replica.pipeline is not None and replica.pipeline.writer is self:
            replica.pipeline.writer = None
        if self._is_transfer or not self._from_client:
            self._context.dataset.delete(replica, tell=False)

    def stop(self, reason: str) -> None:
        """Another writer takes the replica while this pipeline is being set up."""
        if not self._over:
            self._over = True
            if self._mirror is not None:
                self._mirror.close(reason)
            self._session.stream.close(reason)

    # -- Activity ----------------------------------------------------------------------

    def on_data(self, _view: memoryview) -> int:
        return 0  # packets that came early wait for the answer

    def on_drained(self) -> None:
        return None

    def on_end(self) -> bool:
        return False

    def on_closed(self, reason: str) -> None:
        if not self._over:
            self._over = True
            if self._mirror is not None:
                self._mirror.close(reason)
            self._let_go()
