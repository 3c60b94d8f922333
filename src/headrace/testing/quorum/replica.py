"""A replica in the simulation: the core, and a driver that keeps its contract to the letter.

Owns: the order in which a `Ready` is acted on, and what a process loses when it ends. Must not
know: faults, or what is right (it tells the checkers what it does, and they judge).

The contract is that of `headrace.quorum.events`. A sync takes time and completes as an event of
its own; while the election state is being synced, events wait.
"""

import random
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.quorum.election_state import ElectionState, ReplicaKey
from headrace.quorum.events import (
    Event,
    LogSynced,
    Ready,
    Reply,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Send,
    SnapshotChunk,
    SnapshotReceived,
    SnapshotWritten,
    Tick,
)
from headrace.quorum.loading import Loaded, load
from headrace.quorum.log_view import LogPosition, SnapshotId
from headrace.quorum.node import RaftNode
from headrace.quorum.settings import Identity
from headrace.quorum.voters import VoterSet
from headrace.testing.quorum.disk import ReplicaDisk, Reset, Start, Truncate
from headrace.testing.quorum.state_machine import DigestMachine
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.fetch import FetchResponse, PartitionData

if TYPE_CHECKING:
    from headrace.testing.quorum.simulation import Simulation

BATCHES_PER_FETCH_MAX = 8


class Replica:
    def __init__(
        self, world: "Simulation", node_id: int, disk: ReplicaDisk, format_voters: VoterSet
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.disk = disk
        self.format_voters = format_voters
        """The voters that came with the format of the disk; none for a disk put in later."""
        self.dice = random.Random(world.dice.getrandbits(32))
        self.clock_rate = 1.0
        self.sync_slowness = 1
        self.is_up = False
        self.is_paused = False
        self.incarnation = 0
        self.high_watermark_max = 0
        """The highest that this disk has ever been told, as far as it has synced what is below."""
        self.node: RaftNode
        self.machine: DigestMachine

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.disk.directory_id)

    def __repr__(self) -> str:
        if not self.is_up:
            return f"{self.node_id}:down"
        return f"{self.node_id}:{self.node.role.NAME}@{self.node.epoch}"

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        self.disk.recover()
        self.world.checkers.on_recovered(self)
        self.incarnation += 1
        self.is_up, self.is_paused = True, False
        self._is_persisting = False
        self._persisting: ElectionState | None = None
        self._held: Ready | None = None
        self._inbox: deque[Event] = deque()
        self._askers: dict[int, tuple[int, int, int, Message]] = {}
        self._token = 0
        self._sync_running = False
        self._sync_wanted: LogPosition | None = None
        self._wake_ms = -1
        self.machine = self._load_machine()
        self.node = RaftNode(
            Identity(
                self.world.cluster_id,
                "__cluster_metadata",
                bytes(15) + b"\x01",
                self.node_id,
                self.disk.directory_id,
            ),
            self.world.settings,
            self.dice,
            self._load(),
            self.now_ms(),
            self.world.ids,
        )
        self.step(Tick())

    def _load_machine(self) -> DigestMachine:
        latest = max(self.disk.snapshots, default=None)
        if latest is None:
            return DigestMachine(self.format_voters)
        return DigestMachine.from_snapshot(self.disk.snapshots[latest])

    def _load(self) -> Loaded:
        disk = self.disk
        start = disk.log.start
        sizes = {id_: len(content) for id_, content in disk.snapshots.items()}
        return load(disk.election, start, self._voters_at(start), disk.log.batches, sizes)

    def _voters_at(self, start: SnapshotId) -> VoterSet:
        """A log that starts late starts at a snapshot, which tells the voters."""
        content = self.disk.snapshots.get(start)
        if content is None:
            assert start.end_offset == 0, "a log starts where a snapshot ends"
            return self.format_voters
        return DigestMachine.from_snapshot(content).voters

    def stop(self, *, power_cut: bool) -> None:
        self.is_up = False
        self.incarnation += 1
        if self._persisting is not None and self.dice.random() < 0.5:
            # It went just behind the rename, and before any message.
            self._keep_election_state(self._persisting)
        if power_cut:
            # 1. A follower cuts off an entry, and writes the leader's in its place. 2. The same
            # fetch told it that they are committed; a majority of others has them. 3. Its power
            # fails before its sync: the old entry is back. It owes only what it had synced.
            owed_end = self.disk.durable_prefix_end()
            self.high_watermark_max = min(self.high_watermark_max, owed_end)
            self.disk.power_cut(self.dice)
        else:
            self.disk.process_end()
        self.world.on_stopped(self)

    # -- events --------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return int(self.world.now_ms * self.clock_rate)

    def post(self, event: Event) -> None:
        """Step, or wait until the replica can."""
        if not self.is_up:
            return
        if self.is_paused or self._is_persisting:
            self._inbox.append(event)
        else:
            self.step(event)

    def can_step(self) -> bool:
        return self.is_up and not self.is_paused and not self._is_persisting

    def step(self, event: Event) -> None:
        ready = self.node.step(event, self.now_ms())
        self.world.on_step(self, event, ready)
        if ready.halt is not None:
            self.stop(power_cut=False)
            return
        if ready.election_state is None:
            self._act(ready)
        else:
            self._is_persisting = True
            self._persisting = ready.election_state
            delay_ms = self._sync_delay_ms()
            self.world.schedule(
                delay_ms, self._on_persisted, self.incarnation, ready.election_state, ready
            )

    def _on_persisted(self, incarnation: int, state: ElectionState, ready: Ready) -> None:
        if incarnation != self.incarnation:
            return
        self._keep_election_state(state)
        if self.is_paused:
            self._held = ready
        else:
            self._is_persisting = False
            self._act(ready)
            self.drain()

    def _keep_election_state(self, state: ElectionState) -> None:
        self._persisting = None
        self.disk.election = state
        self.world.checkers.on_persisted(self, state)

    def drain(self) -> None:
        while self._inbox and self.is_up and not self._is_persisting and not self.is_paused:
            self.step(self._inbox.popleft())

    def resume(self) -> None:
        self.is_paused = False
        held, self._held = self._held, None
        if held is not None:
            self._is_persisting = False
            self._act(held)
        self.drain()
        self.post(Tick())

    def _sync_delay_ms(self) -> int:
        return 1 + int(self.dice.random() * 4 * self.sync_slowness)

    # -- acting on a Ready ---------------------------------------------------------------------

    def _act(self, ready: Ready) -> None:
        disk, world = self.disk, self.world
        world.checkers.on_acting(self)
        if ready.truncate_to is not None:
            world.checkers.on_truncate(self, ready.truncate_to)
            disk.write(Truncate(ready.truncate_to))
        if ready.reset_log_to is not None:
            self._install(ready.reset_log_to)
        for batch in ready.append:
            world.checkers.on_append(self, batch)
            disk.write(batch)
        if ready.log_start_offset is not None:
            start = SnapshotId(ready.log_start_offset, self.node.log.start_epoch)
            disk.write(Start(start))
        if ready.delete_snapshots:
            self._delete(ready.delete_snapshots)
        if ready.sync is not None:
            self._sync(ready.sync)
        for send in ready.sends:
            self._send(send)
        for reply in ready.replies:
            self._reply(reply)
        if ready.snapshot_chunk is not None:
            self._keep_chunk(ready.snapshot_chunk)
        if ready.high_watermark is not None:
            self._commit(ready.high_watermark)
        if ready.wake_at_ms is not None:
            self._wake_at(ready.wake_at_ms)

    def _sync(self, position: LogPosition) -> None:
        if self._sync_running:
            self._sync_wanted = position
            return
        self._sync_running, self._sync_wanted = True, None
        count, delay_ms = self.disk.pending_count, self._sync_delay_ms()
        self.world.schedule(delay_ms, self._on_synced, self.incarnation, count, position)

    def _on_synced(self, incarnation: int, count: int, position: LogPosition) -> None:
        if incarnation != self.incarnation:
            return
        self.disk.sync(count)
        self._sync_running = False
        self.post(LogSynced(position))
        if self._sync_wanted is not None:
            self._sync(self._sync_wanted)

    def _wake_at(self, wake_at_ms: int) -> None:
        if wake_at_ms == self._wake_ms:
            return
        self._wake_ms = wake_at_ms
        delay_ms = max(0, int((wake_at_ms - self.now_ms()) / self.clock_rate) + 1)
        self.world.schedule(delay_ms, self._on_wake, self.incarnation, wake_at_ms)

    def _on_wake(self, incarnation: int, wake_at_ms: int) -> None:
        if incarnation == self.incarnation and wake_at_ms == self._wake_ms:
            self._wake_ms = -1
            self.post(Tick())

    # -- messages ------------------------------------------------------------------------------

    def _send(self, send: Send) -> None:
        self.world.checkers.on_request_sent(self, send.message)
        self.world.carry_request(self, send)

    def on_request(self, source: "Replica", incarnation: int, send: Send) -> None:
        if not self.is_up:
            return
        self._token += 1
        self._askers[self._token] = (source.node_id, incarnation, send.request_id, send.message)
        self.post(RequestReceived(self._token, send.message))

    def on_admin_request(self, message: Message) -> None:
        """From a tool, which waits for no answer."""
        self._token += 1
        self._askers[self._token] = (-1, 0, 0, message)
        self.post(RequestReceived(self._token, message))

    def _reply(self, reply: Reply) -> None:
        source_id, incarnation, request_id, request = self._askers.pop(reply.token)
        message = reply.message
        if reply.read is not None:
            assert isinstance(message, FetchResponse)
            partition: PartitionData = message.responses[0].partitions[0]
            partition.records = self.disk.read(reply.read.offset, BATCHES_PER_FETCH_MAX)
        elif reply.read_snapshot is not None:
            asked = reply.read_snapshot
            content = self.disk.snapshots[asked.snapshot_id]
            chunk = content[asked.position : asked.position + asked.bytes_max]
            message.topics[0].partitions[0].unaligned_records = chunk  # type: ignore[attr-defined]
        self.world.checkers.on_reply_sent(self, request, message)
        if source_id >= 0:
            self.world.carry_response(self, source_id, incarnation, request_id, message)

    def on_response(self, incarnation: int, request_id: int, message: Message) -> None:
        if incarnation == self.incarnation:
            self.post(ResponseReceived(request_id, message))

    def on_failed(self, incarnation: int, request_id: int) -> None:
        if incarnation == self.incarnation:
            self.post(RequestFailed(request_id, refused=True))

    # -- commits and snapshots -----------------------------------------------------------------

    def _commit(self, high_watermark: int) -> None:
        self.high_watermark_max = max(self.high_watermark_max, high_watermark)
        self.world.checkers.on_high_watermark(self, high_watermark)
        content, machine = self.disk.log, self.machine
        slot = content.slot_of(machine.applied_offset)
        for batch in content.batches[slot:]:
            if batch.next_offset > high_watermark:
                break
            machine.replay(batch)
            self.world.checkers.on_applied(self, batch)
        self.world.on_committed(self)

    def take_snapshot(self, log_start: Sequence[SnapshotId]) -> None:
        """Of what is applied; the log may start at one of `log_start` or at the new one."""
        end_offset = self.machine.applied_offset
        snapshot_id = SnapshotId(end_offset, self.node.log.epoch_before(end_offset))
        latest = self.node.snapshots.latest
        if end_offset <= self.node.log.start_offset or (latest and snapshot_id <= latest):
            return
        content = self.machine.to_snapshot()
        self.disk.snapshots[snapshot_id] = content
        self.world.checkers.on_snapshot(self, snapshot_id, content)
        starts = [id_.end_offset for id_ in log_start if id_ in self.disk.snapshots]
        start_offset = self.dice.choice([*starts, end_offset])
        self.post(SnapshotWritten(snapshot_id, len(content), start_offset))

    def _delete(self, snapshot_ids: list[SnapshotId]) -> None:
        for snapshot_id in snapshot_ids:
            # The one that the log starts at tells the voters at the next start.
            if not self.disk.may_start_at(snapshot_id):
                self.disk.snapshots.pop(snapshot_id, None)

    def _keep_chunk(self, chunk: SnapshotChunk) -> None:
        self.disk.write_chunk(chunk.snapshot_id, chunk.position, bytes(chunk.data))
        if chunk.is_last:
            delay_ms = self._sync_delay_ms()
            self.world.schedule(
                delay_ms, self._on_snapshot_synced, self.incarnation, chunk.snapshot_id
            )

    def _on_snapshot_synced(self, incarnation: int, snapshot_id: SnapshotId) -> None:
        if incarnation != self.incarnation:
            return
        content = self.disk.finish_snapshot(snapshot_id)
        self.world.checkers.on_snapshot(self, snapshot_id, content)
        voters = DigestMachine.from_snapshot(content).voters
        self.post(SnapshotReceived(snapshot_id, len(content), voters))

    def _install(self, snapshot_id: SnapshotId) -> None:
        self.world.checkers.on_install(self, snapshot_id)
        self.disk.write(Reset(snapshot_id))
        self.machine = DigestMachine.from_snapshot(self.disk.snapshots[snapshot_id])
