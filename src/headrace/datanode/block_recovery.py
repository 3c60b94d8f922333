"""The primary's part of a block's recovery: ask all, agree on a length, make all alike, tell.

Owns: one recovery from the NameNode's command to commitBlockSynchronization.
Must not know: sockets; how a replica is changed. Spec: BlockRecoveryWorker of Hadoop 3.5, D7.

    the best state wins: FINALIZED, else RBW, else RWR
    FINALIZED   its length, of the newest stamp, the longest; RBW replicas of that length take part
    RBW, RWR    the shortest of that state; others of the state are cut to it
    none        the block is deleted, if every node has said so

Invariants: nobody takes part with a stamp older than the block's, nor with fewer bytes than the
NameNode knows of where somebody has them; at least one replica must have been made alike. Whoever
gave no answer may have all there is: nothing is deleted or cut below what is known until the
NameNode takes it for dead.

Story of two finalized lengths, which HDFS calls an error for good: 1. hdfs-native appends without
a new stamp. 2. Right after a start the NameNode has heard of one replica, and the append goes to
that alone. 3. The other one is finalized, has the same stamp and is shorter. 4. The next append
dies with its client. Whatever was acknowledged is in the longer one, of which the other is the
beginning; and if nobody chose, the file would stay open for ever (D6).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.message import Message

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.datanode.dataset import FINALIZED, RBW, RWR
from headrace.datanode.errors import RECOVERY_IN_PROGRESS
from headrace.datanode.recovery import ReplicaRecoveryInfo
from headrace.datanode.replica import ReplicaState
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.datanode_pb2 import CommitBlockSynchronizationRequestProto
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeInfoProto
from headrace.wire.hadoop.protos.hdfs_server_pb2 import RecoveringBlockProto
from headrace.wire.hadoop.protos.inter_datanode_pb2 import (
    InitReplicaRecoveryRequestProto,
    InitReplicaRecoveryResponseProto,
    UpdateReplicaUnderRecoveryRequestProto,
    UpdateReplicaUnderRecoveryResponseProto,
)
from headrace.wire.hadoop.transfer import (
    ExtendedBlock,
    block_of,
    block_proto,
    signed,
    unsigned,
)

CallPeer = Callable[[DatanodeInfoProto, str, Message], "Promise[Any]"]
"""Call a method of InterDatanodeProtocol on another node, or on this one."""
Commit = Callable[[CommitBlockSynchronizationRequestProto], "Promise[Any]"]


@dataclass(frozen=True, slots=True)
class Participant:
    node: DatanodeInfoProto
    info: ReplicaRecoveryInfo


@dataclass(frozen=True, slots=True)
class Agreement:
    length: int
    participants: list[Participant]


def agree(replicas: list[Participant]) -> Agreement:
    """Which replicas are kept, at which length."""
    best = min((one.info.original_state for one in replicas), default=RWR, key=_rank)
    chosen = [one for one in replicas if one.info.original_state is best]
    if best is not FINALIZED:
        return Agreement(min((one.info.num_bytes for one in chosen), default=0), chosen)
    newest = max(chosen, key=lambda one: (one.info.generation_stamp, one.info.num_bytes))
    length = newest.info.num_bytes
    kept = [
        one
        for one in replicas
        if one.info.original_state in (FINALIZED, RBW) and one.info.num_bytes == length
    ]
    return Agreement(length, kept)


def _rank(state: ReplicaState) -> int:
    return (FINALIZED, RBW, RWR).index(state)


class BlockRecovery:
    """One block's recovery, run by the node that the NameNode made its primary."""

    def __init__(
        self, command: RecoveringBlockProto, call_peer: CallPeer, commit: Commit, log: EventLog
    ) -> None:
        self._command = command
        self._block: ExtendedBlock = block_of(command.block.b)
        self._recovery_id = signed(command.newGenStamp)
        self._truncates = command.HasField("truncateBlock")
        self._call_peer = call_peer
        self._commit = commit
        self._log = log
        self._nodes = list(command.block.locs)
        self._replicas: list[Participant] = []
        self._waiting = len(self._nodes)
        self._errors = 0
        self._silent = 0
        """Nodes without an answer; one that refuses has given one."""
        self._abandoned = False

    def begin(self) -> None:
        if not self._nodes:
            self._log.warning("recovery_without_nodes", block=self._block)
            return
        for node in self._nodes:
            request = InitReplicaRecoveryRequestProto(block=self._command)
            promise = self._call_peer(node, "initReplicaRecovery", request)
            promise.then(partial(self._on_initiated, node))

    # -- first round -------------------------------------------------------------------

    def _on_initiated(self, node: DatanodeInfoProto, settled: "Promise[Any]") -> None:
        self._waiting -= 1
        error = settled.error
        if error is not None:
            if not isinstance(error, RemoteError):
                self._silent += 1
            elif error.class_name == RECOVERY_IN_PROGRESS:
                self._abandoned = True  # a newer recovery is under way
            self._errors += 1
            self._log.warning(
                "recovery_init_failed", block=self._block, node=node.id.xferPort, error=error
            )
        else:
            self._take(node, settled.value())
        if self._waiting == 0 and not self._abandoned:
            self._decide()

    def _take(self, node: DatanodeInfoProto, answer: InitReplicaRecoveryResponseProto) -> None:
        if not answer.replicaFound:
            return
        info = ReplicaRecoveryInfo(
            signed(answer.block.blockId),
            signed(answer.block.numBytes),
            signed(answer.block.genStamp),
            ReplicaState(answer.state),
        )
        useful = info.generation_stamp >= self._block.generation_stamp and info.num_bytes > 0
        if useful and info.original_state in (FINALIZED, RBW, RWR):
            self._replicas.append(Participant(node, info))

    def _decide(self) -> None:
        if self._errors == len(self._nodes):
            self._log.error("recovery_failed", block=self._block, reason="no node answered well")
            return
        known = self._block.num_bytes
        whole = [one for one in self._replicas if one.info.num_bytes >= known]
        if self._silent and not whole:
            reason = f"{self._silent} nodes gave no answer, and the others do not have all of it"
            self._log.warning("recovery_failed", block=self._block, reason=reason)
            return
        if not self._replicas:
            self._tell(0, [], [], delete=True)
            return
        agreement = agree(whole or self._replicas)
        length = agreement.length
        if self._truncates:
            length = min(length, signed(self._command.truncateBlock.numBytes))
        self._update(agreement.participants, length)

    # -- second round ------------------------------------------------------------------

    def _update(self, participants: list[Participant], length: int) -> None:
        new_id = self._command.truncateBlock.blockId if self._truncates else 0
        done: list[tuple[DatanodeInfoProto, str]] = []
        waiting = len(participants)

        def on_updated(node: DatanodeInfoProto, settled: "Promise[Any]") -> None:
            nonlocal waiting
            waiting -= 1
            if settled.error is not None:
                self._log.warning("recovery_update_failed", block=self._block, error=settled.error)
            else:
                answer: UpdateReplicaUnderRecoveryResponseProto = settled.value()
                done.append((node, answer.storageUuid))
            if waiting == 0:
                self._conclude(length, done)

        for participant in participants:
            info = participant.info
            block = ExtendedBlock(
                self._block.pool_id, info.block_id, info.generation_stamp, info.num_bytes
            )
            request = UpdateReplicaUnderRecoveryRequestProto(
                block=block_proto(block),
                recoveryId=unsigned(self._recovery_id),
                newLength=length,
                newBlockId=new_id,
            )
            node = participant.node
            promise = self._call_peer(node, "updateReplicaUnderRecovery", request)
            promise.then(partial(on_updated, node))

    def _conclude(self, length: int, done: list[tuple[DatanodeInfoProto, str]]) -> None:
        if not done:
            self._log.error("recovery_failed", block=self._block, reason="no replica was updated")
            return
        self._tell(length, [node for node, _ in done], [storage for _, storage in done])

    def _tell(
        self,
        length: int,
        nodes: list[DatanodeInfoProto],
        storages: list[str],
        *,
        delete: bool = False,
    ) -> None:
        block = block_proto(self._block)
        request = CommitBlockSynchronizationRequestProto(
            block=block,
            newGenStamp=unsigned(self._recovery_id),
            newLength=length,
            closeFile=True,
            deleteBlock=delete,
            newTaragets=[node.id for node in nodes],
            newTargetStorages=storages,
        )
        self._commit(request).then(self._on_committed)

    def _on_committed(self, settled: "Promise[Any]") -> None:
        if settled.error is None:
            self._log.info("block_recovered", block=self._block, stamp=self._recovery_id)
        else:
            self._log.warning("recovery_not_committed", block=self._block, error=settled.error)
