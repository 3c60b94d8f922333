"""The window of records in flight: runs of neighbours in the same state, in order of offset.

Owns: `Run`, and cutting, joining and finding runs. Must not know: which transitions are allowed.

    start_offset                                     next_offset
    │ ACKED 2 │ ACQUIRED by a, 1 │ AVAILABLE, 1 │ ACQUIRED by b, 1 │ never delivered …

Invariant: runs cover the window from `start_offset` up to `next_offset` without holes or overlaps.
"""

from bisect import bisect_right
from collections.abc import Iterator

from headrace.broker.share.partition.states import RecordState


class Run:
    """Records from `first` to `last`, both included, of which the same is true."""

    __slots__ = (
        "delivery_count",
        "first",
        "last",
        "lock_until_ms",
        "member_id",
        "pending",
        "state",
    )

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int = 0,
        member_id: str = "",
        lock_until_ms: int = 0,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        """Who holds it while it is ACQUIRED."""
        self.lock_until_ms = lock_until_ms
        self.pending: RecordState | None = None
        """The state that was asked for and is being written; nothing else moves it meanwhile."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        going = f"→{self.pending.name}" if self.pending is not None else ""
        held = f" {self.member_id}" if self.member_id else ""
        return f"{self.first}-{self.last} {self.state.name}{going} {self.delivery_count}{held}"

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.pending is None

    @property
    def is_held(self) -> bool:
        """Acquired, and nobody has said yet what became of it."""
        return self.state is RecordState.ACQUIRED and self.pending is None

    @property
    def will_be(self) -> RecordState:
        return self.state if self.pending is None else self.pending

    def let_go(self, state: RecordState) -> None:
        self.state = state
        self.member_id = ""
        self.lock_until_ms = 0

    def is_like(self, other: "Run") -> bool:
        return (
            self.pending is None
            and other.pending is None
            and self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.lock_until_ms == other.lock_until_ms
        )


class Runs:
    """All runs of a window."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def append(self, run: Run) -> None:
        self._runs.append(run)

    def last(self) -> Run | None:
        return self._runs[-1] if self._runs else None

    def at(self, offset: int) -> Run | None:
        index = self._index(offset)
        return self._runs[index] if 0 <= index < len(self._runs) else None

    def between(self, first: int, last: int) -> list[Run]:
        """Every run that touches the range."""
        found = []
        for index in range(max(self._index(first), 0), len(self._runs)):
            run = self._runs[index]
            if run.first > last:
                break
            if run.last >= first:
                found.append(run)
        return found

    def cut_out(self, run: Run, first: int, last: int) -> Run:
        """A run of exactly `first` to `last`; what is left of `run` stays beside it.

        It is `run` itself that is cut, so that one that is looked at keeps its identity.
        """
        index = self._index(run.first)
        if first > run.first:
            self._runs.insert(index, _part(run, run.first, first - 1))
            run.first = first
            index += 1
        if last < run.last:
            self._runs.insert(index + 1, _part(run, last + 1, run.last))
            run.last = last
        return run

    def drop_before(self, offset: int) -> None:
        index = self._index(offset)
        if index < 0:
            return
        if self._runs[index].last < offset:
            index += 1
        else:
            self._runs[index].first = max(self._runs[index].first, offset)
        del self._runs[:index]

    def join(self, first: int, last: int) -> None:
        """Neighbours of which the same is true become one, from `first` - 1 to `last` + 1."""
        index = max(self._index(first - 1), 0)
        runs = self._runs
        while index + 1 < len(runs) and runs[index].first <= last:
            run, following = runs[index], runs[index + 1]
            if run.is_like(following):
                run.last = following.last
                del runs[index + 1]
            else:
                index += 1

    def _index(self, offset: int) -> int:
        return bisect_right(self._runs, offset, key=_first) - 1


def _first(run: Run) -> int:
    return run.first


def _part(run: Run, first: int, last: int) -> Run:
    part = Run(first, last, run.state, run.delivery_count, run.member_id, run.lock_until_ms)
    part.pending = run.pending
    return part
