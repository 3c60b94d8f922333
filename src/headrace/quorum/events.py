"""What goes into the core and what comes out: events, and one `Ready` a step.

Owns: these values and the contract between core and driver. Must not know: who drives.
Model: etcd/raft's Ready.

The driver's contract. It acts on a `Ready` in this order, before it steps again:
1. `election_state`: write and sync. Nothing below may happen before it is durable, and a crash
   in between is as if the step had never been.
2. `truncate_to`, then `reset_log_to`, then `append`, then `log_start_offset`: write, in the
   order of the steps. Then `delete_snapshots`.
3. `sync`: begin a sync of the log, or remember to, if one is under way. When it is done, step
   with `LogSynced` of the same position. The driver goes on meanwhile: entries that come during
   a sync share the next one.
4. `sends` and `replies`: may be lost, doubled, late. A reply with `read` gets its records from
   the log, one with `read_snapshot` its bytes from the snapshot file.
5. `high_watermark`: entries before it are committed for ever, and may be replayed and answered.
6. `wake_at_ms`: step with `Tick` then, if nothing comes before.

Before the first step the driver has synced the log and whatever it loaded (`loading`): what a
process finds in the page cache is not yet durable, and the core takes it for durable. If the
newest snapshot ends behind the log, or the log has another epoch there, the log is reset to it.

A sync that fails, a write that fails: the driver stops the replica for good and steps no more.
"""

from typing import NamedTuple, TypeAlias

from headrace.quorum.batches import Batch
from headrace.quorum.election_state import ElectionState
from headrace.quorum.log_view import LogPosition, SnapshotId
from headrace.quorum.voters import VoterSet
from headrace.wire.kafka.message import Message

# -- into the core ---------------------------------------------------------------------------


class Tick(NamedTuple):
    """Time has passed."""


class RequestReceived(NamedTuple):
    """A peer or a tool asks; the answer is a `Reply` with this token, now or later."""

    token: int
    message: Message


class ResponseReceived(NamedTuple):
    """The answer to `Send.request_id`."""

    request_id: int
    message: Message


class RequestFailed(NamedTuple):
    """No answer will come. `refused`: nobody listens there at all."""

    request_id: int
    refused: bool = False


class Propose(NamedTuple):
    """Append this batch, if we still lead in `epoch`. See `Ready.proposed`."""

    batch: bytearray
    epoch: int


class LogSynced(NamedTuple):
    position: LogPosition


class SnapshotWritten(NamedTuple):
    """The driver's state machine wrote a snapshot, and synced it. The log may start at
    `log_start_offset` from now on."""

    snapshot_id: SnapshotId
    size_bytes: int
    log_start_offset: int


class SnapshotReceived(NamedTuple):
    """All chunks of a fetched snapshot are written and synced; `voters` is what it holds."""

    snapshot_id: SnapshotId
    size_bytes: int
    voters: VoterSet


class SnapshotFailed(NamedTuple):
    """What was fetched is no sound snapshot; the driver has dropped it."""

    snapshot_id: SnapshotId


class Resign(NamedTuple):
    """A leader that is about to stop hands over."""


Event: TypeAlias = (
    Tick
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | Propose
    | LogSynced
    | SnapshotWritten
    | SnapshotReceived
    | SnapshotFailed
    | Resign
)

# -- out of the core -------------------------------------------------------------------------


class Send(NamedTuple):
    request_id: int
    target_id: int
    message: Message


class LogRead(NamedTuple):
    """Fill `records` with whole batches from `offset` on: at least one, then up to `bytes_max`."""

    offset: int
    bytes_max: int


class SnapshotRead(NamedTuple):
    snapshot_id: SnapshotId
    position: int
    bytes_max: int


class Reply(NamedTuple):
    token: int
    message: Message
    read: LogRead | None = None
    read_snapshot: SnapshotRead | None = None


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot that is being fetched. After the last: sync, then `SnapshotReceived`."""

    snapshot_id: SnapshotId
    position: int
    data: bytes | memoryview
    is_last: bool


class Proposed(NamedTuple):
    """Where a proposal went; `base_offset` -1: we do not lead in that epoch, nothing was done."""

    base_offset: int
    next_offset: int


class Ready:
    """What one step asks of the driver; see the contract above. The driver owns it."""

    __slots__ = (
        "append",
        "delete_snapshots",
        "election_state",
        "halt",
        "high_watermark",
        "log_start_offset",
        "proposed",
        "replies",
        "reset_log_to",
        "sends",
        "snapshot_chunk",
        "sync",
        "truncate_to",
        "wake_at_ms",
    )

    def __init__(self) -> None:
        self.election_state: ElectionState | None = None
        self.truncate_to: int | None = None
        self.reset_log_to: SnapshotId | None = None
        self.append: list[Batch] = []
        self.log_start_offset: int | None = None
        self.delete_snapshots: list[SnapshotId] = []
        self.sync: LogPosition | None = None
        self.snapshot_chunk: SnapshotChunk | None = None
        self.sends: list[Send] = []
        self.replies: list[Reply] = []
        self.proposed: Proposed | None = None
        self.high_watermark: int | None = None
        self.wake_at_ms: int | None = None
        self.halt: str | None = None
        """Going on would break a promise: stop this replica, and tell a person why."""
