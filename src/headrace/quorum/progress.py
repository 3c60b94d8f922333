"""How far each replica has come, and what follows for the majority.

Owns: the leader's knowledge of replicas, and the arithmetic of majorities. Must not know:
messages, or when a leader asks.
Spec: Raft 5.3 and 5.4.2 as KRaft has them: a fetch at offset n says that everything before n is
durable there.

Invariants: what a majority has is judged over the voters alone, each counted once by its key.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.voters import VoterSet


@dataclass(slots=True)
class Progress:
    """Of one replica, as its fetches tell. Times are the core's."""

    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


def majority_value(values: Iterable[int]) -> int:
    """The largest value that a majority of voters has reached."""
    ordered = sorted(values, reverse=True)
    return ordered[len(ordered) // 2]


class ProgressTable:
    """Every replica that has fetched in this epoch, voter or not."""

    __slots__ = ("_began_ms", "_observers_max", "_replicas")

    def __init__(self, began_ms: int, observers_max: int) -> None:
        self._began_ms = began_ms
        self._observers_max = observers_max
        self._replicas: dict[ReplicaKey, Progress] = {}

    def of(self, key: ReplicaKey) -> Progress:
        """A replica that never fetched counts as heard of when the epoch began."""
        return self._replicas.get(key) or Progress(last_fetch_ms=self._began_ms)

    def has_fetched(self, key: ReplicaKey) -> bool:
        return key in self._replicas

    def observers(self, voters: VoterSet, since_ms: int = -1) -> list[ReplicaKey]:
        """Those that have fetched since then."""
        return [
            key
            for key, progress in self._replicas.items()
            if key not in voters and progress.last_fetch_ms >= since_ms
        ]

    def on_contact(self, key: ReplicaKey, voters: VoterSet, now_ms: int) -> Progress:
        """The replica asked us something that only a follower asks."""
        progress = self._replicas.get(key)
        if progress is None:
            self._make_room(voters)
            progress = self._replicas[key] = Progress()
        progress.last_fetch_ms = now_ms
        return progress

    def _make_room(self, voters: VoterSet) -> None:
        observers = self.observers(voters)
        if len(observers) >= self._observers_max:
            oldest = min(observers, key=lambda key: self._replicas[key].last_fetch_ms)
            del self._replicas[oldest]

    def durable_on_majority(self, voters: VoterSet, own_key: ReplicaKey, own_end: int) -> int:
        """The offset before which a majority of voters has synced everything."""
        return majority_value(
            own_end if key == own_key else self.of(key).end_offset for key in voters.keys
        )

    def majority_heard_ms(self, voters: VoterSet, own_key: ReplicaKey, now_ms: int) -> int:
        """Since when a majority, ourselves included if we vote, has not been silent."""
        return majority_value(
            now_ms if key == own_key else self.of(key).last_fetch_ms for key in voters.keys
        )
