"""What a replica of a quorum is told once: who it is, and how long it waits for what.

Owns: the identity and the time-outs, with their defaults. Must not know: where they come from
(`controller.quorum.*` in a configuration file, a simulator's seed).

Invariants: a leader that hears from no majority for `fetch_timeout_ms` resigns, and a follower
waits at least that long before it asks for votes; so an old leader is gone before a new one is
looked for, drifting clocks aside. A fetch is answered within `fetch_max_wait_ms`, well before
either of them.
"""

from dataclasses import dataclass

from headrace.base.limits import MIB
from headrace.quorum.election_state import ReplicaKey


@dataclass(frozen=True, slots=True)
class Identity:
    """One replica of one quorum. The directory id is new whenever its disk is."""

    cluster_id: str
    topic_name: str
    topic_id: bytes
    node_id: int
    directory_id: bytes

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    election_timeout_ms: int = 500
    """Each election waits this long and up to as much again, by the dice."""
    fetch_timeout_ms: int = 1_000
    fetch_max_wait_ms: int = 250
    request_timeout_ms: int = 500
    """A request without an answer is sent again; longer than `fetch_max_wait_ms`."""
    retry_backoff_ms: int = 20
    fetch_bytes_max: int = MIB
    """What one fetch brings is replayed in one go: more would hold the loop for longer."""
    snapshot_chunk_bytes_max: int = MIB
    observers_max: int = 1_000
    """Replicas besides the voters whose progress the leader remembers."""
    snapshots_kept: int = 2

    def __post_init__(self) -> None:
        assert self.fetch_max_wait_ms < self.request_timeout_ms <= self.fetch_timeout_ms
        assert self.election_timeout_ms > 0
        assert self.snapshots_kept >= 1
