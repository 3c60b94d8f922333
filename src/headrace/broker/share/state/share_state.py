"""One share-partition's state: what it is, what may be done to it, what that changes.

Owns: `ShareState`, the decisions (`initialized`, `written`, `read_by`) and `replayed`, the only way
in which a state changes, at a decision and at a load alike. Pure; `now_ms` is an argument.
Must not know: the log, which broker, requests.
Spec: KIP-932; Kafka's ShareCoordinatorShard and ShareGroupOffset.

Two epochs fence (`persister`). The leader's is kept beyond an initialisation, whose request says
nothing of it: a deposed leader stays deposed, whoever reads the log next. Kafka begins at 0 there.
"""

from dataclasses import dataclass, replace

from headrace.broker.share.persister import (
    UNINITIALIZED_EPOCH,
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    InitializeState,
    StateBatch,
    WriteState,
)
from headrace.broker.share.state.batches import combine
from headrace.broker.share.state.records import StateValue, batches_of, written_batches
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.share_records import ShareSnapshotValue, ShareUpdateValue

NO_EPOCH = -1
BATCHES_MAX = 20_000
"""In one write: twice as many as records may be acquired of a share-partition."""


@dataclass(frozen=True, slots=True)
class ShareState:
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...]
    create_timestamp_ms: int
    write_timestamp_ms: int
    """When the last snapshot was written."""
    leader_epoch_max: int
    """Below this nobody may read or write: `leader_epoch`, but for snapshots that Kafka wrote."""
    update_count: int = 0
    """Since the last snapshot."""


def initialized(state: ShareState | None, wanted: InitializeState, now_ms: int) -> StateValue:
    """The snapshot with which a share-partition begins anew."""
    is_altered = wanted.start_offset != UNINITIALIZED_START_OFFSET
    return ShareSnapshotValue(
        snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
        state_epoch=wanted.state_epoch,
        leader_epoch=UNINITIALIZED_EPOCH if state is None else state.leader_epoch_max,
        start_offset=wanted.start_offset,
        # Where nobody has begun there is no lag to be told; from an offset on there is.
        delivery_complete_count=0 if is_altered else UNKNOWN_COUNT,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
    )


def is_nonsense(wanted: InitializeState | WriteState) -> bool:
    """Whether no broker in its senses would ask for this."""
    if wanted.start_offset < UNINITIALIZED_START_OFFSET:
        return True
    if isinstance(wanted, InitializeState):
        return wanted.state_epoch < 0
    return len(wanted.state_batches) > BATCHES_MAX or any(
        not 0 <= each.first_offset <= each.last_offset for each in wanted.state_batches
    )


def initialize_refusal(state: ShareState | None, wanted: InitializeState) -> ErrorCode:
    if state is not None and state.state_epoch > wanted.state_epoch:
        return ErrorCode.FENCED_STATE_EPOCH
    return ErrorCode.NONE


def leader_refusal(state: ShareState, leader_epoch: int) -> ErrorCode:
    if leader_epoch != NO_EPOCH and state.leader_epoch_max > leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.NONE


def write_refusal(state: ShareState, wanted: WriteState) -> ErrorCode:
    refusal = leader_refusal(state, wanted.leader_epoch)
    if refusal:
        return refusal
    if wanted.state_epoch != NO_EPOCH and state.state_epoch > wanted.state_epoch:
        return ErrorCode.FENCED_STATE_EPOCH
    return ErrorCode.NONE


def written(
    state: ShareState, wanted: WriteState, updates_per_snapshot: int, now_ms: int
) -> StateValue:
    """An update, or a snapshot when there were enough updates."""
    if state.update_count < updates_per_snapshot:
        return ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=wanted.leader_epoch,
            start_offset=wanted.start_offset,
            delivery_complete_count=wanted.delivery_complete_count,
            state_batches=written_batches(
                combine((), wanted.state_batches, UNINITIALIZED_START_OFFSET)
            ),
        )
    start_offset = _unless_unset(wanted.start_offset, state.start_offset)
    batches = combine(state.state_batches, wanted.state_batches, start_offset)
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=_unless_unset(wanted.leader_epoch, state.leader_epoch),
        start_offset=start_offset,
        delivery_complete_count=wanted.delivery_complete_count,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=written_batches(batches),
    )


def read_by(
    key_write: WriteState, state: ShareState, updates_per_snapshot: int, now_ms: int
) -> StateValue | None:
    """What a read by a new leader changes: its epoch is known from here on. None: nothing."""
    if key_write.leader_epoch in (NO_EPOCH, state.leader_epoch_max):
        return None
    own = replace(
        key_write,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
    return written(state, own, updates_per_snapshot, now_ms)


def rewritten(state: ShareState, now_ms: int) -> StateValue:
    """The same state as a new snapshot, so that what was before it may go."""
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=now_ms,
        state_batches=written_batches(state.state_batches),
    )


def replayed(state: ShareState | None, value: StateValue) -> ShareState:
    leader_epoch_max = value.leader_epoch
    if state is not None:
        leader_epoch_max = max(leader_epoch_max, state.leader_epoch_max)
    if isinstance(value, ShareSnapshotValue):
        return ShareState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            state_batches=batches_of(value),
            create_timestamp_ms=value.create_timestamp,
            write_timestamp_ms=value.write_timestamp,
            leader_epoch_max=leader_epoch_max,
        )
    if state is None:
        # Its snapshot is gone: what the update says is all there is.
        state = ShareState(value.snapshot_epoch, 0, NO_EPOCH, -1, UNKNOWN_COUNT, (), 0, 0, NO_EPOCH)
    start_offset = _unless_unset(value.start_offset, state.start_offset)
    return replace(
        state,
        leader_epoch=_unless_unset(value.leader_epoch, state.leader_epoch),
        leader_epoch_max=leader_epoch_max,
        start_offset=start_offset,
        delivery_complete_count=value.delivery_complete_count,
        state_batches=combine(state.state_batches, batches_of(value), start_offset),
        update_count=state.update_count + 1,
    )


def _unless_unset(told: int, kept: int) -> int:
    return kept if told == -1 else told
