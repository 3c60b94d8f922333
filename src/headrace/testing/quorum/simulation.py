"""A quorum in one process: a queue of events, replicas, a network, clients and a tool.

Owns: simulated time, the order of events, and what clients wait for. Must not know: faults
(`faults`), or what is right (`checkers`).

Invariants: the same seed gives the same life, event by event; time moves only between events.
"""

import heapq
import random
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.events import Event, Propose, Ready, Send
from headrace.quorum.settings import QuorumSettings
from headrace.quorum.voters import VoterSet
from headrace.testing.quorum.checkers import Checkers
from headrace.testing.quorum.disk import ReplicaDisk
from headrace.testing.quorum.network import Network, Weather
from headrace.testing.quorum.replica import Replica
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.record_batch import stamp_crc
from headrace.wire.kafka.records import build_batch

_VALUE = Struct(">q")
_TEMPLATE = bytes(build_batch([(None, _VALUE.pack(-1), (), 0)]))
_VALUE_AT = _TEMPLATE.index(_VALUE.pack(-1), 61)

SETTINGS = QuorumSettings(snapshot_chunk_bytes_max=40)


def through_wire(message: Message) -> Message:
    """The message as its newest version brings it over the wire."""
    version = message.VERSIONS[1]
    return decode(type(message), encode(message, version), version)[0]


class Waiting(NamedTuple):
    """A client's proposal that is not answered yet."""

    epoch: int
    base_offset: int
    next_offset: int
    data: bytes


class Simulation:
    def __init__(
        self,
        seed: int,
        voter_count: int,
        observer_count: int = 0,
        weather: Weather | None = None,
        settings: QuorumSettings = SETTINGS,
        *,
        on_wire: bool = False,
    ) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.cluster_id = "simulated"
        self.settings = settings
        self.on_wire = on_wire
        """Messages travel as bytes, not as values: slower, and with the codec's opinion."""
        self.now_ms = 0
        self.event_count = 0
        self.network = Network(
            random.Random(self.dice.getrandbits(32)), weather or Weather(), self.schedule
        )
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled_count = 0
        self._proposed_count = 0
        self._waiting: dict[int, list[Waiting]] = {}
        self._disk_count = 0
        self.ids = list(range(1, voter_count + observer_count + 1))
        disks = {node_id: self._new_disk() for node_id in self.ids}
        self.format_voters = VoterSet.of(
            *(ReplicaKey(id_, disks[id_].directory_id) for id_ in self.ids[:voter_count])
        )
        self.checkers = Checkers(self.format_voters)
        self.replicas = {
            id_: Replica(self, id_, disk, self.format_voters) for id_, disk in disks.items()
        }
        for id_ in self.ids[voter_count:]:
            self.replicas[id_].format_voters = VoterSet()
        self.lost_keys: set[ReplicaKey] = set()
        """Replicas whose disk is gone."""

    def _new_disk(self) -> ReplicaDisk:
        self._disk_count += 1
        return ReplicaDisk(self._disk_count.to_bytes(16, "big"))

    def start_all(self) -> None:
        for replica in self.replicas.values():
            if not replica.is_up:
                replica.start()

    # -- time ----------------------------------------------------------------------------------

    def schedule(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None:
        self._scheduled_count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._scheduled_count, call, args))

    def run_event(self) -> bool:
        """The next one; False if there is none."""
        if not self._queue:
            return False
        self.now_ms, _, call, args = heapq.heappop(self._queue)
        self.event_count += 1
        call(*args)
        return True

    def run_until(self, is_done: Callable[[], bool], limit_ms: int) -> bool:
        """Runs events for at most `limit_ms` until `is_done`; says whether it is."""
        end_ms = self.now_ms + limit_ms
        while not is_done():
            if not self._queue or self._queue[0][0] > end_ms:
                return False
            self.run_event()
        return True

    def run_for(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        self.run_until(lambda: False, duration_ms)
        self.now_ms = end_ms

    # -- the wire ------------------------------------------------------------------------------

    def carry_request(self, source: Replica, send: Send) -> None:
        target = self.replicas[send.target_id]
        if not target.is_up and self.network.is_refused(source.node_id, target.node_id):
            self.schedule(1, source.on_failed, source.incarnation, send.request_id)
            return
        if self.on_wire:
            send = send._replace(message=through_wire(send.message))
        args = (source, source.incarnation, send)
        self.network.send(source.node_id, target.node_id, target.on_request, *args)

    def carry_response(
        self, source: Replica, target_id: int, incarnation: int, request_id: int, message: Message
    ) -> None:
        target = self.replicas[target_id]
        if self.on_wire:
            message = through_wire(message)
        args = (incarnation, request_id, message)
        self.network.send(source.node_id, target_id, target.on_response, *args)

    # -- clients -------------------------------------------------------------------------------

    def leaders(self) -> list[Replica]:
        return [r for r in self.replicas.values() if r.is_up and r.node.is_leader]

    def leader(self) -> Replica | None:
        """The one of the newest epoch."""
        return max(self.leaders(), key=lambda replica: replica.node.epoch, default=None)

    def propose(self, replica: Replica) -> None:
        """A batch that was never there before."""
        self._proposed_count += 1
        batch = bytearray(_TEMPLATE)
        _VALUE.pack_into(batch, _VALUE_AT, self._proposed_count)
        stamp_crc(batch)
        replica.post(Propose(batch, replica.node.epoch))

    def on_step(self, replica: Replica, event: Event, ready: Ready) -> None:
        self.checkers.on_step(replica, event, ready)
        if ready.proposed is not None and isinstance(event, Propose):
            base_offset, next_offset = ready.proposed
            if base_offset >= 0:
                waiting = Waiting(event.epoch, base_offset, next_offset, bytes(event.batch))
                self._waiting.setdefault(replica.node_id, []).append(waiting)

    def on_stopped(self, replica: Replica) -> None:
        """Its clients will never know."""
        self._waiting.pop(replica.node_id, None)
        self.checkers.on_stopped(replica)

    def on_committed(self, replica: Replica) -> None:
        """A leader answers what its high watermark covers; what an older epoch promised is
        unknown, and no longer its to answer."""
        node = replica.node
        if not node.is_leader:
            return
        left = []
        for waiting in self._waiting.pop(replica.node_id, ()):
            if waiting.epoch != node.epoch:
                continue
            if waiting.next_offset <= node.high_watermark:
                self.checkers.on_acked(replica, waiting.base_offset, waiting.data)
            else:
                left.append(waiting)
        self._waiting[replica.node_id] = left

    # -- disks ---------------------------------------------------------------------------------

    def replace_disk(self, replica: Replica) -> None:
        """The replica is down; it will come back with an empty disk and a new directory id."""
        assert not replica.is_up
        self.lost_keys.add(replica.key)
        replica.disk = self._new_disk()
        replica.format_voters = VoterSet()
        replica.high_watermark_max = 0
