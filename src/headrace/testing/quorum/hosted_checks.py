"""What must hold of hosts over a quorum, checked as it happens and at the end.

Owns: the one history of committed decisions, and what clients were told. Must not know: Raft.

H1   at equal offsets all nodes hold the same committed state, through snapshots and restarts too
H2   a decision that was answered is in the history, exactly once, where its answer says
H3   a decision that was refused before it was proposed is not in the history
H4   an answered read tells of a prefix of the history: no record in it is ever lost (R8)
H5   decisions build on each other without a gap: a stale leader's write is nowhere; no node finds
     a reason to stop
H6   what any crash leaves on a disk can be started from
L    after the last fault somebody decides, and all nodes come to agree
"""

from collections.abc import Sequence

from headrace.testing.quorum.hosted_node import Counted
from headrace.testing.quorum.violation import Violation


class HostedChecks:
    def __init__(self) -> None:
        self.history: list[int] = []
        """Decision ids in their committed order."""
        self._value_at: dict[int, int] = {}
        """By last offset: the counter's value."""
        self._answered: dict[int, int] = {}
        self._reads: list[list[int]] = []
        self.refused_ids: set[int] = set()
        self.lost_count = 0
        """Decisions whose outcome stayed open."""

    def on_committed(
        self, node_id: int, decision_ids: list[int], records: Sequence[Counted], last_offset: int
    ) -> None:
        """`decision_ids`: what the node's state holds, up to the records it was told of last."""
        value = len(decision_ids)
        known = self._value_at.setdefault(last_offset, value)
        if known != value:
            raise Violation("H1", f"{node_id} has {value} at {last_offset}, others had {known}")
        self.history += decision_ids[len(self.history) :]
        if records and records[-1].decision_id != self.history[value - 1]:
            raise Violation("H1", f"{node_id} differs from the history at value {value}")
        if decision_ids[-20:] != self.history[max(0, value - 20) : value]:
            raise Violation("H1", f"{node_id} has another past at value {value}")

    def on_answered(self, decision_id: int, value: int) -> None:
        if self.history[value - 1 : value] != [decision_id]:
            raise Violation("H2", f"{decision_id} is answered with {value} and is not there")
        self._answered[decision_id] = value

    def on_read(self, decision_ids: list[int]) -> None:
        if self.history[: len(decision_ids)] != decision_ids:
            raise Violation("H4", f"a read of {len(decision_ids)} decisions tells of others")
        self._reads.append(decision_ids)

    @property
    def answered_count(self) -> int:
        return len(self._answered)

    @property
    def read_count(self) -> int:
        return len(self._reads)

    def check_end(self, states: Sequence[list[int]]) -> None:
        """All nodes have come to rest."""
        history = self.history
        if len(set(history)) != len(history):
            raise Violation("H2", "a decision is in the history twice")
        for decision_ids in states:
            if decision_ids != history:
                raise Violation("H1", f"a node ends with {len(decision_ids)} of {len(history)}")
        for decision_id, value in self._answered.items():
            if history[value - 1 : value] != [decision_id]:
                raise Violation("H2", f"{decision_id} was answered and is gone")
        refused = self.refused_ids.intersection(history)
        if refused:
            raise Violation("H3", f"{sorted(refused)} were refused and are there")
        for decision_ids in self._reads:
            if history[: len(decision_ids)] != decision_ids:
                raise Violation("H4", f"a read told of {len(decision_ids)} decisions, not of these")
