"""Any history of a share-partition, against a model that knows each record by itself.

What must hold after every step: nobody holds what another holds; what was accepted is never handed
out again; the start never goes back; no record is delivered more often than allowed; and what was
kept, read after a crash, is the same state with nobody holding anything.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from headrace.broker.share.partition.share_partition import Change, SharePartition, Write
from headrace.broker.share.partition.states import (
    Acknowledgement,
    AcknowledgeType,
    AcquireMode,
    Acquisition,
    Limits,
    LogBatch,
    RecordState,
)
from headrace.broker.share.persister import StateBatch

MEMBERS = ("a", "b", "c")
LOCK_MS = 100
Kept = dict[int, tuple[int, int]]


class ShareHistory(RuleBasedStateMachine):
    @initialize(
        limit=st.sampled_from([2, 2, 3, 5]),
        in_flight=st.integers(3, 40),
        start=st.integers(0, 5),
        lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    )
    def begin(self, limit: int, in_flight: int, start: int, lengths: list[int]) -> None:
        self.limits = Limits(limit, in_flight)
        self.share = SharePartition(start, self.limits)
        self.log: list[LogBatch] = []
        self.log_start = 0
        self.end_offset = 0
        self.now_ms = 0
        self.holders: dict[int, str] = {}
        self.deliveries: dict[int, int] = {}
        self.settled: set[int] = set()
        self.pending: dict[int, int] = {}
        self.write: Write | None = None
        self.first = self.start_before = start
        self.kept_start = start
        self.kept: Kept = {}
        for length in lengths:
            self.append(length, 0, True)

    # -- what happens --------------------------------------------------------------------------

    @rule(
        length=st.integers(1, 8),
        hole=st.sampled_from([0, 0, 0, 2]),
        is_deliverable=st.sampled_from([True, True, True, False]),
    )
    def append(self, length: int, hole: int, is_deliverable: bool) -> None:
        first = self.end_offset + hole
        self.end_offset = first + length
        self.log.append(LogBatch(first, self.end_offset - 1, is_deliverable))

    @rule(
        member=st.sampled_from(MEMBERS),
        max_records=st.integers(1, 20),
        batch_size=st.integers(1, 10),
        mode=st.sampled_from(AcquireMode),
    )
    def acquire(self, member: str, max_records: int, batch_size: int, mode: AcquireMode) -> None:
        offset = self.share.fetch_offset()
        if offset is None:
            return
        asked = Acquisition(member, max_records, self.now_ms + LOCK_MS, batch_size, mode)
        found = [batch for batch in self.log if batch.last_offset >= offset]
        total = 0
        for first, last, count in self.share.acquire(asked, offset, found):
            for record in range(first, last + 1):
                total += 1
                assert record not in self.holders, "held by another"
                assert record not in self.settled, "delivered after its end"
                assert record not in self.pending, "delivered while it is written"
                assert any(b.first_offset <= record <= b.last_offset for b in self.log)
                assert count == self.deliveries.get(record, 0) + 1
                assert count <= self.limits.delivery_count_limit
                self.deliveries[record] = count
                self.holders[record] = member
        if mode is AcquireMode.RECORD_LIMIT:
            assert total <= max_records

    @rule(
        member=st.sampled_from(MEMBERS),
        types=st.lists(st.sampled_from(AcknowledgeType), min_size=1, max_size=8),
        skip=st.sampled_from([0, 0, 0, 1, 3]),
        fits=st.sampled_from([True, True, True, False]),
    )
    def acknowledge(self, member: str, types: list[AcknowledgeType], skip: int, fits: bool) -> None:
        """A member tells of neighbours that it holds or, now and then, of others too."""
        held = sorted(record for record, holder in self.holders.items() if holder == member)
        first = held[skip % len(held)] if held else skip
        if fits:
            types = [kind for n, kind in enumerate(types) if first + n in held] or types[:1]
        self._acknowledge(member, first, types)

    @precondition(lambda self: bool(self.holders))
    @rule(kind=st.sampled_from(AcknowledgeType))
    def acknowledge_all(self, kind: AcknowledgeType) -> None:
        """Whoever holds the first record that is held, all of its run alike."""
        run = next(run for run in self.share.runs() if run.is_held)
        self._acknowledge(run.member_id, run.first, [kind] * len(run))

    def _acknowledge(self, member: str, first: int, types: list[AcknowledgeType]) -> None:
        last = first + len(types) - 1
        change = self.share.acknowledge(
            member, [Acknowledgement(first, last, tuple(types))], self.now_ms + LOCK_MS
        )
        wanted = range(max(first, self.share.start_offset), last + 1)
        may = all(self.holders.get(record) == member for record in wanted)
        assert isinstance(change, Change) == (may and last < self.share.next_offset)
        if not isinstance(change, Change):
            return
        for record, kind in zip(range(first, last + 1), types, strict=True):
            if record in wanted and kind is not AcknowledgeType.RENEW:
                del self.holders[record]
                self.pending[record] = kind

    @rule(delta_ms=st.sampled_from([1, LOCK_MS // 2, LOCK_MS]))
    def time_passes(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        self.share.expire(self.now_ms)
        self._see_released()

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        self.share.release_member(member)
        self._see_released()
        assert member not in self.holders.values()

    def _see_released(self) -> None:
        held = {
            record
            for run in self.share.runs()
            if run.is_held
            for record in range(run.first, run.last + 1)
        }
        for record in [each for each in self.holders if each not in held]:
            del self.holders[record]
            if self.deliveries[record] >= self.limits.delivery_count_limit:
                self.settled.add(record)

    @rule(ahead=st.integers(0, 6))
    def retain(self, ahead: int) -> None:
        self.log_start = min(self.log_start + ahead, self.end_offset)
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
        self.share.on_log_start(self.log_start)
        for known in (self.holders, self.pending):
            for record in [each for each in known if each < self.log_start]:
                del known[record]

    # -- keeping -------------------------------------------------------------------------------

    @precondition(lambda self: self.write is None)
    @rule()
    def begin_write(self) -> None:
        self.write = self.share.next_write()
        if self.write is not None:
            self.written = {
                record
                for change in self.write.changes
                for run in change.runs
                for record in range(run.first, run.last + 1)
            }

    @precondition(lambda self: self.write is None)
    @rule()
    def write_at_once(self) -> None:
        self.begin_write()
        if self.write is not None:
            self.succeed()

    @precondition(lambda self: self.write is not None)
    @rule()
    def succeed(self) -> None:
        assert self.write is not None
        self.share.on_written()
        assert self.write.start_offset >= self.kept_start
        self._take_kept(self.write)
        self.write = None
        for record in self.written & set(self.pending):
            kind = self.pending.pop(record)
            is_spent = self.deliveries[record] >= self.limits.delivery_count_limit
            if kind != AcknowledgeType.RELEASE or is_spent:
                self.settled.add(record)

    def _take_kept(self, write: Write) -> None:
        self.kept_start = write.start_offset
        for batch in write.state_batches:
            for record in range(batch.first_offset, batch.last_offset + 1):
                self.kept[record] = (batch.delivery_state, batch.delivery_count)
        self.kept = {
            record: kept for record, kept in self.kept.items() if record >= self.kept_start
        }

    @precondition(lambda self: self.write is not None)
    @rule()
    def fail(self) -> None:
        assert self.write is not None
        self.share.on_write_failed()
        self.write = None
        runs = {run.first: run for run in self.share.runs() if run.is_held}
        for record in self.written & set(self.pending):
            del self.pending[record]
            run = next(run for run in runs.values() if run.first <= record <= run.last)
            self.holders[record] = run.member_id

    @precondition(lambda self: self.write is None and not self.pending)
    @rule()
    def crash(self) -> None:
        """The leader is another one, which knows what was kept and nothing else."""
        if self.share.has_unkept:
            write = self.share.next_write()
            assert write is not None
            self.share.on_written()
            self._take_kept(write)
        before = self.share
        batches = [StateBatch(r, r, state, count) for r, (state, count) in self.kept.items()]
        self.share = SharePartition.rebuilt(self.kept_start, batches, self.limits)
        self.share.on_log_start(self.log_start)
        assert self.share.start_offset == before.start_offset
        self.start_before = self.share.start_offset
        after = _by_record(self.share)
        for record, (state, count) in _by_record(before).items():
            if state is RecordState.ACQUIRED:
                state, count = RecordState.AVAILABLE, count - 1
            assert after.get(record, (RecordState.AVAILABLE, 0)) == (state, count)
        for record in self.holders:
            self.deliveries[record] -= 1
        self.holders = {}

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def the_window_has_neither_holes_nor_overlaps(self) -> None:
        offset = self.share.start_offset
        for run in self.share.runs():
            assert run.first == offset
            assert run.last >= run.first
            offset = run.last + 1
        assert offset == self.share.next_offset

    @invariant()
    def the_start_never_goes_back(self) -> None:
        assert self.share.start_offset >= self.start_before
        self.start_before = self.share.start_offset

    @invariant()
    def everybody_holds_what_the_model_says(self) -> None:
        held = {
            record: run.member_id
            for run in self.share.runs()
            if run.is_held
            for record in range(run.first, run.last + 1)
        }
        assert held == self.holders

    @invariant()
    def no_unsettled_record_is_left_behind(self) -> None:
        """Below the start is only what was settled, retained away, or never for anybody."""
        start = self.share.start_offset
        for batch in self.log:
            if batch.is_deliverable and batch.first_offset < start:
                for record in range(max(batch.first_offset, self.first), batch.last_offset + 1):
                    is_left = record < start and record >= self.log_start
                    assert not is_left or record in self.settled
        assert not [record for record in self.holders if record < start]
        assert not [record for record in self.pending if record < start]

    @invariant()
    def settled_records_stay_settled(self) -> None:
        for record, (state, _) in _by_record(self.share).items():
            if record in self.settled:
                assert state.is_terminal


def _by_record(share: SharePartition) -> dict[int, tuple[RecordState, int]]:
    return {
        record: (run.state, run.delivery_count)
        for run in share.runs()
        for record in range(run.first, run.last + 1)
    }


TestShareHistory = ShareHistory.TestCase
TestShareHistory.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
