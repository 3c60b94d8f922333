"""`Persister` of a cluster: the broker that leads the key's partition of the state is asked.

Owns: finding that broker, asking it here or there, and asking again when it may have moved.
Must not know: what happens to a state (`coordinator`), connections (`Peers`).
Spec: Kafka's DefaultStatePersister and PersisterStateManager.

What is wanted of one broker for one group in one turn of the loop travels in one request. Asking
again is safe: an initialisation and a write say the same twice, and epochs fence the late.
"""

from collections.abc import Callable
from typing import Any

from headrace.base.clock import Clock, Timers
from headrace.base.promise import Promise
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    Outcome,
    ReadState,
    ReadSummary,
    SharePartitionKey,
    StateRead,
    SummaryRead,
    WriteState,
)
from headrace.broker.share.state.coordinator import ShareCoordinator
from headrace.broker.share.state.messages import (
    DELETE,
    INITIALIZE,
    READ,
    SUMMARY,
    WRITE,
    Kind,
    R,
    W,
)
from headrace.cluster.image import NO_LEADER, SHARE_STATE_TOPIC, ClusterImage
from headrace.quorum.peers import Peers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message

BACKOFF_MS = 50
BACKOFF_MS_MAX = 1_000
PATIENCE_MS = 15_000
"""Long enough for another broker to take over; then the error is told."""

_MAY_PASS = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    )
)

_Waiting = list[tuple[Any, Promise[Any]]]


class ClusterPersister:
    """`Persister` that knows the way."""

    def __init__(
        self,
        me: int,
        coordinator: ShareCoordinator,
        peers: Peers,
        clock: Clock,
        timers: Timers,
        image_source: Callable[[], ClusterImage],
    ) -> None:
        self._me = me
        self._coordinator = coordinator
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._image_source = image_source
        self._outbox: dict[tuple[int, int, str], _Waiting] = {}
        """By API, node and group: what goes out at the end of this turn."""
        self._is_closed = False

    def close(self) -> None:
        """Nothing is asked again."""
        self._is_closed = True

    def initialize(self, wanted: InitializeState) -> Promise[Outcome]:
        return self._ask(INITIALIZE, wanted, self._coordinator.initialize)

    def read(self, wanted: ReadState) -> Promise[StateRead]:
        return self._ask(READ, wanted, self._coordinator.read)

    def write(self, wanted: WriteState) -> Promise[Outcome]:
        return self._ask(WRITE, wanted, self._coordinator.write)

    def delete(self, wanted: DeleteState) -> Promise[Outcome]:
        return self._ask(DELETE, wanted, self._coordinator.delete)

    def read_summary(self, wanted: ReadSummary) -> Promise[SummaryRead]:
        return self._ask(SUMMARY, wanted, self._coordinator.read_summary)

    def _ask(self, kind: Kind[W, R], wanted: W, local: Callable[[W], Promise[R]]) -> Promise[R]:
        answer: Promise[R] = Promise()
        until_ms = self._clock.monotonic_ms() + PATIENCE_MS
        backoff_ms = BACKOFF_MS

        def attempt() -> None:
            self._once(kind, wanted, local).then(on_result)

        def on_result(settled: Promise[R]) -> None:
            nonlocal backoff_ms
            result = settled.value()
            is_late = self._clock.monotonic_ms() + backoff_ms > until_ms
            if result.error not in _MAY_PASS or is_late or self._is_closed:
                answer.resolve(result)
                return
            self._timers.call_later(backoff_ms, attempt)
            backoff_ms = min(backoff_ms * 2, BACKOFF_MS_MAX)

        attempt()
        return answer

    def _once(self, kind: Kind[W, R], wanted: W, local: Callable[[W], Promise[R]]) -> Promise[R]:
        if not self._has_topic():
            return self._after_creation(kind, wanted, local)
        node_id = self._node_of(wanted.key)
        if node_id == self._me:
            return local(wanted)
        if node_id == NO_LEADER:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return Promise.resolved(kind.failed(error, error.message))
        return self._post(kind, node_id, wanted)

    def _has_topic(self) -> bool:
        return SHARE_STATE_TOPIC in self._image_source().topics_by_name

    def _after_creation(
        self, kind: Kind[W, R], wanted: W, local: Callable[[W], Promise[R]]
    ) -> Promise[R]:
        answer: Promise[R] = Promise()

        def on_created(_: Promise[int]) -> None:
            if self._has_topic():
                self._once(kind, wanted, local).then(lambda told: answer.resolve(told.value()))
            else:
                # Created elsewhere, and on its way here: the next attempt looks.
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
                answer.resolve(kind.failed(error, error.message))

        self._coordinator.ensure_topic().then(on_created)
        return answer

    def _node_of(self, key: SharePartitionKey) -> int:
        topic = self._image_source().topics_by_name[SHARE_STATE_TOPIC]
        index = self._coordinator.partition_for(key)
        return topic.partitions[index].leader if index < len(topic.partitions) else NO_LEADER

    def _post(self, kind: Kind[W, R], node_id: int, wanted: W) -> Promise[R]:
        place = (kind.request_class.API_KEY, node_id, wanted.key.group_id)
        waiting = self._outbox.get(place)
        if waiting is None:
            waiting = self._outbox[place] = []
            self._timers.call_soon(lambda: self._send(kind, place))
        elif any(each.key == wanted.key for each, _ in waiting):
            # One request speaks of a share-partition once: the second is on its heels.
            self._send(kind, place)
            return self._post(kind, node_id, wanted)
        promise: Promise[R] = Promise()
        waiting.append((wanted, promise))
        return promise

    def _send(self, kind: Kind[W, R], place: tuple[int, int, str]) -> None:
        waiting = self._outbox.pop(place, None)
        if not waiting:
            return
        _, node_id, group_id = place
        wanted = [each for each, _ in waiting]

        def on_answer(response: Message | None, _refused: bool) -> None:
            results = kind.results(response, wanted)
            for (_, promise), result in zip(waiting, results, strict=True):
                promise.resolve(result)

        self._peers.send(node_id, kind.request(group_id, wanted), on_answer)
