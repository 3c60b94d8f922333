"""What a leader knows of its followers: how far each is, who is in sync, what all of them have.

Owns: the followers' progress, the in-sync replicas as the metadata has them and as they are being
proposed, and the arithmetic of the high watermark. Must not know: logs, requests, who answers a
proposal. Spec: Kafka's Partition and Replica; KIP-497 (the controller decides), KIP-841 (fenced
brokers stay out), KIP-903 (a broker that came back empty is another one), KIP-966.

    committed   the ISR of the metadata
    proposed    what the controller has been asked for, until it answers
    maximal     both together: nobody in it may lack what the high watermark covers

Invariants: the high watermark is at or below the log end offset of every member of the maximal
ISR; one proposal is open at a time; a follower joins only with everything below the high watermark
and from the start of this leader's epoch on (KAFKA-7128).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1

OnIsrChanged = Callable[[int, int], None]
"""How many replicas left the ISR, and how many joined it, by the controller's word."""


@dataclass(slots=True)
class Follower:
    """One follower as its fetches show it: a fetch offset is an acknowledgement."""

    broker_id: int
    broker_epoch: int = UNKNOWN_EPOCH
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = 0
    """The last time at which it had all that the leader had then."""
    fetched_ms: int = 0
    leader_end_offset: int = 0
    """The leader's end at the fetch before."""

    def on_fetch(
        self, broker_epoch: int, offset: int, log_start_offset: int, leader_end: int, now_ms: int
    ) -> None:
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            # It has now what the leader had at its last fetch.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.broker_epoch = broker_epoch
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = leader_end
        self.fetched_ms = now_ms

    def is_behind(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        return self.log_end_offset != leader_end and now_ms - self.caught_up_ms > lag_ms_max


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR to be asked of the controller, with the epochs of the brokers as they fetched."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class InSync:
    __slots__ = (
        "_broker_epoch",
        "_lag_ms_max",
        "_leader_epoch",
        "_may_join",
        "_me",
        "_on_changed",
        "_proposed",
        "epoch_start_offset",
        "followers",
        "isr",
        "now_ms",
        "partition_epoch",
    )

    def __init__(
        self,
        me: int,
        broker_epoch: int,
        replicas: Iterable[int],
        isr: tuple[int, ...],
        leader_epoch: int,
        partition_epoch: int,
        epoch_start_offset: int,
        lag_ms_max: int,
        now_ms: int,
        may_join: Callable[[int, int], bool] = lambda _id, _broker_epoch: True,
        on_changed: OnIsrChanged = lambda _left, _joined: None,
    ) -> None:
        """`may_join(id, broker epoch)`: alive, not fenced, the same life as the metadata's."""
        self._me = me
        self._may_join = may_join
        self._on_changed = on_changed
        self._broker_epoch = broker_epoch
        self._leader_epoch = leader_epoch
        self.epoch_start_offset = epoch_start_offset
        """Where our log ended when we began to lead."""
        self._lag_ms_max = lag_ms_max
        self._proposed: tuple[int, ...] | None = None
        self.now_ms = now_ms
        """As of the last fetch or the last tick."""
        self.isr = isr
        self.partition_epoch = partition_epoch
        # A new leader has heard of nobody: members of the ISR get the whole lag time to show up.
        self.followers = {
            replica: Follower(replica, caught_up_ms=now_ms if replica in isr else -(10**12))
            for replica in replicas
            if replica != me
        }

    # -- what is known -------------------------------------------------------------------------

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.isr).union(self._proposed or ())

    @property
    def is_all_heard(self) -> bool:
        """Whether every other member of the ISR has fetched since we lead."""
        known = (self.followers.get(each) for each in self.isr)
        return all(each is None or each.log_end_offset != UNKNOWN_OFFSET for each in known)

    @property
    def is_proposing(self) -> bool:
        return self._proposed is not None

    def on_fetch(
        self,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        now_ms: int,
    ) -> bool:
        """False if it is no replica of this partition, or an older life of one."""
        follower = self.followers.get(broker_id)
        if follower is None or -1 < broker_epoch < follower.broker_epoch:
            return False
        self.now_ms = now_ms
        follower.on_fetch(broker_epoch, offset, log_start_offset, leader_end, now_ms)
        return True

    def high_watermark(self, current: int, leader_end: int, isr_count_min: int) -> int:
        """What all that count have; never below `current`.

        Besides the maximal ISR a follower that is about to join counts: otherwise a busy leader
        would stay ahead of it for ever. Not one that may not join: a broker that was just fenced
        was in sync a moment ago, and would hold all writers up for the whole lag time. Below
        `isr_count_min` nothing new is committed (KIP-966): else the last replicas that may lead
        could miss it.
        """
        if len(self.isr) < isr_count_min:
            return current
        members = self.maximal_isr
        reached = leader_end
        for follower in self.followers.values():
            counts = follower.broker_id in members or (
                follower.log_end_offset >= self.epoch_start_offset
                and not follower.is_behind(leader_end, self.now_ms, self._lag_ms_max)
                and self._may_join(follower.broker_id, follower.broker_epoch)
            )
            if counts and follower.log_end_offset < reached:
                reached = follower.log_end_offset
        return max(reached, current)

    # -- proposals -----------------------------------------------------------------------------

    def maybe_expand(self, broker_id: int, high_watermark: int) -> Proposal | None:
        follower = self.followers.get(broker_id)
        if follower is None or self.is_proposing or broker_id in self.isr:
            return None
        has_all = follower.log_end_offset >= max(high_watermark, self.epoch_start_offset)
        if not has_all or not self._may_join(broker_id, follower.broker_epoch):
            return None
        return self._propose((*self.isr, broker_id))

    def on_time(self, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start of the leader and of all followers that live."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if follower.broker_id in self.isr
            or self._may_join(follower.broker_id, follower.broker_epoch)
        ]
        return min([log_start_offset, *starts])

    def maybe_shrink(self, leader_end: int, now_ms: int) -> Proposal | None:
        self.on_time(now_ms)
        if self.is_proposing:
            return None
        left = tuple(
            broker_id
            for broker_id in self.isr
            if broker_id == self._me
            or (
                broker_id in self.followers
                and not self.followers[broker_id].is_behind(leader_end, now_ms, self._lag_ms_max)
            )
        )
        return self._propose(left) if len(left) < len(self.isr) else None

    def _propose(self, isr: tuple[int, ...]) -> Proposal:
        self._proposed = isr
        return Proposal(
            isr,
            tuple(self._epoch_of(broker_id) for broker_id in isr),
            self._leader_epoch,
            self.partition_epoch,
        )

    def _epoch_of(self, broker_id: int) -> int:
        if broker_id == self._me:
            return self._broker_epoch
        return self.followers[broker_id].broker_epoch

    def on_refused(self, proposal: Proposal) -> None:
        """The controller said no, and nothing changed there."""
        if self._proposed == proposal.isr and proposal.partition_epoch == self.partition_epoch:
            self._proposed = None

    def on_decided(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """By an answer or by the metadata, whichever comes first. False if it is old news."""
        if partition_epoch <= self.partition_epoch:
            return False
        # Who is no replica any more was moved away, and did not fall behind.
        left = [each for each in self.isr if each not in isr and each in self.followers]
        for replica in left:
            # Its directory failed, say, and its broker lives: it counts when it fetches again.
            self.followers[replica].caught_up_ms = -(10**12)
        joined = len(set(isr).difference(self.isr))
        self.isr = isr
        self.partition_epoch = partition_epoch
        self._proposed = None
        self._on_changed(len(left), joined)
        return True

    def on_replicas(self, replicas: Iterable[int]) -> None:
        """A reassignment: new replicas have shown nothing yet, old ones are forgotten."""
        known = self.followers
        self.followers = {
            replica: known.get(replica) or Follower(replica, caught_up_ms=-(10**12))
            for replica in replicas
            if replica != self._me
        }
