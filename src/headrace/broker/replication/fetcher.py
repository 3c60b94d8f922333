"""The fetcher of one leader: all partitions that we follow there, one request under way.

Owns: the fetch session with that leader (KIP-227), back-offs, the order of requests.
Must not know: sockets (`Peers` does), what an answer does to a log (`following`).

A fetch at our end is the acknowledgement of all before it, so the next request leaves as soon as an
answer is on disk: the leader holds it until there is something new.

Invariants: at most one request is under way; a partition is in the session exactly as it was last
sent; after an answer that is lost or out of order the session begins anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.events import EventLog
from headrace.broker.replication.following import Following, Next, Position
from headrace.broker.replication.throttle import ReplicationThrottle
from headrace.quorum.peers import Peers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

Key = tuple[bytes, int]
_EARLIEST, _LATEST = -2, -1
_SESSION_EPOCH_MAX = 2**31 - 1
_BACKOFF_MS_MIN = 20
"""Of the first pause; each further one in a row is twice as long, up to the configured one. Just
after an election the leader is behind with the metadata for some milliseconds, and writers wait."""
_PAUSES_MAX = 20
_LOST_SESSION = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    max_wait_ms: int = 500
    min_bytes: int = 1
    partition_bytes_max: int = 1_048_576
    response_bytes_max: int = 10_485_760
    backoff_ms: int = 1_000


class Fetcher:
    def __init__(
        self,
        leader_id: int,
        me: int,
        broker_epoch: Callable[[], int],
        peers: Peers,
        settings: FetcherSettings,
        clock: Clock,
        timers: Timers,
        events: EventLog,
        throttle: ReplicationThrottle,
    ) -> None:
        """`throttle` is that of all fetchers of this broker."""
        self.leader_id = leader_id
        self._me = me
        self._broker_epoch = broker_epoch
        self._peers = peers
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._events = events
        self._throttle = throttle
        self._followed: dict[Key, Following] = {}
        self._session: dict[Key, Position] = {}
        """What the leader's session holds."""
        self._session_id = 0
        self._session_epoch = 0
        self._is_asking = False
        self._is_closed = False
        self._wake: Timer | None = None
        self.bytes_fetched = 0
        self.fetch_count = 0
        """Answers of the leader that were no failure."""
        self.failure_count = 0

    # -- partitions ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, following: Following) -> None:
        self._followed[following.key] = following
        self._maybe_ask()

    def remove(self, key: Key) -> None:
        self._followed.pop(key, None)

    def lags(self) -> "list[tuple[int, Partition]]":
        """Those that lack records which are committed, as far as the leader told."""
        lags = ((each.lag_records, each.partition) for each in self._followed.values())
        return [lag for lag in lags if lag[0]]

    def close(self) -> None:
        self._is_closed = True
        self._followed.clear()
        self._cancel_wake()

    # -- asking --------------------------------------------------------------------------------

    def _maybe_ask(self) -> None:
        if self._is_asking or self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        if self._throttle.is_set:
            self._hold_back(now_ms)
        due = {
            key: following.position
            for key, following in self._followed.items()
            if following.retry_at_ms <= now_ms
        }
        if not due:
            self._wake_for_next(now_ms)
            return
        self._is_asking = True
        request = self._request(due)
        self._peers.send(
            self.leader_id,
            request,
            lambda response, _refused: self._on_answer(response, due),
        )

    def _hold_back(self, now_ms: int) -> None:
        """Throttled replicas that are out of sync wait until the rate is kept again."""
        pause_ms = self._throttle.pause_ms(now_ms)
        if not pause_ms:
            return
        for following in self._followed.values():
            if following.is_in_sync or not self._is_throttled(following):
                continue
            if following.retry_at_ms <= now_ms:
                following.retry_at_ms = now_ms + pause_ms
                self._throttle.held_count += 1

    def _is_throttled(self, following: Following) -> bool:
        replicas = following.partition.config.follower_replication_throttled_replicas
        return self._throttle.names(replicas, following.partition.index)

    def _request(self, due: dict[Key, Position]) -> FetchRequest:
        changed = {key: at for key, at in due.items() if self._session.get(key) != at}
        gone = [key for key in self._session if key not in due]
        self._session = dict(due)
        settings = self._settings
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._me, replica_epoch=self._broker_epoch()),
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            current_leader_epoch=at.leader_epoch,
                            fetch_offset=at.fetch_offset,
                            last_fetched_epoch=at.last_fetched_epoch,
                            log_start_offset=at.log_start_offset,
                            partition_max_bytes=settings.partition_bytes_max,
                        )
                        for index, at in partitions
                    ],
                )
                for topic_id, partitions in _by_topic(changed.items())
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[index for index, _ in partitions])
                for topic_id, partitions in _by_topic((key, None) for key in gone)
            ],
        )

    # -- answers -------------------------------------------------------------------------------

    def _on_answer(self, response: Message | None, asked: dict[Key, Position]) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        if not isinstance(response, FetchResponse):
            self._on_failure()
            return
        error = ErrorCode.of(response.error_code)
        if error:
            self._forget_session()
            if error not in _LOST_SESSION:
                self._on_failure()
                return
        else:
            self.fetch_count += 1
            self._session_id = response.session_id
            self._session_epoch = self._session_epoch % _SESSION_EPOCH_MAX + 1
            if not response.session_id:
                self._forget_session()
            is_all_heard = True
            for topic in response.responses:
                for data in topic.partitions:
                    key = (bytes(topic.topic_id), data.partition_index)
                    is_all_heard &= self._on_partition_safely(key, data, asked)
            if not is_all_heard:
                # The leader believes that we know what we did not listen to.
                self._forget_session()
        self._maybe_ask()

    def _on_partition_safely(
        self, key: Key, data: PartitionData, asked: dict[Key, Position]
    ) -> bool:
        """A mistake over one partition must not end the fetching of all others (KAFKA-4384)."""
        try:
            return self._on_partition(key, data, asked)
        except Exception as error:
            self.failure_count += 1
            following = self._followed.get(key)
            if following is not None:
                following.retry_at_ms = self._clock.monotonic_ms() + self._settings.backoff_ms
            self._events.error(
                "fetch_answer_failed",
                partition=key[1] if following is None else following.partition.name,
                leader=self.leader_id,
                error=repr(error),
            )
            return False

    def _on_partition(self, key: Key, data: PartitionData, asked: dict[Key, Position]) -> bool:
        """False if the answer is to an older question than we would ask now."""
        following = self._followed.get(key)
        at = asked.get(key)
        if following is None or at is None or at != following.position:
            return False
        if data.records is not None:
            self.bytes_fetched += len(data.records)
            if self._throttle.is_set and self._is_throttled(following):
                self._throttle.record(len(data.records), self._clock.monotonic_ms())
        match following.on_answer(data, at):
            case Next.FETCH:
                following.pauses = 0
            case Next.BACK_OFF:
                pause_ms = min(_BACKOFF_MS_MIN << following.pauses, self._settings.backoff_ms)
                following.retry_at_ms = self._clock.monotonic_ms() + pause_ms
                following.pauses = min(following.pauses + 1, _PAUSES_MAX)
            case Next.FIND_OFFSETS:
                following.retry_at_ms = self._clock.monotonic_ms() + self._settings.backoff_ms
                self._find_offsets(following)
            case Next.STOP:
                self._followed.pop(key, None)
        return True

    def _on_failure(self) -> None:
        self.failure_count += 1
        self._forget_session()
        retry_at_ms = self._clock.monotonic_ms() + self._settings.backoff_ms
        for following in self._followed.values():
            following.retry_at_ms = max(following.retry_at_ms, retry_at_ms)
        self._wake_for_next(self._clock.monotonic_ms())

    def _forget_session(self) -> None:
        self._session = {}
        self._session_id = 0
        self._session_epoch = 0

    def _wake_for_next(self, now_ms: int) -> None:
        self._cancel_wake()
        if self._followed and not self._is_closed:
            at_ms = min(following.retry_at_ms for following in self._followed.values())
            self._wake = self._timers.call_later(max(1, at_ms - now_ms), self._on_wake)

    def _on_wake(self) -> None:
        self._wake = None
        self._maybe_ask()

    def _cancel_wake(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    # -- out of range --------------------------------------------------------------------------

    def _find_offsets(self, following: Following) -> None:
        """Where the leader's log starts, then where it ends; then ours is brought into it.

        An answer that comes late must not cut what was fetched, and acknowledged, meanwhile.
        """
        position = following.position

        def on_start(start: int) -> None:
            self._list_offset(following, _LATEST, lambda end: on_range(start, end))

        def on_range(start: int, end: int) -> None:
            is_followed = self._followed.get(following.key) is following
            if not is_followed or following.position != position:
                return
            self._events.warning(
                "follower_out_of_range",
                partition=following.partition.name,
                own_end=following.partition.log.log_end_offset,
                leader_start=start,
                leader_end=end,
            )
            following.on_leader_range(start, end)
            following.retry_at_ms = 0
            self._maybe_ask()

        self._list_offset(following, _EARLIEST, on_start)

    def _list_offset(self, following: Following, at: int, on_offset: Callable[[int], None]) -> None:
        request = ListOffsetsRequest(
            replica_id=self._me,
            topics=[
                ListOffsetsTopic(
                    name=following.partition.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=following.partition.index,
                            current_leader_epoch=following.leader_epoch,
                            timestamp=at,
                        )
                    ],
                )
            ],
        )

        def on_answer(response: Message | None, _refused: bool) -> None:
            if isinstance(response, ListOffsetsResponse) and response.topics:
                rows = response.topics[0].partitions
                if rows and not rows[0].error_code and rows[0].offset >= 0:
                    on_offset(rows[0].offset)

        self._peers.send(self.leader_id, request, on_answer)


def _by_topic(items: Any) -> list[tuple[bytes, list[tuple[int, Any]]]]:
    topics: dict[bytes, list[tuple[int, Any]]] = {}
    for (topic_id, index), value in items:
        topics.setdefault(topic_id, []).append((index, value))
    return list(topics.items())
