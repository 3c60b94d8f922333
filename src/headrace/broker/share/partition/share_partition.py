"""A share-partition: the state of each record in flight, and every transition between states.

Owns: the window of records in flight, who holds which and until when, what is yet to be kept.
Must not know: files, clocks (times are arguments), how state is kept (`persister`), requests.
Spec: KIP-932; Kafka's SharePartition.

                 acquire                    accept
    AVAILABLE ─────────────→ ACQUIRED ─────────────→ ACKNOWLEDGED
        ↑  release, lock time-out │  reject, gap
        └─────────────────────────┼────────────────→ ARCHIVED
                                  └ released after `delivery_count_limit` deliveries ↗

An acknowledgement counts once it is kept. `acknowledge` only marks records; `next_write` says what
is to be written, `on_written` makes it so, `on_write_failed` takes it back. There is one write at a
time: what is acknowledged meanwhile shares the next one. So the start offset that a write carries
is the one that holds if it succeeds, and never goes back.

Release by a lock's time-out or by the end of a session needs nobody's leave: it is done at once
and kept with the next write. If that fails the delivery is not counted after a restart: no harm.

Invariants: `start_offset` and `next_offset` never go back; a record has one holder at most; one
that is ACKNOWLEDGED or ARCHIVED stays so; below `start_offset` all are; a record whose state is
being written is neither handed out, nor released, nor acknowledged again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.broker.share.partition.acquiring import Acquiring
from headrace.broker.share.partition.runs import Run, Runs
from headrace.broker.share.partition.states import (
    STATE_AFTER,
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Acquisition,
    Limits,
    LogBatch,
    RecordState,
    Tally,
)
from headrace.broker.share.persister import StateBatch
from headrace.wire.kafka.errors import ErrorCode


class Change:
    """What one acknowledgement asks for, from `acknowledge` until it is kept or taken back.

    Without runs there is nothing to keep: locks were renewed, or all was done with already.
    """

    __slots__ = ("runs", "tally")

    def __init__(self, runs: list[Run], tally: Tally) -> None:
        self.runs = runs
        self.tally = tally


@dataclass(frozen=True, slots=True)
class Write:
    """One write: what the state will be if it succeeds."""

    changes: tuple[Change, ...]
    ranges: tuple[tuple[int, int], ...]
    """What moved by itself and is kept by the way."""
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...]


class SharePartition:
    def __init__(self, start_offset: int, limits: Limits) -> None:
        self.start_offset = start_offset
        """The first record that is not settled."""
        self.next_offset = start_offset
        """The first record that was never delivered."""
        self.limits = limits
        self._runs = Runs()
        self._begun: list[Change] = []
        self._unkept: list[tuple[int, int]] = []
        self._writing: Write | None = None

    @classmethod
    def rebuilt(
        cls, start_offset: int, state_batches: Iterable[StateBatch], limits: Limits
    ) -> "SharePartition":
        """From what was kept. What was ACQUIRED then is AVAILABLE now."""
        partition = cls(start_offset, limits)
        for batch in sorted(state_batches, key=lambda each: each.first_offset):
            first = max(batch.first_offset, partition.next_offset)
            if first > batch.last_offset:
                continue
            if first > partition.next_offset:
                partition._append(partition.next_offset, first - 1, RecordState.AVAILABLE, 0)
            state = RecordState(batch.delivery_state)
            partition._append(first, batch.last_offset, state, batch.delivery_count)
        partition._runs.join(start_offset, partition.next_offset)
        partition._advance()
        return partition

    def _append(self, first: int, last: int, state: RecordState, count: int) -> None:
        self._runs.append(Run(first, last, state, count))
        self.next_offset = last + 1

    # -- looking -----------------------------------------------------------------------------

    def runs(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def in_flight_count(self) -> int:
        return self.next_offset - self.start_offset

    @property
    def has_unkept(self) -> bool:
        return bool(self._unkept)

    @property
    def is_writing(self) -> bool:
        return self._writing is not None

    def fetch_offset(self) -> int | None:
        """Where the next records that may be had begin; None if the window is full."""
        for run in self._runs:
            if run.is_available:
                return run.first
        return self.next_offset if self.in_flight_count < self.limits.in_flight_max else None

    def lock_until_ms(self) -> int | None:
        """When the first lock ends."""
        return min((run.lock_until_ms for run in self._runs if run.is_held), default=None)

    def held_by(self, member_id: str) -> int:
        return sum(len(run) for run in self._runs if run.is_held and run.member_id == member_id)

    # -- handing out -------------------------------------------------------------------------

    def acquire(
        self, asked: Acquisition, fetch_offset: int, batches: Iterable[LogBatch]
    ) -> list[Acquired]:
        """Hand out records of `batches`: those that the log has from `fetch_offset` on."""
        look = Acquiring(
            self._runs, self.limits, asked, self.start_offset, self.next_offset, self._note_unkept
        )
        look.look(fetch_offset, batches)
        self.next_offset = look.next_offset
        self._advance()
        return look.result()

    def _note_unkept(self, first: int, last: int) -> None:
        self._unkept.append((first, last))

    # -- coming back -------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, batches: Sequence[Acknowledgement], lock_until_ms: int
    ) -> Change | ErrorCode:
        """Mark records as a member wants them; all of `batches` or none.

        Offsets below the start are done with and ignored. A lock that ended is lost: its record is
        not this member's any more, even if nobody else has taken it.
        """
        wanted: list[tuple[Run, int, int, AcknowledgeType]] = []
        for batch in batches:
            if batch.last_offset >= self.next_offset:
                return ErrorCode.INVALID_REQUEST
            for first, last, kind in _by_type(batch):
                if last < self.start_offset:
                    continue
                first = max(first, self.start_offset)
                for run in self._runs.between(first, last):
                    if not run.is_held or run.member_id != member_id:
                        return ErrorCode.INVALID_RECORD_STATE
                    wanted.append((run, max(run.first, first), min(run.last, last), kind))
        change = self._mark(wanted, lock_until_ms)
        if change.runs:
            self._begun.append(change)
        return change

    def _mark(
        self, wanted: list[tuple[Run, int, int, AcknowledgeType]], lock_until_ms: int
    ) -> Change:
        runs: list[Run] = []
        counts = dict.fromkeys(AcknowledgeType, 0)
        archived = 0
        for found, first, last, kind in wanted:
            # An earlier part of the same run may have been cut off it.
            holder = found if found.first <= first <= found.last else self._runs.at(first)
            assert holder is not None
            run = self._runs.cut_out(holder, first, last)
            counts[kind] += len(run)
            if kind is AcknowledgeType.RENEW:
                run.lock_until_ms = lock_until_ms
                continue
            run.pending = STATE_AFTER[kind]
            if run.pending is RecordState.AVAILABLE and self._is_spent(run):
                run.pending = RecordState.ARCHIVED
                archived += len(run)
            runs.append(run)
        return Change(
            runs,
            Tally(
                accepted=counts[AcknowledgeType.ACCEPT],
                released=counts[AcknowledgeType.RELEASE],
                rejected=counts[AcknowledgeType.REJECT],
                renewed=counts[AcknowledgeType.RENEW],
                archived=archived,
            ),
        )

    def _is_spent(self, run: Run) -> bool:
        return run.delivery_count >= self.limits.delivery_count_limit

    def expire(self, now_ms: int) -> Tally:
        """Locks that ended: their records may be had again, or were delivered too often."""
        return self._let_go([run for run in self._runs if run.lock_until_ms <= now_ms])

    def release_member(self, member_id: str) -> Tally:
        """A member is gone: the same for what it holds. It may have died of it: that counts."""
        return self._let_go([run for run in self._runs if run.member_id == member_id])

    def _let_go(self, runs: list[Run]) -> Tally:
        released = archived = 0
        for run in runs:
            if not run.is_held:
                continue
            released += len(run)
            if self._is_spent(run):
                archived += len(run)
                run.let_go(RecordState.ARCHIVED)
            else:
                run.let_go(RecordState.AVAILABLE)
            self._note_unkept(run.first, run.last)
        if released:
            self._runs.join(self.start_offset, self.next_offset)
            self._advance()
        return Tally(released=released, archived=archived)

    # -- the start ---------------------------------------------------------------------------

    def on_log_start(self, log_start_offset: int) -> bool:
        """Records below are no more; whether that is news."""
        if log_start_offset <= self.start_offset:
            return False
        self._runs.drop_before(log_start_offset)
        self.start_offset = log_start_offset
        self.next_offset = max(self.next_offset, log_start_offset)
        self._advance()
        # Kept with the next write, which carries the start offset whatever else is in it.
        self._note_unkept(log_start_offset - 1, log_start_offset - 1)
        return True

    def _advance(self) -> None:
        """Settled records at the front leave the window."""
        start = self.start_offset
        for run in self._runs:
            if run.pending is not None or not run.state.is_terminal:
                break
            start = run.last + 1
        if start > self.start_offset:
            self._runs.drop_before(start)
            self.start_offset = start

    # -- keeping -----------------------------------------------------------------------------

    def next_write(self) -> Write | None:
        """What is to be kept now; None while a write is under way, or if nothing changed.

        The start offset is that after the write: records before it need no words.
        """
        if self._writing is not None or not (self._begun or self._unkept):
            return None
        changes, self._begun = tuple(self._begun), []
        ranges, self._unkept = tuple(self._unkept), []
        start = self.start_offset
        for run in self._runs:
            if not run.will_be.is_terminal:
                break
            start = run.last + 1
        touched = [(run.first, run.last) for change in changes for run in change.runs]
        complete = sum(
            len(run) for run in self._runs if run.last >= start and run.will_be.is_terminal
        )
        batches = tuple(self._kept(touched + list(ranges), start))
        self._writing = Write(changes, ranges, start, complete, batches)
        return self._writing

    def _kept(self, ranges: list[tuple[int, int]], start: int) -> Iterator[StateBatch]:
        """The states in `ranges` as they are to be kept, each record once, in order."""
        done = start
        for first, last in sorted(ranges):
            first = max(first, done)
            if last < first:
                continue
            for run in self._runs.between(first, last):
                state, count = run.will_be, run.delivery_count
                if state is RecordState.ACQUIRED:  # again, since it was let go
                    state, count = RecordState.AVAILABLE, count - 1
                yield StateBatch(max(run.first, first), min(run.last, last), int(state), count)
            done = last + 1

    def on_written(self) -> Tally:
        """The write that `next_write` gave is kept."""
        write = self._writing
        assert write is not None
        self._writing = None
        tallies = [change.tally for change in write.changes]
        for change in write.changes:
            for run in change.runs:
                assert run.pending is not None
                state, run.pending = run.pending, None
                run.let_go(state)
        self._runs.join(self.start_offset, self.next_offset)
        self._advance()
        return Tally(
            accepted=sum(tally.accepted for tally in tallies),
            released=sum(tally.released for tally in tallies),
            rejected=sum(tally.rejected for tally in tallies),
            renewed=sum(tally.renewed for tally in tallies),
            archived=sum(tally.archived for tally in tallies),
        )

    def on_write_failed(self) -> None:
        """Nothing of it holds: records are with their holders as before, until their locks end."""
        write = self._writing
        assert write is not None
        self._writing = None
        for change in write.changes:
            for run in change.runs:
                run.pending = None
        self._unkept[:0] = write.ranges
        self._runs.join(self.start_offset, self.next_offset)


def _by_type(batch: Acknowledgement) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """Neighbours with the same type together."""
    types = batch.types
    if len(types) == 1:
        yield batch.first_offset, batch.last_offset, AcknowledgeType(types[0])
        return
    first = batch.first_offset
    for index in range(1, len(types) + 1):
        if index == len(types) or types[index] != types[index - 1]:
            last = batch.first_offset + index - 1
            yield first, last, AcknowledgeType(types[index - 1])
            first = last + 1
