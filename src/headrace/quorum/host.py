"""The decide/replay host: a state machine kept by a replicated log.

Owns: the committed state, the leading state, the order of decisions, and when an answer may leave.
Must not know: what the records mean (a codec and a state are handed in), topics, sockets.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from headrace.base.clock import Clock, Timers
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.quorum.replica import Replica
from headrace.quorum.state_machine import RecordCodec, S

T = TypeVar("T")
Decide = Callable[[S], tuple[Sequence[Any], T]]


class Host(Generic[S]):
    committed: S
    """The fold of the committed log, on every node. Others only read it."""
    state: S
    """Only while active: `committed` and all that was appended since."""
    is_active: bool
    """Leads, and the first entry of its own epoch is committed."""
    on_committed: Callable[[Sequence[Any], int], None]
    """After the records were replayed into `committed`, with the last offset. A snapshot, or a
    history that is found at start, comes as one call."""
    on_active: Callable[[int], None]
    """With the epoch."""
    on_inactive: Callable[[], None]
    on_leader_change: Callable[[int, int], None]
    """With the leader's id (-1: not known) and the epoch."""

    def __init__(
        self,
        replica: Replica,
        new_state: Callable[[], S],
        codec: RecordCodec,
        clock: Clock,
        timers: Timers,
        events: EventLog,
    ) -> None:
        """The four `on_…` do nothing until they are set."""
        raise NotImplementedError

    def start(self) -> None:
        """Load the newest snapshot into `committed`, then start the replica."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def leader_id(self) -> int:
        raise NotImplementedError

    @property
    def high_watermark(self) -> int:
        raise NotImplementedError

    def submit(self, decide: "Decide[S, T]", *, hold: bool = False) -> Promise[T]:
        """Decide now; the promise holds the response once all that it tells of is committed.

        Rejects with NotLeader when not active, or when leadership is lost before the answer may
        leave. A decide that raises changes nothing and rejects the promise. With `hold` the sync
        is left to the decision that surely follows.
        """
        raise NotImplementedError
