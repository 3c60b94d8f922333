"""The driver of a replica: the Raft core, its log, its election state and its snapshots, running.

Owns: acting on what the core asks for, in the order that `events` demands. Must not know: what
is in an entry, who decides, sockets (`peers`), files other than through `Storage`.
"""

from collections.abc import Callable, Sequence

from headrace.base.clock import Clock, Timers
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.base.storage import Storage
from headrace.log.partition_log import PartitionLog
from headrace.quorum.events import Proposed
from headrace.quorum.peers import Peers
from headrace.quorum.settings import Identity, QuorumSettings
from headrace.quorum.voters import Endpoint, VoterSet
from headrace.wire.kafka.message import Message


class Replica:
    """One replica of one quorum. `Host` stands on it; nodes hand it requests of its listener."""

    @classmethod
    def open(
        cls,
        *,
        identity: Identity,
        settings: QuorumSettings,
        log: PartitionLog,
        storage: Storage,
        clock: Clock,
        timers: Timers,
        random: Random,
        peers: Peers,
        initial_voters: VoterSet,
        bootstrap_ids: Sequence[int],
        listener: Endpoint,
        events: EventLog,
        on_fatal: Callable[[BaseException], None],
    ) -> "Replica":
        """From what is on disk. `initial_voters` hold until the log or a snapshot (such as the one
        that formatting writes) says otherwise. `listener` is our own: its name picks endpoints."""
        raise NotImplementedError

    def start(self) -> None:
        """Take part. The host calls it once it has loaded."""
        raise NotImplementedError

    def handle(self, request: Message, api_version: int) -> Promise[Message]:
        """A request of the quorum's listener: Vote, Begin/EndQuorumEpoch, Fetch, FetchSnapshot,
        DescribeQuorum, Add/Remove/UpdateRaftVoter."""
        raise NotImplementedError

    def propose(self, batch: bytearray, epoch: int, *, hold: bool = False) -> Proposed:
        raise NotImplementedError

    def resign(self) -> None:
        """Lead no more, before a stop."""
        raise NotImplementedError

    def close(self) -> None:
        """The end; the log is synced and stays the caller's to close."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def leader_id(self) -> int:
        """-1: not known."""
        raise NotImplementedError

    @property
    def is_leader(self) -> bool:
        raise NotImplementedError

    @property
    def high_watermark(self) -> int:
        raise NotImplementedError

    def endpoint_of(self, node_id: int) -> tuple[str, int] | None:
        """Where a node's listener of this quorum is, by the voter set or as others told."""
        raise NotImplementedError
