"""Who leads what and who follows whom, as the committed metadata has it.

Owns: the role of every partition on this broker, the fetchers, the regular look at who lags.
Must not know: what a fetch does (`fetcher`, `following`), the arithmetic of the ISR (`in_sync`),
request formats. Spec: Kafka's ReplicaManager.applyDelta.

Invariants: a partition is led, or about to be (its new epoch is on its way to the disk), or
followed at exactly one fetcher, or waits without a leader; a
role changes with the leader epoch, and only by a committed record; nothing of an older epoch stays.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock, Timers
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.broker.replication.fetcher import Fetcher, FetcherSettings
from headrace.broker.replication.following import Following
from headrace.broker.replication.in_sync import InSync, Proposal
from headrace.broker.replication.isr_proposals import AskController, IsrProposals
from headrace.broker.replication.throttle import ReplicationThrottle
from headrace.cluster.image import ClusterImage, PartitionImage
from headrace.quorum.peers import Peers

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

Key = tuple[bytes, int]
NO_LEADER = -1
COMMIT_LOOK_MS = 100
"""How often producers that wait for replicas are looked at for their time-outs."""


class _Trim(NamedTuple):
    """A DeleteRecords that waits until every living replica's log starts at `offset`."""

    partition: "Partition"
    offset: int
    deadline_ms: int
    promise: "Promise[int]"


class Replication:
    def __init__(
        self,
        *,
        me: int,
        broker_epoch: Callable[[], int],
        config: BrokerConfig,
        image: Callable[[], ClusterImage],
        controller: AskController,
        peers: Peers,
        clock: Clock,
        timers: Timers,
        events: EventLog,
        on_role: "Callable[[Partition, bool], None]",
    ) -> None:
        """`on_role`: we begin to lead a partition in a new epoch (True), or lead it no more."""
        self._me = me
        self._broker_epoch = broker_epoch
        self._config = config
        self._image = image
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._events = events
        self._on_role = on_role
        self._proposals = IsrProposals(me, broker_epoch, controller, timers, events)
        self._fetchers: dict[int, Fetcher] = {}
        self._followed_at: dict[Key, int] = {}
        """The leader at whose fetcher a partition is."""
        self._led: dict[Key, Partition] = {}
        """Those with other replicas."""
        self._beginning: dict[Key, PartitionImage] = {}
        """Those that we shall lead, as last described."""
        self._unheard: dict[Key, Partition] = {}
        """Led, and not yet fetched from by all that are in sync."""
        self._trims: list[_Trim] = []
        self._lag_looked_ms = 0
        self._is_closed = False
        self._closed_bytes = 0
        self._closed_failures = 0
        self._closed_fetches = 0
        """Of fetchers that are gone."""
        self.isr_shrinks = 0
        """Changes of ISRs led here that the controller decided, not those that were proposed."""
        self.isr_expands = 0
        window = (
            me,
            int(config["replication.quota.window.size.seconds"]) * 1000,
            int(config["replication.quota.window.num"]),
        )
        self.leader_throttle = ReplicationThrottle(*window)
        self.follower_throttle = ReplicationThrottle(*window)
        self.take_settings()

    def take_settings(self) -> None:
        """Those that may change while the broker runs."""
        self.leader_throttle.set(int(self._config["leader.replication.throttled.rate"]))
        self.follower_throttle.set(int(self._config["follower.replication.throttled.rate"]))

    # -- roles ---------------------------------------------------------------------------------

    def on_described(self, partition: "Partition", described: PartitionImage) -> None:
        """The metadata has something new of a partition that this broker holds."""
        key = (partition.topic_id, partition.index)
        if described.leader == self._me:
            self._lead(key, partition, described)
        else:
            self._follow(key, partition, described)

    def on_gone(self, partition: "Partition") -> None:
        """Deleted, moved away, or out of service."""
        key = (partition.topic_id, partition.index)
        self._stop_following(key)
        self._led.pop(key, None)
        self._beginning.pop(key, None)
        self._on_role(partition, False)

    def _lead(self, key: Key, partition: "Partition", described: PartitionImage) -> None:
        self._stop_following(key)
        in_sync = partition.in_sync
        is_same_epoch = partition.is_leader and partition.leader_epoch == described.leader_epoch
        beginning = self._beginning.get(key)
        if beginning is not None and beginning.leader_epoch == described.leader_epoch:
            self._beginning[key] = described
            return
        if len(described.replicas) == 1:
            self._beginning.pop(key, None)
            self._led.pop(key, None)
            if not is_same_epoch or in_sync is not None:
                partition.lead(described.leader_epoch, None)
                self._on_role(partition, True)
            return
        if is_same_epoch and in_sync is not None:
            in_sync.on_replicas(described.replicas)
            if in_sync.on_decided(described.isr, described.partition_epoch):
                partition.advance_high_watermark()
            return
        if partition.is_leader and in_sync is not None:
            self._led.pop(key, None)
            self._on_role(partition, False)
        partition.follow(described.leader_epoch)
        self._beginning[key] = described
        partition.begin_epoch(
            described.leader_epoch,
            lambda: self._on_begun(key, partition, described.leader_epoch),
        )

    def _on_begun(self, key: Key, partition: "Partition", leader_epoch: int) -> None:
        """The epoch is on disk: now we lead, unless the metadata thought better of it."""
        described = self._beginning.get(key)
        if described is None or described.leader_epoch != leader_epoch or self._is_closed:
            return
        del self._beginning[key]
        self._led[key] = partition
        partition.lead(
            described.leader_epoch,
            InSync(
                self._me,
                self._broker_epoch(),
                described.replicas,
                described.isr,
                described.leader_epoch,
                described.partition_epoch,
                partition.log.log_end_offset,
                int(self._config["replica.lag.time.max.ms"]),
                self._clock.monotonic_ms(),
                self._may_join,
                self._on_isr_changed,
            ),
        )
        self._on_role(partition, True)
        if not self._unheard:
            self._timers.call_soon(self._call_followers)
        self._unheard[key] = partition

    def _call_followers(self) -> None:
        """A follower whose fetch waits here asks for what we led before. Answered now, it comes
        back with what we lead since; else writers wait as long as a fetch may."""
        self._unheard = {
            key: partition
            for key, partition in self._unheard.items()
            if self._led.get(key) is partition
            and partition.in_sync is not None
            and not partition.in_sync.is_all_heard
        }
        if self._unheard:
            for partition in self._led.values():
                partition.answer_followers()

    def _follow(self, key: Key, partition: "Partition", described: PartitionImage) -> None:
        self._led.pop(key, None)
        self._beginning.pop(key, None)
        leader, epoch = described.leader, described.leader_epoch
        if partition.is_leader or partition.leader_epoch != epoch:
            partition.follow(epoch)
            self._on_role(partition, False)
            self._stop_following(key)
        if leader == NO_LEADER or partition.error or self._is_closed:
            return
        if self._followed_at.get(key) != leader:
            self._stop_following(key)
            self._followed_at[key] = leader
            partition.is_following = True
            self._fetcher(leader).add(Following(partition, epoch))

    def _stop_following(self, key: Key) -> None:
        leader = self._followed_at.pop(key, None)
        if leader is None:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            return  # it had given this one up by itself, and went with the last of the others
        fetcher.remove(key)
        if not len(fetcher):
            fetcher.close()
            del self._fetchers[leader]
            self._closed_bytes += fetcher.bytes_fetched
            self._closed_failures += fetcher.failure_count
            self._closed_fetches += fetcher.fetch_count

    def _fetcher(self, leader: int) -> Fetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = Fetcher(
                leader,
                self._me,
                self._broker_epoch,
                self._peers,
                self._fetcher_settings(),
                self._clock,
                self._timers,
                self._events,
                self.follower_throttle,
            )
        return fetcher

    def _fetcher_settings(self) -> FetcherSettings:
        config = self._config
        return FetcherSettings(
            max_wait_ms=int(config["replica.fetch.wait.max.ms"]),
            min_bytes=int(config["replica.fetch.min.bytes"]),
            partition_bytes_max=int(config["replica.fetch.max.bytes"]),
            response_bytes_max=int(config["replica.fetch.response.max.bytes"]),
            backoff_ms=int(config["replica.fetch.backoff.ms"]),
        )

    # -- leading -------------------------------------------------------------------------------

    def on_fetched(
        self,
        partition: "Partition",
        replica: int,
        epoch: int,
        offset: int,
        log_start_offset: int,
        now_ms: int,
    ) -> None:
        """A follower asks from `offset` on: it has all before, from `log_start_offset` on."""
        in_sync = partition.in_sync
        if in_sync is None:
            return
        end_offset = partition.log.log_end_offset
        if offset > end_offset or not in_sync.on_fetch(
            replica, epoch, offset, log_start_offset, end_offset, now_ms
        ):
            return
        if self._trims:
            self._look_at_trims(partition)
        partition.advance_high_watermark()
        if replica not in in_sync.isr:
            proposal = in_sync.maybe_expand(replica, partition.high_watermark)
            if proposal is not None:
                self._propose(partition, proposal)

    def trimmed(self, partition: "Partition", offset: int, timeout_ms: int) -> "Promise[int]":
        """The low watermark once all living replicas start at `offset` or behind it; before that,
        when time is up, or we lead no more, whatever it is."""
        promise: Promise[int] = Promise()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._trims.append(_Trim(partition, offset, deadline_ms, promise))
        self._look_at_trims(partition)
        return promise

    def _look_at_trims(self, partition: "Partition") -> None:
        self._settle_trims(
            lambda one: one.partition is partition and partition.low_watermark >= one.offset
        )

    def _expire_trims(self, now_ms: int) -> None:
        if self._trims:
            self._settle_trims(
                lambda one: (
                    one.deadline_ms <= now_ms
                    or bool(one.partition.refusal)
                    or one.partition.low_watermark >= one.offset
                )
            )

    def _settle_trims(self, is_done: "Callable[[_Trim], bool]") -> None:
        done = [one for one in self._trims if is_done(one)]
        if done:
            self._trims = [one for one in self._trims if one not in done]
            for one in done:
                one.promise.resolve(one.partition.low_watermark)

    def _may_join(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return broker_epoch == broker.broker_epoch

    def tick(self) -> None:
        """Every `COMMIT_LOOK_MS`: time-outs of producers, followers that have not come yet; now
        and then, who lags."""
        now_ms = self._clock.monotonic_ms()
        led = list(self._led.values())
        for partition in led:
            partition.on_time(now_ms)
        self._expire_trims(now_ms)
        if self._unheard:
            self._call_followers()
        if now_ms - self._lag_looked_ms < int(self._config["replica.lag.time.max.ms"]) // 2:
            return
        self._lag_looked_ms = now_ms
        for partition in led:
            self._look_at_lag(partition, now_ms)

    def _look_at_lag(self, partition: "Partition", now_ms: int) -> None:
        in_sync = partition.in_sync
        if in_sync is None or partition.error:
            return
        proposal = in_sync.maybe_shrink(partition.log.log_end_offset, now_ms)
        if proposal is not None:
            self._propose(partition, proposal)

    def _propose(self, partition: "Partition", proposal: Proposal) -> None:
        key = (partition.topic_id, partition.index)
        self._proposals.propose(key, partition, proposal)

    def _on_isr_changed(self, left: int, joined: int) -> None:
        self.isr_shrinks += left > 0
        self.isr_expands += joined > 0

    # -- what can be seen ----------------------------------------------------------------------

    @property
    def led(self) -> "list[Partition]":
        return list(self._led.values())

    def under_replicated(self) -> int:
        return sum(
            len(partition.in_sync.isr) < len(partition.in_sync.followers) + 1
            for partition in self._led.values()
            if partition.in_sync is not None
        )

    def under_min_isr(self) -> int:
        return sum(
            len(partition.in_sync.isr) < partition.isr_count_min
            for partition in self._led.values()
            if partition.in_sync is not None
        )

    @property
    def fetchers(self) -> list[Fetcher]:
        return list(self._fetchers.values())

    @property
    def bytes_fetched(self) -> int:
        return self._closed_bytes + sum(one.bytes_fetched for one in self._fetchers.values())

    @property
    def fetch_failures(self) -> int:
        return self._closed_failures + sum(one.failure_count for one in self._fetchers.values())

    @property
    def fetch_count(self) -> int:
        return self._closed_fetches + sum(one.fetch_count for one in self._fetchers.values())

    def lags(self) -> "list[tuple[int, Partition]]":
        """The followed partitions that lack committed records, and how many; the most first."""
        lags = [lag for fetcher in self._fetchers.values() for lag in fetcher.lags()]
        lags.sort(key=lambda lag: (-lag[0], lag[1].topic, lag[1].index))
        return lags

    def close(self) -> None:
        self._is_closed = True
        self._proposals.close()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._followed_at.clear()
