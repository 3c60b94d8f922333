"""One node of a simulated cluster: the real parts, as `node.assembly` puts them together.

Owns: its disk, its timers, its life (start, stop, kill, power cut, pause, wiped logs) and the
delivery of requests to it. Must not know: other nodes, what is right.

Invariants: nothing of an older life runs in the next one; a paused node does nothing, and does all
of it at once when it goes on.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.base.network import Part
from headrace.broker.replication.replication import COMMIT_LOOK_MS
from headrace.broker.session import KafkaSession
from headrace.cluster.image import ClusterImage
from headrace.cluster.principals import ANONYMOUS
from headrace.cluster.refusals import refusal
from headrace.log.file_budget import FileBudget
from headrace.node.assembly import AssembledNode, assemble, open_directories
from headrace.node.formatting import prepare
from headrace.node.seams import Seams
from headrace.quorum.state_machine import NotLeader
from headrace.testing.cluster_simulation.peers import SimulatedPeers
from headrace.testing.disk import SimulatedDisk
from headrace.testing.network import SimulatedTransport
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message

if TYPE_CHECKING:
    from headrace.testing.cluster_simulation.world import World

LISTENER, CONTROLLER = "PLAINTEXT", "CONTROLLER"
LOGS, METADATA = "/logs", "/metadata"
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"
QUORUM_TIMEOUT_MS, BROKER_TIMEOUT_MS = 1_000, 1_500
UPKEEP_MS = 1_000
SETTINGS = {
    "cluster.id": CLUSTER_ID,
    "log.dirs": LOGS,
    "metadata.log.dir": METADATA,
    "controller.listener.names": CONTROLLER,
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "request.timeout.ms": "2000",
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
}


class NodeTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class NodeTimers:
    """Timers of one life of a node."""

    def __init__(self, node: "SimulatedNode", world: "World") -> None:
        self._node = node
        self._life = node.life
        self._world = world

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> NodeTimer:
        timer = NodeTimer(callback)
        self._world.schedule(delay_ms, self._ring, timer)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def _ring(self, timer: NodeTimer) -> None:
        if timer.callback is None:
            self._world.event_count -= 1
            return
        self._node.act(self._life, self._fire, timer)

    @staticmethod
    def _fire(timer: NodeTimer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()


class _Connection(SimulatedTransport):
    """One request and its answer."""

    def __init__(self, node: "SimulatedNode", on_frame: Callable[[bytes | None], None]) -> None:
        self._on_frame = on_frame
        broker = node.assembled.broker
        assert broker is not None
        super().__init__(lambda transport: KafkaSession(broker, transport, LISTENER))

    def send(self, parts: Sequence[Part]) -> None:
        try:
            super().send(parts)
        except StorageError:
            self.close("the disk refuses")
            return
        for frame in self.take():
            self._on_frame(frame)

    def close(self, reason: str) -> None:
        if self.close_reason is None:
            super().close(reason)
            self._on_frame(None)


class SimulatedNode:
    assembled: AssembledNode

    def __init__(
        self, world: "World", node_id: int, voters: list[int], settings: dict[str, str]
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.is_voter = node_id in voters
        self.disk = SimulatedDisk(defer_syncs=True)
        self._mount()
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.is_serving = False
        self.sync_ms_max = 4
        self.has_loss = False
        """Its log may lack what it had, until a life that began after that is registered."""
        self._lives_since_loss: set[bytes] = set()
        self._backlog: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        self._syncs_coming = 0
        roles = "broker,controller" if self.is_voter else "broker"
        listeners = f"{LISTENER}://n{node_id}:9092"
        if self.is_voter:
            listeners += f",{CONTROLLER}://n{node_id}:9093"
        self.config = BrokerConfig.of(
            SETTINGS
            | settings
            | {
                "node.id": str(node_id),
                "process.roles": roles,
                "listeners": listeners,
                "controller.quorum.voters": ",".join(f"{each}@n{each}:9093" for each in voters),
            }
        )

    def _mount(self) -> None:
        """The directories are the operator's, and there for good."""
        for path in (LOGS, METADATA):
            self.disk.make_directory(path)
        self.disk.sync_directory("/")

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.world
        self.is_up = True
        self.life += 1
        timers = NodeTimers(self, world)
        log = EventLog(self._on_line, world.clock, "error")
        seams = Seams(self.disk, world.clock, timers, world.dice, log, self._on_fatal)
        files = FileBudget(self.disk)
        prepare(self.disk, self.config, world.dice)
        cluster_id, directories = open_directories(self.config, seams, files)
        advertised = {LISTENER: (f"n{self.node_id}", 9092)}
        if self.is_voter:
            advertised[CONTROLLER] = (f"n{self.node_id}", 9093)
        self.assembled = assemble(
            self.config,
            seams,
            files,
            cluster_id,
            directories,
            advertised,
            SimulatedPeers(self, timers, "quorum", QUORUM_TIMEOUT_MS),
            SimulatedPeers(self, timers, "broker", BROKER_TIMEOUT_MS),
        )
        assert self.assembled.lifecycle is not None
        self._lives_since_loss.add(self.assembled.lifecycle.incarnation_id)
        life = self.life
        self.assembled.start().then(lambda _: self._on_started(life, timers))
        self._after()

    def _on_started(self, life: int, timers: NodeTimers) -> None:
        if life != self.life:
            return
        self.is_serving = True
        broker = self.assembled.broker
        assert broker is not None

        def every(interval_ms: int, action: Callable[[], None]) -> None:
            def turn() -> None:
                action()
                timers.call_later(interval_ms, turn)

            timers.call_later(interval_ms, turn)

        every(COMMIT_LOOK_MS, broker.replication.tick)
        every(UPKEEP_MS, broker.partitions.flush_due)
        every(UPKEEP_MS, broker.partitions.checkpoint)

    def kill(self) -> None:
        """As kill -9: the page cache outlives it."""
        self.disk.kill()
        self._end()

    def cut_power(self) -> None:
        self.disk.crash(self.world.dice)
        self.world.truth.begun_epochs.on_power_cut(self)
        self._mark_lossy()
        self._end()
        self.world.truth.on_loss()

    def wipe(self) -> None:
        """The disk of its logs is replaced by an empty one; the metadata's is another."""
        self.disk.kill()
        for path in sorted(self.disk.tree()):
            if path.startswith(f"{LOGS}/"):
                self.disk.remove(path)
        for name in self.disk.list(LOGS):
            self.disk.remove_directory(f"{LOGS}/{name}")
        self.disk.remove_directory(LOGS)
        self._mount()
        self._mark_lossy()
        self._end()
        self.world.truth.on_loss()

    def _mark_lossy(self) -> None:
        self.has_loss = self.world.image is not None
        self._lives_since_loss = set()

    @property
    def is_lossy(self) -> bool:
        """It lost part of its log, and the cluster has not been told yet."""
        image = self.world.image
        return self.has_loss and image is not None and not self.returned_lossy(image)

    def returned_lossy(self, image: ClusterImage) -> bool:
        """The cluster has just been told."""
        registered = image.brokers.get(self.node_id)
        return (
            self.has_loss
            and registered is not None
            and registered.incarnation_id in self._lives_since_loss
        )

    def _end(self) -> None:
        self.life += 1
        self.is_up = self.is_paused = self.is_serving = False
        self._backlog.clear()
        self._syncs_coming = 0
        self.world.truth.on_down(self.node_id)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        for life, action, args in backlog:
            self.world.schedule(0, self.act, life, action, *args)

    # -- events --------------------------------------------------------------------------------

    def act(self, life: int, action: Callable[..., None], *args: Any) -> None:
        """Something happens in a life of this node, unless it is over."""
        if life != self.life:
            return
        if self.is_paused:
            self._backlog.append((life, action, args))
            return
        action(*args)
        self._after()

    def _after(self) -> None:
        if not self.is_up:
            return
        disk = self.disk
        while self._syncs_coming < disk.deferred_count:
            self._syncs_coming += 1
            delay_ms = 1 + int(self.world.dice.random() * self.sync_ms_max)
            self.world.schedule(delay_ms, self.act, self.life, self._complete_sync)
        self.world.on_node_event(self)

    def _complete_sync(self) -> None:
        self._syncs_coming -= 1
        self.disk.complete_syncs(1)

    def _on_line(self, line: str) -> None:
        if any(word in line for word in ("handler_failed", "upkeep_failed", "answer_failed")):
            raise Violation("crash", f"node {self.node_id}: {line}")

    def _on_fatal(self, error: BaseException) -> None:
        raise Violation("crash", f"node {self.node_id}: {error!r}") from error

    # -- requests ------------------------------------------------------------------------------

    def ask_quorum(self, request: Message, on_response: Callable[[Message | None], None]) -> None:
        listener = self.assembled.listener
        if listener is None:
            on_response(None)
            return

        def on_settled(settled: Any) -> None:
            if isinstance(settled.error, NotLeader):
                on_response(refusal(request, ErrorCode.NOT_CONTROLLER, str(settled.error)))
            elif settled.error is not None:
                on_response(None)
            else:
                on_response(settled.value())

        listener.handle(request, request.VERSIONS[1], ANONYMOUS).then(on_settled)

    def ask_broker(self, frame: bytes, on_frame: Callable[[bytes | None], None]) -> None:
        if not self.is_serving:
            on_frame(None)
            return
        _Connection(self, on_frame).feed(frame)
