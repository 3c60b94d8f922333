"""What the NameNode has to hear of: replicas that are bad, volumes that failed.

Owns: what is to be told, and when it need not be told any more. Must not know: sockets, heartbeats.
Spec: ReportBadBlockAction and ErrorReportAction of Hadoop 3.5: queued, and tried again.

Invariants: told until the NameNode has answered, one call at a time; nothing twice in the queue,
and no more than `_WAITING_MAX`; a bad replica that is gone, or has another stamp, is not told of.

Story of a NameNode that forgets: 1. It heard of a bad replica. 2. It dies before a good one has
taken its place. 3. The next one hears of all replicas by a full report, and counts the bad one,
until the scanner comes by again in three weeks. So our own are told again after each registration
until they are gone, behind the full report: before that the NameNode knows of no replica here.
"""

from collections.abc import Callable, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.message import Message

from headrace.base.promise import Promise
from headrace.datanode.context import Context
from headrace.datanode.replica import Replica
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import datanode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.transfer import ExtendedBlock, block_proto, no_token

_WAITING_MAX = 10_000
_TOLD_TOGETHER_MAX = 100
_ASK_AGAIN = frozenset({exceptions.RETRIABLE, exceptions.STANDBY})

Call = Callable[[str, Message], "Promise[Any]"]


@dataclass(slots=True)
class BadReplica:
    block: ExtendedBlock
    node: hdfs.DatanodeIDProto | None
    """Whose it is; None: ours."""
    replica: Replica | None
    """Ours, if it was there."""
    is_told: bool = False


class Complaints:
    def __init__(
        self, context: Context, call: Call, registration: Callable[[], pb.DatanodeRegistrationProto]
    ) -> None:
        self._context = context
        self._call = call
        self._registration = registration
        self._bad: dict[tuple[int, str], BadReplica] = {}
        """By block, and by the UUID of another node."""
        self._errors: dict[str, None] = {}
        self._telling = False

    def add_bad_replica(self, block: ExtendedBlock, node: hdfs.DatanodeIDProto | None) -> None:
        key = (block.block_id, "" if node is None else node.datanodeUuid)
        replica = self._context.dataset.replicas.get(block.block_id) if node is None else None
        if self._has_room(self._bad):
            # Found once more, it is told once more: who was told may have forgotten.
            self._bad[key] = BadReplica(block, node, replica)

    def add_error(self, message: str) -> None:
        if self._has_room(self._errors):
            self._errors[message] = None

    def _has_room(self, queue: Sized) -> bool:
        if len(queue) >= _WAITING_MAX:
            self._drop_gone()
        if len(queue) < _WAITING_MAX:
            return True
        self._context.log.warning("too_much_to_tell", waiting=len(queue))
        return False

    def tell_anew(self) -> None:
        """A NameNode that lets us in may be another one than the one that was told."""
        for bad in self._bad.values():
            bad.is_told = False

    def tell(self) -> None:
        """Tell what is left; the NameNode knows our replicas."""
        if self._telling:
            return
        self._drop_gone()
        due = [bad for bad in self._bad.values() if not bad.is_told][:_TOLD_TOGETHER_MAX]
        if self._errors:
            self._tell_error(next(iter(self._errors)))
        elif due:
            for bad in due:
                bad.is_told = True  # found once more meanwhile, it is not
            request = pb.ReportBadBlocksRequestProto(
                blocks=[_located(self._context, b) for b in due]
            )
            self._send("reportBadBlocks", request, partial(self._on_bad_told, due))

    def _drop_gone(self) -> None:
        for key, bad in list(self._bad.items()):
            if self._is_over(bad):
                del self._bad[key]

    def _is_over(self, bad: BadReplica) -> bool:
        """Ours: it went, or was written on. Another node's: it was told."""
        if bad.node is not None:
            return bad.is_told
        replica = self._context.dataset.replicas.get(bad.block.block_id)
        return (
            replica is None
            or replica is not bad.replica
            or replica.generation_stamp != bad.block.generation_stamp
        )

    def _tell_error(self, message: str) -> None:
        request = pb.ErrorReportRequestProto(
            registartion=self._registration(),
            errorCode=pb.ErrorReportRequestProto.DISK_ERROR,
            msg=message,
        )

        def on_told(*, is_heard: bool) -> None:
            if is_heard:
                self._errors.pop(message, None)

        self._send("errorReport", request, on_told)

    def _on_bad_told(self, told: list[BadReplica], *, is_heard: bool) -> None:
        if not is_heard:
            for bad in told:
                bad.is_told = False

    def _send(self, method: str, request: Message, on_told: Callable[..., None]) -> None:
        self._telling = True

        def on_settled(settled: "Promise[Any]") -> None:
            self._telling = False
            error = settled.error
            if error is not None:
                self._context.log.warning("complaint_failed", method=method, error=error)
            # A refusal is an answer: the same would be refused again.
            is_heard = error is None or (
                isinstance(error, RemoteError) and error.class_name not in _ASK_AGAIN
            )
            on_told(is_heard=is_heard)
            if is_heard:
                self.tell()  # the rest; otherwise the next heartbeat does

        self._call(method, request).then(on_settled)


def _located(context: Context, bad: BadReplica) -> hdfs.LocatedBlockProto:
    return hdfs.LocatedBlockProto(
        b=block_proto(bad.block),
        offset=0,
        locs=[hdfs.DatanodeInfoProto(id=bad.node or context.identity)],
        corrupt=True,
        blockToken=no_token(),
        storageIDs=["" if bad.replica is None else bad.replica.volume.storage_id],
        storageTypes=[hdfs.DISK],
    )
