"""A node of the hosted simulation: the real driver and host over a simulated disk and network.

Owns: the life of one process: what dies with it (timers, answers on their way) and what does not
(the disk). Must not know: faults, or what is right (it tells the world what was committed).

A paused process does nothing; what should have happened to it happens when it goes on.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.base.errors import ProtocolError, StorageError
from headrace.base.events import EventLog
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.host import Host
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.peers import OnAnswer
from headrace.quorum.replica import Replica
from headrace.quorum.settings import Identity
from headrace.quorum.snapshot_files import SnapshotWriter
from headrace.quorum.snapshotting import SnapshotPolicy
from headrace.quorum.state_machine import RecordCodec
from headrace.quorum.voters import Endpoint, VoterSet
from headrace.testing.disk import SimulatedDisk
from headrace.testing.quorum.simulation import through_wire
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import read_batches, read_records

if TYPE_CHECKING:
    from headrace.testing.quorum.hosted_world import HostedWorld

TOPIC = "counted"
TOPIC_ID = bytes(15) + b"\x07"
LISTENER = "QUORUM"
FIRST_BOOTSTRAP_ID = -2
_HOST = "host"
_DATA = "data"


def listener_of(node_id: int) -> Endpoint:
    return Endpoint(LISTENER, f"{_HOST}{node_id}", 9093)


class Counted(NamedTuple):
    """A record: the value that the counter gets, and whose decision it was."""

    value: int
    decision_id: int


class Counter:
    """A state machine that notices whatever is lost, doubled or out of order."""

    def __init__(self) -> None:
        self.last_offset = -1
        self.decision_ids: list[int] = []

    @property
    def value(self) -> int:
        return len(self.decision_ids)

    def replay(self, record: Counted) -> None:
        assert record.value == self.value + 1, f"{record} comes behind {self.value}"
        self.decision_ids.append(record.decision_id)

    def copy(self) -> "Counter":
        copied = Counter()
        copied.last_offset = self.last_offset
        copied.decision_ids = list(self.decision_ids)
        return copied

    def to_records(self) -> Iterator[Counted]:
        for index, decision_id in enumerate(self.decision_ids):
            yield Counted(index + 1, decision_id)


def _encode(record: Counted) -> bytes:
    return f"{record.value} {record.decision_id}".encode()


def _decode(data: bytes) -> Counted:
    value, decision_id = data.split()
    return Counted(int(value), int(decision_id))


CODEC = RecordCodec(_encode, _decode)


def _replay(state: Counter, batches: Iterable[bytes | memoryview]) -> None:
    for batch in batches:
        if not read_header(batch).is_control:
            for record in read_records(batch):
                state.replay(_decode(record.value or b""))


class _Timer:
    __slots__ = ("is_cancelled",)

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HostedNode:
    """Clock, Timers and Peers of its process are the node itself."""

    def __init__(
        self, world: "HostedWorld", node_id: int, directory_id: bytes, initial_voters: VoterSet
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.directory_id = directory_id
        self.initial_voters = initial_voters
        self.disk = SimulatedDisk(defer_syncs=True)
        self.dice = random.Random(world.dice.getrandbits(32))
        self.is_up = False
        self.is_paused = False
        self.incarnation = 0
        self.sync_slowness = 1
        self._syncs_scheduled = 0
        self._held: list[tuple[int, Callable[[], None]]] = []
        self._told_value = 0
        self.replica: Replica
        self.host: Host[Any]

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def listener(self) -> Endpoint:
        return listener_of(self.node_id)

    @property
    def is_active(self) -> bool:
        return self.is_up and not self.is_paused and self.host.is_active

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        try:
            self._start()
        except (StorageError, ProtocolError) as error:
            raise Violation("H6", f"node {self.node_id} can't start: {error}") from error

    def _start(self) -> None:
        self.incarnation += 1
        self.is_up, self.is_paused = True, False
        self._held.clear()
        self._syncs_scheduled = 0
        disk = self.disk
        disk.make_directory(_DATA)
        disk.sync_directory("/")
        log = PartitionLog.open(
            disk,
            f"{_DATA}/{TOPIC}-0",
            TOPIC,
            0,
            LogConfig(retention_ms=-1, delete=False, segment_bytes=2_000),
            self,
            topic_id=TOPIC_ID,
            files=FileBudget(disk),
        )
        disk.sync_directory(_DATA)
        self.replica = Replica.open(
            identity=Identity("simulated", TOPIC, TOPIC_ID, self.node_id, self.directory_id),
            settings=self.world.settings,
            log=log,
            storage=disk,
            clock=self,
            timers=self,
            random=self.dice,
            peers=self,
            initial_voters=self.initial_voters,
            bootstrap_ids=[FIRST_BOOTSTRAP_ID - n for n in range(len(self.world.voter_ids))],
            listener=self.listener,
            events=EventLog(lambda _line: None, self),
            on_fatal=self._on_fatal,
        )
        self.host = self.make_host(SnapshotPolicy(bytes_between=self.world.snapshot_bytes))
        self.host.on_installed = self.world.on_installed
        self.host.start()
        self.schedule_syncs()

    def make_host(self, policy: SnapshotPolicy) -> Host[Any]:
        """Over the replica; a simulation of another state machine makes its own."""
        keeps_copy = self.world.keeps_copy
        host = Host(self.replica, Counter, CODEC, self, self, policy, keeps_copy=keeps_copy)
        if not keeps_copy:
            host.write_snapshots_elsewhere(self._on_snapshot_due)
        host.on_committed = self._on_committed
        self._told_value = 0
        return host

    def stop(self, *, power_cut: bool) -> None:
        self.is_up = False
        self.incarnation += 1
        if power_cut:
            self.disk.crash(self.dice)
        else:
            self.disk.kill()
        self.world.on_stopped(self)

    def lose_end(self) -> None:
        """While it is down: the newest segment that holds something loses some of its end, at the
        end of a batch, within one, or to zeros."""
        folder, disk, dice = f"{_DATA}/{TOPIC}-0", self.disk, self.dice
        names = [name for name in disk.list(folder) if name.endswith(".log")]
        paths = [f"{folder}/{name}" for name in names if disk.size(f"{folder}/{name}")]
        if not paths:
            return
        content = disk.read_file(paths[-1])
        ends = [0]
        for header, _ in read_batches(content):
            ends.append(ends[-1] + header.size_bytes)
        kept = dice.choice(ends[-5:-1])
        kept += dice.choice((0, 0, 1, 30))
        zeros = bytes(len(content) - kept) if dice.random() < 0.3 else b""
        disk.overwrite(paths[-1], content[:kept] + zeros)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held, self._held = self._held, []
        for incarnation, call in held:
            self._run(incarnation, call)

    def _on_fatal(self, error: BaseException) -> None:
        self.world.on_fatal(self, error)

    def _on_committed(self, records: Sequence[Counted], last_offset: int) -> None:
        if records:
            self._told_value = records[-1].value
        committed = self.host.committed
        is_ahead = self.host.is_active and not self.world.keeps_copy
        if not is_ahead and (committed.last_offset, committed.value) != (
            last_offset,
            self._told_value,
        ):
            raise Violation("H1", f"{self.node_id} is told of {last_offset} before it is there")
        told = committed.decision_ids[: self._told_value]
        self.world.checks.on_committed(self.node_id, told, records, last_offset)

    # -- another process that writes snapshots -------------------------------------------------

    def _on_snapshot_due(self, snapshot_id: SnapshotId, voters: VoterSet) -> None:
        """From the snapshot before and the log behind it, as a child process would."""
        state, replica = Counter(), self.replica
        offset = 0
        before = replica.snapshots.latest
        if before is not None and before.end_offset > 0:
            _replay(state, (batch for _, batch in replica.snapshots.read(before)))
            offset = before.end_offset
        while offset < snapshot_id.end_offset:
            data = replica.read(offset, 1_000, snapshot_id.end_offset)
            for header, batch in read_batches(data):
                _replay(state, [batch])
                offset = header.next_offset
        writer = SnapshotWriter(self.disk, replica.disk.folder, snapshot_id, voters, self.now_ms())
        writer.append([CODEC.encode(record) for record in state.to_records()])
        writer.finish()
        self.later(self.dice.randrange(50), lambda: self.host.adopt_snapshot(snapshot_id))

    # -- what happens to it --------------------------------------------------------------------

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.world.schedule(delay_ms, self._run, self.incarnation, call)

    def _run(self, incarnation: int, call: Callable[[], None]) -> None:
        if incarnation != self.incarnation:
            return
        if self.is_paused:
            self._held.append((incarnation, call))
            return
        call()
        self.schedule_syncs()

    def schedule_syncs(self) -> None:
        """Every sync that was asked for is done after a while."""
        while self.is_up and self._syncs_scheduled < self.disk.deferred_count:
            self._syncs_scheduled += 1
            self.later(1 + int(self.dice.random() * 4 * self.sync_slowness), self._complete_sync)

    def _complete_sync(self) -> None:
        self._syncs_scheduled -= 1
        self.disk.complete_syncs(1)

    # -- Clock and Timers ----------------------------------------------------------------------

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.world.now_ms

    def monotonic_ms(self) -> int:
        return self.world.now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer()

        def ring() -> None:
            if not timer.is_cancelled:
                callback()

        self.later(max(0, -int(-delay_ms // 1)), ring)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.later(0, callback)

    # -- Peers ---------------------------------------------------------------------------------

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        world, is_answered = self.world, False

        def answer(response: Message | None, refused: bool) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                on_answer(response, refused)

        self.later(world.settings.request_timeout_ms, lambda: answer(None, False))
        target = self._target(target_id)
        if target is None:
            self.later(1, lambda: answer(None, False))
            return
        if not target.is_up and world.network.is_refused(self.node_id, target.node_id):
            self.later(1, lambda: answer(None, True))
            return
        message, incarnation = through_wire(request), self.incarnation

        def deliver_back(response: Message) -> None:
            self._run(incarnation, lambda: answer(response, False))

        world.network.send(
            self.node_id, target.node_id, target.on_request, self.node_id, message, deliver_back
        )

    def _target(self, target_id: int) -> "HostedNode | None":
        """As sockets find it: bootstrap servers by configuration, others where the quorum says."""
        nodes = self.world.nodes
        if target_id <= FIRST_BOOTSTRAP_ID:
            return nodes[self.world.voter_ids[FIRST_BOOTSTRAP_ID - target_id]]
        endpoint = self.replica.endpoint_of(target_id)
        return nodes[int(endpoint[0].removeprefix(_HOST))] if endpoint else None

    def on_request(
        self, source_id: int, request: Message, deliver_back: Callable[[Message], None]
    ) -> None:
        def serve() -> None:
            promise = self.replica.handle(through_wire(request), request.VERSIONS[1])

            def on_settled() -> None:
                if promise.error is None:
                    response = through_wire(promise.value())
                    self.world.network.send(self.node_id, source_id, deliver_back, response)

            promise.then(lambda _: on_settled())

        if self.is_up:
            self._run(self.incarnation, serve)
