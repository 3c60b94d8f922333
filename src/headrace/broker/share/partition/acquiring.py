"""Handing out records: which of the records that a fetch found go to the member that asks.

Owns: the order of looking, the rounding to batches, the care with records that were delivered too
often. Must not know: how what is handed out comes back (`share_partition`), files.
Spec: KIP-932; the care is Kafka's own since 4.2.

Looked at are the batches of the log from the first offset that may be had on. Records in the
window that are AVAILABLE are taken, then those behind it that nobody ever got, as far as the window
may grow. What the log no longer has, or nobody may see, is archived on the way.

A record that was delivered `throttle_count` times without success may be what kills its
consumers. Of its run ever fewer are handed out at a time, and a record on its last delivery goes
alone, so that its neighbours do not go down with it.
"""

from collections.abc import Callable, Iterable

from headrace.broker.share.partition.runs import Run, Runs
from headrace.broker.share.partition.states import (
    Acquired,
    AcquireMode,
    Acquisition,
    Limits,
    LogBatch,
    RecordState,
)

_LONE_SINCE = 3
"""With a smaller limit every second delivery is the last one: no use to be so careful."""


class Acquiring:
    """One look over the batches that a fetch found."""

    __slots__ = (
        "_asked",
        "_cursor",
        "_is_over",
        "_left",
        "_limits",
        "_on_archived",
        "_runs",
        "acquired",
        "next_offset",
        "start_offset",
    )

    def __init__(
        self,
        runs: Runs,
        limits: Limits,
        asked: Acquisition,
        start_offset: int,
        next_offset: int,
        on_archived: Callable[[int, int], None],
    ) -> None:
        self._runs = runs
        self._limits = limits
        self._asked = asked
        self._left = asked.max_records
        self._cursor = start_offset
        self._is_over = False
        self._on_archived = on_archived
        self.start_offset = start_offset
        self.next_offset = next_offset
        self.acquired: list[Run] = []

    def look(self, fetch_offset: int, batches: Iterable[LogBatch]) -> None:
        """Take what may be had of `batches`, which begin at or behind `fetch_offset`."""
        self._cursor = max(fetch_offset, self.start_offset)
        for batch in batches:
            if batch.last_offset < self._cursor:
                continue
            if batch.first_offset > self._cursor:
                self._pass_over(batch.first_offset - 1)
            if self._is_done:
                return
            if batch.is_deliverable:
                self._take_from(batch)
            else:
                self._pass_over(batch.last_offset)
            if self._is_done:
                return

    @property
    def _is_done(self) -> bool:
        return self._is_over or self._left <= 0

    @property
    def _room(self) -> int:
        return self._limits.in_flight_max - (self.next_offset - self.start_offset)

    def _take_from(self, batch: LogBatch) -> None:
        while self._cursor <= batch.last_offset and not self._is_done:
            if self._cursor >= self.next_offset:
                self._take_new(batch)
                continue
            run = self._runs.at(self._cursor)
            assert run is not None
            last = min(run.last, batch.last_offset)
            if run.is_available:
                last = self._take_again(run, self._cursor, last)
            self._cursor = last + 1

    # -- records that are in the window ----------------------------------------------------

    def _take_again(self, run: Run, first: int, last: int) -> int:
        """Take of an AVAILABLE run what may be had at once; where that ends."""
        limit, count = self._limits.delivery_count_limit, run.delivery_count
        wanted = last - first + 1
        is_lone = limit >= _LONE_SINCE and count == limit - 1
        if is_lone and self.acquired:
            self._is_over = True
            return last
        if is_lone:
            wanted = 1
            self._is_over = True
        elif count >= self._limits.throttle_count:
            fewer = max(1, wanted >> (count - self._limits.throttle_count + 1))
            self._is_over = fewer < wanted
            wanted = fewer
        if self._asked.mode is AcquireMode.RECORD_LIMIT:
            wanted = min(wanted, self._left)
        taken = self._runs.cut_out(run, first, first + wanted - 1)
        taken.state = RecordState.ACQUIRED
        taken.delivery_count += 1
        self._hold(taken)
        return taken.last

    def _hold(self, run: Run) -> None:
        run.member_id = self._asked.member_id
        run.lock_until_ms = self._asked.lock_until_ms
        self.acquired.append(run)
        self._left -= len(run)

    # -- records that nobody ever got ------------------------------------------------------

    def _take_new(self, batch: LogBatch) -> None:
        room = self._room
        if room <= 0:
            self._is_over = True
            return
        first, last = self._cursor, batch.last_offset
        if self._asked.mode is AcquireMode.RECORD_LIMIT:
            last = min(last, first + min(self._left, room) - 1)
        self._cursor = self.next_offset = last + 1
        run = self.acquired[-1] if self.acquired else None
        if run is not None and self._may_grow(run, first):
            self._left -= last - run.last
            run.last = last
            return
        run = Run(first, last, RecordState.ACQUIRED, 1)
        self._runs.append(run)
        self._hold(run)

    def _may_grow(self, run: Run, first: int) -> bool:
        """Whether the run just taken goes on at `first` and is not yet as long as one should be."""
        is_last = run is self._runs.last() and run.last == first - 1
        return is_last and run.delivery_count == 1 and len(run) < self._asked.batch_size

    # -- offsets without a record for anybody ----------------------------------------------

    def _pass_over(self, last: int) -> None:
        """No record up to `last` is to be delivered."""
        first = self._cursor
        if first < self.next_offset:
            for run in self._runs.between(first, min(last, self.next_offset - 1)):
                if run.is_available:
                    gone = self._runs.cut_out(run, max(run.first, first), min(run.last, last))
                    gone.let_go(RecordState.ARCHIVED)
                    self._on_archived(gone.first, gone.last)
        if last >= self.next_offset:
            first = max(first, self.next_offset)
            self._runs.append(Run(first, last, RecordState.ARCHIVED))
            self._on_archived(first, last)
            self.next_offset = last + 1
        self._cursor = last + 1

    def result(self) -> list[Acquired]:
        return [Acquired(run.first, run.last, run.delivery_count) for run in self.acquired]
