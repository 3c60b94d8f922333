"""What goes wrong, and what people do meanwhile, by the dice.

Owns: the kinds of fault, when they come and when they end. Must not know: what must survive them.

Faults end by themselves: a replica that is down comes back, a cut heals. A disk is replaced only
while every voter set in force keeps a majority of disks, since without one a quorum is lost by
definition; a tool then takes the lost voter out and, once it has caught up, in again.
"""

import random
from collections.abc import Callable

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.events import Resign
from headrace.quorum.voters import VoterSet
from headrace.testing.quorum.replica import Replica
from headrace.testing.quorum.simulation import Simulation
from headrace.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.kafka.messages.update_raft_voter import Listener as UpdatedListener
from headrace.wire.kafka.messages.update_raft_voter import UpdateRaftVoterRequest

VOTERS_MAX = 5


class Faults:
    def __init__(self, world: Simulation, gap_ms: int) -> None:
        self.world = world
        self.dice = random.Random(world.dice.getrandbits(32))
        self.is_active = True
        self.counts: dict[str, int] = {}
        self._gap_ms = gap_ms
        self._kinds: list[tuple[Callable[[], bool], int]] = [
            (self.power_cut, 3),
            (self.kill, 2),
            (self.kill_leader, 4),
            (self.power_cut_all, 1),
            (self.pause, 2),
            (self.pause_leader, 1),
            (self.isolate, 2),
            (self.isolate_leader, 4),
            (self.cut_one_way, 3),
            (self.split, 2),
            (self.bridge, 1),
            (self.slow_disk, 3),
            (self.lose_disk, 2),
            (self.change_voters, 12),
            (self.resign, 1),
            (self.snapshot, 6),
        ]

    def start(self) -> None:
        world = self.world
        for replica in world.replicas.values():
            replica.clock_rate = self.dice.choice((1.0, 1.0, 0.9, 1.1, 1.02))
        world.schedule(self._gap_ms, self._strike)

    def _strike(self) -> None:
        if not self.is_active:
            return
        kinds, weights = zip(*self._kinds, strict=True)
        fault = self.dice.choices(kinds, weights)[0]
        if fault():
            name = fault.__name__
            self.counts[name] = self.counts.get(name, 0) + 1
        self.world.schedule(1 + self.dice.randrange(2 * self._gap_ms), self._strike)

    def end(self) -> None:
        """Everything is well from now on."""
        self.is_active = False
        world = self.world
        world.network.heal()
        for replica in world.replicas.values():
            replica.sync_slowness = 1
            if not replica.is_up:
                replica.start()
            elif replica.is_paused:
                replica.resume()

    # -- processes -----------------------------------------------------------------------------

    def _any_up(self) -> Replica | None:
        up = [r for r in self.world.replicas.values() if r.is_up and not r.is_paused]
        return self.dice.choice(up) if up else None

    def _stop(self, replica: Replica | None, *, power_cut: bool) -> bool:
        if replica is None or not replica.is_up:
            return False
        replica.stop(power_cut=power_cut)
        self.world.schedule(20 + self.dice.randrange(1_000), self._start, replica)
        return True

    def _start(self, replica: Replica) -> None:
        if not replica.is_up:
            replica.start()

    def power_cut(self) -> bool:
        return self._stop(self._any_up(), power_cut=True)

    def kill(self) -> bool:
        return self._stop(self._any_up(), power_cut=False)

    def kill_leader(self) -> bool:
        return self._stop(self.world.leader(), power_cut=self.dice.random() < 0.7)

    def power_cut_all(self) -> bool:
        for replica in self.world.replicas.values():
            self._stop(replica, power_cut=True)
        return True

    def pause(self) -> bool:
        return self._pause(self._any_up())

    def pause_leader(self) -> bool:
        return self._pause(self.world.leader())

    def _pause(self, replica: Replica | None) -> bool:
        if replica is None or replica.is_paused:
            return False
        replica.is_paused = True
        delay_ms = 50 + self.dice.randrange(2_500)
        self.world.schedule(delay_ms, self._resume, replica, replica.incarnation)
        return True

    def _resume(self, replica: Replica, incarnation: int) -> None:
        if replica.incarnation == incarnation and replica.is_paused:
            replica.resume()

    def resign(self) -> bool:
        leader = self.world.leader()
        if leader is None or leader.is_paused:
            return False
        leader.post(Resign())
        return True

    # -- the network ---------------------------------------------------------------------------

    def _cut(self, ways: set[tuple[int, int]]) -> bool:
        network = self.world.network
        network.cut |= ways

        def heal() -> None:
            network.cut -= ways

        self.world.schedule(100 + self.dice.randrange(2_500), heal)
        return True

    def isolate(self) -> bool:
        return self._isolate(self.dice.choice(self.world.ids))

    def isolate_leader(self) -> bool:
        leader = self.world.leader()
        return leader is not None and self._isolate(leader.node_id)

    def _isolate(self, node_id: int) -> bool:
        others = [other for other in self.world.ids if other != node_id]
        return self._cut({(node_id, o) for o in others} | {(o, node_id) for o in others})

    def cut_one_way(self) -> bool:
        """A replica that is heard and does not hear, or the other way round, by one or by all."""
        node_id = self.dice.choice(self.world.ids)
        others = [other for other in self.world.ids if other != node_id]
        if self.dice.random() < 0.5:
            others = others[:1]
        hears = self.dice.random() < 0.5
        return self._cut({(o, node_id) if hears else (node_id, o) for o in others})

    def split(self) -> bool:
        ids = self.dice.sample(self.world.ids, len(self.world.ids))
        at = self.dice.randrange(len(ids) + 1)
        left, right = ids[:at], ids[at:]
        return self._cut(
            {(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}
        )

    def bridge(self) -> bool:
        """Two halves that share one replica."""
        ids = self.dice.sample(self.world.ids, len(self.world.ids))
        left, right = ids[1 : len(ids) // 2 + 1], ids[len(ids) // 2 + 1 :]
        return self._cut(
            {(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}
        )

    # -- disks and snapshots -------------------------------------------------------------------

    def slow_disk(self) -> bool:
        replica = self.dice.choice(list(self.world.replicas.values()))
        replica.sync_slowness = self.dice.choice((10, 50, 200))

        def recover() -> None:
            replica.sync_slowness = 1

        self.world.schedule(200 + self.dice.randrange(2_000), recover)
        return True

    def snapshot(self) -> bool:
        replica = self._any_up()
        if replica is None:
            return False
        replica.take_snapshot(sorted(replica.disk.snapshots)[-1:])
        return True

    def lose_disk(self) -> bool:
        replica = self.dice.choice(list(self.world.replicas.values()))
        if not self._is_loss_bearable(replica.key):
            return False
        if replica.is_up:
            self._stop(replica, power_cut=True)
        self.world.replace_disk(replica)
        return True

    def _is_loss_bearable(self, key: ReplicaKey) -> bool:
        lost = self.world.lost_keys | {key}
        return all(
            len([k for k in voters.keys if k not in lost]) >= voters.majority_count
            for voters in self._voter_sets()
        )

    def _voter_sets(self) -> list[VoterSet]:
        """The one that is committed, and those that still may be."""
        history = self.world.checkers.log
        sets = [history.committed_voters]
        for replica in self.world.replicas.values():
            log = replica.disk.log
            open_batches = log.batches[log.slot_of(history.committed_end) :]
            sets += [batch.voters for batch in open_batches if batch.voters is not None]
        return sets

    # -- voters --------------------------------------------------------------------------------

    def change_voters(self) -> bool:
        """By a tool; sometimes by two at once."""
        leader = self.world.leader()
        if leader is None or not leader.can_step():
            return False
        is_done = self._change(leader)
        if self.dice.random() < 0.3 and leader.can_step() and leader.node.is_leader:
            self._change(leader)
        return is_done

    def _change(self, leader: Replica) -> bool:
        voters = leader.node.voters.latest
        lost = [key for key in voters.keys if key in self.world.lost_keys]
        if lost:
            return self._remove(leader, lost[0])
        outside = [r for r in self.world.replicas.values() if r.key not in voters]
        if outside and len(voters) < VOTERS_MAX and self.dice.random() < 0.6:
            return self._add(leader, self.dice.choice(outside))
        if len(voters) > 1 and self.dice.random() < 0.6:
            return self._remove(leader, self.dice.choice(voters.keys))
        return self._update(leader, self.dice.choice(voters.keys))

    def _add(self, leader: Replica, replica: Replica) -> bool:
        if not replica.is_up:
            return False
        leader.on_admin_request(
            AddRaftVoterRequest(
                cluster_id=self.world.cluster_id,
                voter_id=replica.node_id,
                voter_directory_id=replica.disk.directory_id,
                listeners=[Listener(name="C", host="added", port=replica.node_id)],
                timeout_ms=self.dice.choice((0, 0, 300, 3_000)),
                ack_when_committed=self.dice.random() < 0.5,
            )
        )
        return True

    def _remove(self, leader: Replica, key: ReplicaKey) -> bool:
        voters = leader.node.voters.latest.without(key)
        alive = [k for k in voters.keys if k not in self.world.lost_keys]
        if len(alive) < voters.majority_count:
            return False
        leader.on_admin_request(
            RemoveRaftVoterRequest(
                cluster_id=self.world.cluster_id,
                voter_id=key.id,
                voter_directory_id=key.directory_id,
            )
        )
        return True

    def _update(self, leader: Replica, key: ReplicaKey) -> bool:
        leader.on_admin_request(
            UpdateRaftVoterRequest(
                cluster_id=self.world.cluster_id,
                current_leader_epoch=leader.node.epoch,
                voter_id=key.id,
                voter_directory_id=key.directory_id,
                listeners=[UpdatedListener(name="C", host="updated", port=key.id)],
            )
        )
        return True
