"""When a state machine's snapshot is due, and its making in slices.

Owns: the policy and the one snapshot under way. Must not know: the format of the file
(`snapshot_files`), what the records mean.
Spec: Kafka's `metadata.log.max.record.bytes.between.snapshots` and
`metadata.log.max.snapshot.interval.ms`.

Invariants: a slice encodes at most `SLICE_RECORDS_MAX` records, so the loop is held for a few
milliseconds; the snapshot is of one moment, because a copy of the state is what is written.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headrace.base.clock import Clock, Timers
from headrace.base.errors import DiskFullError
from headrace.base.limits import MIB
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.replica import Replica
from headrace.quorum.snapshot_files import SnapshotWriter
from headrace.quorum.state_machine import RecordCodec, State
from headrace.quorum.voters import VoterSet

SLICE_RECORDS_MAX = 100
SLICE_PAUSE_MS = 2


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    bytes_between: int = 20 * MIB
    """Of committed entries."""
    interval_ms: int = 3_600_000
    """If anything was committed since the last one. 0: never for this reason."""


class Snapshotting:
    def __init__(
        self,
        replica: Replica,
        codec: RecordCodec,
        clock: Clock,
        timers: Timers,
        policy: SnapshotPolicy,
    ) -> None:
        self._replica = replica
        self._codec = codec
        self._clock = clock
        self._timers = timers
        self._policy = policy
        self._bytes_since = 0
        self._last_ms = clock.monotonic_ms()
        self._is_under_way = False
        self.write_elsewhere: Callable[[SnapshotId, VoterSet], None] | None = None
        """Who writes snapshots, if not we: a state too large to be copied."""

    def on_committed(self, state: State, end_offset: int, size_bytes: int) -> None:
        """So much more, up to `end_offset`, is in `state`."""
        self._bytes_since += size_bytes
        policy = self._policy
        is_old = (
            policy.interval_ms > 0
            and self._clock.monotonic_ms() - self._last_ms >= policy.interval_ms
        )
        if self._bytes_since >= policy.bytes_between or (is_old and self._bytes_since > 0):
            self.begin(state, end_offset)

    def begin(self, state: State, end_offset: int) -> bool:
        """Snapshot now, unless one is being made or there is nothing new."""
        snapshot_id = self._replica.snapshots.next(end_offset)
        if self._is_under_way or snapshot_id is None:
            return False
        self._is_under_way = True
        self._bytes_since = 0
        self._last_ms = self._clock.monotonic_ms()
        if self.write_elsewhere is not None:
            self.write_elsewhere(snapshot_id, self._replica.snapshots.voters_at(end_offset))
            return True
        try:
            writer = self._replica.snapshots.begin(snapshot_id, self._clock.now_ms())
        except DiskFullError:
            self._give_up()
            return False
        frozen = state.copy()
        self._timers.call_soon(lambda: self._write_slice(writer, frozen.to_records()))
        return True

    def adopt(self, snapshot_id: SnapshotId) -> None:
        if not self._replica.is_closed:
            self._replica.snapshots.adopt(snapshot_id, self._on_finished)

    def _write_slice(self, writer: SnapshotWriter, records: Iterator[Any]) -> None:
        if self._replica.is_closed:
            return
        try:
            encode = self._codec.encode
            values = [encode(record) for record in islice(records, SLICE_RECORDS_MAX)]
            writer.append(values)
            if len(values) < SLICE_RECORDS_MAX:
                self._replica.snapshots.finish(writer, self._on_finished)
                return
        except DiskFullError:
            writer.abandon()
            self._give_up()
            return
        except Exception as error:
            # A state that can't be written is a bug, a disk that refuses is not to be trusted.
            self._replica.fail(error)
            return
        self._timers.call_later(SLICE_PAUSE_MS, lambda: self._write_slice(writer, records))

    def _give_up(self) -> None:
        """There is no room: the log does without this one, and the next comes a little sooner."""
        self._is_under_way = False
        self._bytes_since = self._policy.bytes_between // 2

    def _on_finished(self) -> None:
        self._is_under_way = False
