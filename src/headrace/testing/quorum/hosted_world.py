"""Hosts over a quorum in one process: nodes, a network, clients that decide, and bad times by seed.

Owns: simulated time, the order of events, clients and faults of the hosted simulation. Must not
know: what is right (`hosted_checks`). The core has a simulation of its own with finer faults; this
one drives the code that runs in production around it: driver, log, snapshots, host.

Invariants: the same seed gives the same life; time moves only between events.
"""

import heapq
import random
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.base.promise import Promise
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.settings import QuorumSettings
from headrace.quorum.state_machine import NotLeader
from headrace.quorum.voters import Voter, VoterSet
from headrace.testing.quorum.hosted_checks import HostedChecks
from headrace.testing.quorum.hosted_node import Counted, Counter, HostedNode, listener_of
from headrace.testing.quorum.network import Network, Weather
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest

EVENTS_MIN = 2_000
RECOVERY_MS_MAX = 60_000
SETTINGS = QuorumSettings(fetch_bytes_max=4_000, snapshot_chunk_bytes_max=700)


@dataclass(frozen=True, slots=True)
class HostedOutcome:
    """What a life was like."""

    seed: int
    event_count: int
    decided_count: int
    answered_count: int
    read_count: int
    lost_count: int
    snapshot_count: int
    install_count: int
    epoch: int
    faults: dict[str, int] = field(default_factory=dict)


class HostedWorld:
    node_type: type[HostedNode] = HostedNode

    def __init__(
        self,
        seed: int,
        *,
        voter_count: int | None = None,
        observer_count: int | None = None,
        weather: Weather | None = None,
        snapshot_bytes: int | None = None,
        damages: bool = False,
    ) -> None:
        """What is not given is the seed's to say. With `damages` the ends of logs get lost, too,
        that were synced: of one replica at a time, and of three voters at least."""
        self.seed = seed
        self.dice = random.Random(seed * 6_151 + 7)
        dice = self.dice
        self.settings = SETTINGS
        self.snapshot_bytes = snapshot_bytes or dice.choice((600, 2_000, 1 << 20))
        self.now_ms = 0
        self.event_count = 0
        self.faults: Tally[str] = Tally()
        self.install_count = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled_count = 0
        self._decision_id = 0
        self._open: dict[int, set[int]] = {}
        """By node: decisions that wait there."""
        self._are_times_bad = True
        self._kinds = (*_FAULTS, *["damage"] * 4) if damages else _FAULTS
        self._damaged: HostedNode | None = None
        bad_weather = Weather(
            loss=dice.choice((0.0, 0.02, 0.1)),
            doubling=dice.choice((0.0, 0.1)),
            straggling=dice.choice((0.0, 0.02)),
            delay_ms_max=dice.choice((2, 10, 40)),
            refusing=dice.choice((0.0, 0.7, 1.0)),
        )
        network_dice = random.Random(dice.getrandbits(32))
        self.network = Network(network_dice, weather or bad_weather, self.schedule)
        self.checks = HostedChecks()
        drawn = dice.choice((1, 3, 3, 3, 5)), dice.choice((0, 1, 2))
        voter_count = drawn[0] if voter_count is None else voter_count
        observer_count = drawn[1] if observer_count is None else observer_count
        ids = range(1, voter_count + observer_count + 1)
        self.voter_ids = tuple(ids[:voter_count])
        voters = VoterSet(_voter(id_) for id_ in self.voter_ids)
        self.nodes = {
            id_: self.node_type(
                self, id_, _directory_id(id_), voters if id_ <= voter_count else VoterSet()
            )
            for id_ in ids
        }
        self.keeps_copy = dice.random() < 0.7
        self._fault_pause_ms = dice.choice((100, 300, 1_000))
        self._client_pause_ms = dice.choice((5, 20, 60))

    # -- time ----------------------------------------------------------------------------------

    def schedule(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None:
        self._scheduled_count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._scheduled_count, call, args))

    def run_event(self) -> None:
        self.now_ms, _, call, args = heapq.heappop(self._queue)
        self.event_count += 1
        call(*args)

    def run_until(self, is_done: Callable[[], bool], limit_ms: int) -> bool:
        end_ms = self.now_ms + limit_ms
        while not is_done():
            if not self._queue or self._queue[0][0] > end_ms:
                return False
            self.run_event()
        return True

    def start_all(self) -> None:
        for node in self.nodes.values():
            if not node.is_up:
                node.start()

    def active(self) -> HostedNode | None:
        """Who decides, of those that run."""
        return next((node for node in self.nodes.values() if node.is_active), None)

    # -- a life --------------------------------------------------------------------------------

    def live(self, event_count: int = EVENTS_MIN) -> HostedOutcome:
        self.start_all()
        self.schedule(self._client_pause_ms, self._ask)
        self.schedule(self._fault_pause_ms, self._strike)
        while self.event_count < event_count:
            self.run_event()
        self._recover()
        return HostedOutcome(
            self.seed,
            self.event_count,
            self._decision_id,
            self.checks.answered_count,
            self.checks.read_count,
            self.checks.lost_count,
            sum(
                name.endswith(".checkpoint")
                for node in self.nodes.values()
                for name in node.disk.list("data/counted-0")
            ),
            self.install_count,
            max(node.replica.epoch for node in self.nodes.values()),
            dict(self.faults),
        )

    def _recover(self) -> None:
        """Good times: there must be an active host, and all must come to agree."""
        self._are_times_bad = False
        self.network.heal()
        self.network.weather = Weather()
        for node in self.nodes.values():
            node.sync_slowness = 1
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()
        goal = self.checks.answered_count + 5
        if not self.run_until(lambda: self.checks.answered_count >= goal, RECOVERY_MS_MAX):
            raise Violation("L", f"nobody decides {RECOVERY_MS_MAX} ms after the last fault")
        self._client_pause_ms = 0

        def is_at_rest() -> bool:
            value = len(self.checks.history)
            nodes = self.nodes.values()
            return not any(self._open.values()) and all(
                node.host.committed.value == value for node in nodes
            )

        if not self.run_until(is_at_rest, RECOVERY_MS_MAX):
            values = {id_: node.host.committed.value for id_, node in self.nodes.items()}
            raise Violation("L", f"no agreement: {values} of {len(self.checks.history)}")
        states = [node.host.committed.decision_ids for node in self.nodes.values()]
        self.checks.check_end(states)

    def on_stopped(self, node: HostedNode) -> None:
        self.checks.lost_count += len(self._open.pop(node.node_id, ()))

    def on_installed(self) -> None:
        self.install_count += 1

    def on_fatal(self, node: HostedNode, error: BaseException) -> None:
        if isinstance(error, Violation):
            raise error
        raise Violation("H5", f"node {node.node_id} stops: {error!r}") from error

    # -- clients -------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Of any node: one that does not lead refuses."""
        if self._client_pause_ms == 0:
            return
        self.schedule(self._client_pause_ms, self._ask)
        nodes = [node for node in self.nodes.values() if node.is_up and not node.is_paused]
        leading = [node for node in nodes if node.host.is_active]
        if leading and self.dice.random() < 0.9:
            nodes = leading
        if nodes:
            node = self.dice.choice(nodes)
            for _ in range(self.dice.choice((1, 1, 2, 5))):
                if self.dice.random() < 0.3:
                    self._read(node)
                else:
                    self._decide(node)
            node.schedule_syncs()

    def _decide(self, node: HostedNode) -> None:
        self._decision_id += 1
        decision_id, was_decided = self._decision_id, False

        def decide(state: Counter) -> tuple[list[Counted], int]:
            nonlocal was_decided
            was_decided = True
            count = self.dice.choice((1, 1, 1, 3))
            # One decision of several records: they come all or none.
            ids = [decision_id, *(-decision_id * 10 - extra for extra in range(1, count))]
            first = state.value + 1
            return [Counted(first + index, id_) for index, id_ in enumerate(ids)], first

        waiting = self._open.setdefault(node.node_id, set())
        waiting.add(decision_id)

        def on_answer(promise: Promise[int]) -> None:
            if decision_id not in waiting:
                return
            waiting.discard(decision_id)
            if promise.error is None:
                self.checks.on_answered(decision_id, promise.value())
            elif not isinstance(promise.error, NotLeader):
                raise Violation("H5", f"{decision_id} fails: {promise.error!r}")
            elif was_decided:
                self.checks.lost_count += 1
            else:
                self.checks.refused_ids.add(decision_id)

        node.host.submit(decide).then(on_answer)

    def _read(self, node: HostedNode) -> None:
        def on_answer(promise: Promise[list[int]]) -> None:
            if promise.error is None:
                self.checks.on_read(promise.value())

        node.host.submit(lambda state: ([], list(state.decision_ids))).then(on_answer)

    # -- faults --------------------------------------------------------------------------------

    def _strike(self) -> None:
        if not self._are_times_bad:
            return
        self.schedule(int(self._fault_pause_ms * (0.2 + self.dice.random() * 2)), self._strike)
        kind = self.dice.choice(self._kinds)
        node = self.dice.choice(list(self.nodes.values()))
        leading = [other for other in self.nodes.values() if other.is_active]
        if leading and self.dice.random() < 0.4:
            node = self.dice.choice(leading)
        if getattr(self, f"_{kind}")(node):
            self.faults[kind] += 1

    def _kill(self, node: HostedNode) -> bool:
        return self._stop(node, power_cut=False)

    def _power_cut(self, node: HostedNode) -> bool:
        return self._stop(node, power_cut=True)

    def _stop(self, node: HostedNode, *, power_cut: bool) -> bool:
        if not node.is_up:
            return False
        # What says that a log lacks something is not synced: a power cut on top may take it along.
        node.stop(power_cut=power_cut and node is not self._damaged)
        self.schedule(self.dice.choice((5, 200, 2_000)), self._restart, node)
        return True

    def _damage(self, node: HostedNode) -> bool:
        """The process ends, and what it had synced last is not there any more."""
        if not node.is_up or len(node.replica.voters) < 3 or self._is_anybody_damaged():
            return False
        if node.key not in node.replica.voters:
            return False
        if not self._stop(node, power_cut=False):
            return False
        self._damaged = node
        node.lose_end()
        return True

    def _is_anybody_damaged(self) -> bool:
        damaged = self._damaged
        if damaged is None or (damaged.is_up and damaged.replica.node.log.had is None):
            self._damaged = None
            return False
        return True

    def _restart(self, node: HostedNode) -> None:
        if not node.is_up:
            node.start()

    def _power_cut_of_all(self, _node: HostedNode) -> bool:
        if self.dice.random() < 0.7:
            return False
        struck = [self._power_cut(node) for node in self.nodes.values()]
        return any(struck)

    def _pause(self, node: HostedNode) -> bool:
        if not node.is_up or node.is_paused:
            return False
        node.pause()
        self.schedule(self.dice.choice((50, 900, 3_000)), self._resume, node, node.incarnation)
        return True

    def _resume(self, node: HostedNode, incarnation: int) -> None:
        if node.is_paused and node.incarnation == incarnation:
            node.resume()

    def _isolate(self, node: HostedNode) -> bool:
        self.network.isolate(node.node_id, list(self.nodes))
        self.schedule(self.dice.choice((300, 1_500, 4_000)), self.network.heal)
        return True

    def _cut_one_way(self, node: HostedNode) -> bool:
        other = self.dice.choice(list(self.nodes))
        self.network.cut.add((node.node_id, other))
        self.schedule(self.dice.choice((300, 1_500)), self.network.heal)
        return True

    def _slow_disk(self, node: HostedNode) -> bool:
        node.sync_slowness = self.dice.choice((1, 10, 60))
        return True

    def _resign(self, node: HostedNode) -> bool:
        if not node.is_active:
            return False
        node.replica.resign()
        node.schedule_syncs()
        return True

    def _snapshot(self, node: HostedNode) -> bool:
        if not node.is_up or node.is_paused:
            return False
        begun = node.host.snapshot_now()
        node.schedule_syncs()
        return begun

    def _change_voters(self, node: HostedNode) -> bool:
        if not node.is_active:
            return False
        voters = node.replica.voters
        outside = [other for other in self.nodes.values() if other.key not in voters]
        if outside and self.dice.random() < 0.6:
            chosen = self.dice.choice(outside)
            endpoint = chosen.listener
            added = Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)
            node.replica.handle(
                AddRaftVoterRequest(
                    cluster_id="simulated",
                    voter_id=chosen.node_id,
                    voter_directory_id=chosen.directory_id,
                    listeners=[added],
                    timeout_ms=self.dice.choice((0, 2_000)),
                ),
                1,
            )
        elif len(voters) > 1:
            key = self.dice.choice(voters.keys)
            node.replica.handle(
                RemoveRaftVoterRequest(
                    cluster_id="simulated",
                    voter_id=key.id,
                    voter_directory_id=key.directory_id,
                ),
                0,
            )
        node.schedule_syncs()
        return True


_FAULTS = (
    "kill",
    "kill",
    "power_cut",
    "power_cut",
    "power_cut_of_all",
    "pause",
    "pause",
    "isolate",
    "cut_one_way",
    "slow_disk",
    "resign",
    "snapshot",
    "change_voters",
)


def _directory_id(node_id: int) -> bytes:
    return node_id.to_bytes(16, "big")


def _voter(node_id: int) -> Voter:
    key = ReplicaKey(node_id, _directory_id(node_id))
    return Voter(key, (listener_of(node_id),))


class FailedHostedSeed(AssertionError):
    """A violation with what is needed to see it again."""

    def __init__(self, seed: int, violation: Violation, event_count: int) -> None:
        again = f"headrace.testing.quorum.hosted_world.run_hosted({seed})"
        super().__init__(f"{violation} after {event_count} events; again: {again}")
        self.rule = violation.rule


def run_hosted(seed: int, event_count: int = EVENTS_MIN, *, damages: bool = False) -> HostedOutcome:
    """One seed, one life."""
    world = HostedWorld(seed, damages=damages)
    try:
        return world.live(event_count)
    except Violation as violation:
        raise FailedHostedSeed(seed, violation, world.event_count) from violation
