"""Carrying out a plan of moves: a few partitions at a time, watched until they have arrived.

Owns: the order of moves, the wait for them, throttles for as long as they take, the election of the
leaders that the plan wants. Must not know: how plans are made (`replica_plan`), the screen.

Nothing is remembered outside the cluster: whoever stops this and runs it again finds what is under
way, waits for it, and plans the rest. Moves that were begun go on without us, and so does their
throttle: without it they would take all that the disks have. The next run, or `cancel`, lifts it.

Invariants: when this ends and nothing moves, no throttle of a move is left, whoever set it.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.client.cluster import Cluster
from headrace.client.cluster_changes import (
    elect_leaders,
    reassign,
    throttle,
    throttled_brokers,
    throttled_topics,
    unthrottle,
)
from headrace.client.cluster_state import (
    ClusterState,
    describe_brokers,
    describe_state,
    list_reassignments,
    log_dirs_at,
)
from headrace.client.errors import ClientError
from headrace.client.replica_plan import Key, Move, Plan

MOVES_AT_ONCE = 20
POLL_S = 0.5
LOOKS = 50
LOOK_S = 0.1
"""The controller says when a move has ended; the broker that is asked where its partition is now
may hear of it later."""

Planner = Callable[[ClusterState], Plan]


class Watcher(Protocol):
    """Who is told how far it is."""

    def on_begun(self, total_bytes: int, partitions: int) -> None: ...

    def on_progress(self, done_bytes: int, partitions_left: int) -> None: ...

    def on_throttle_left(self) -> None:
        """It ends early, and moves that were begun go on, throttled."""
        ...

    def on_throttle_found(self) -> None:
        """An earlier run had left one; it is lifted."""
        ...


class Moves:
    """What has to be copied where; known from a plan or from what is under way."""

    def __init__(self, moves: Iterable[Move]) -> None:
        self.left = {(move.topic, move.index): move for move in moves}
        self.total_bytes = sum(move.moved_bytes for move in self.left.values())
        self._arrived_bytes = 0

    def on_arrived(self, key: Key) -> None:
        self._arrived_bytes += self.left.pop(key).moved_bytes

    def done_bytes(self, cluster: Cluster) -> int:
        """What arrived, and what the new replicas of the others have so far."""
        wanted: dict[int, dict[str, list[int]]] = {}
        for (topic, index), move in self.left.items():
            for broker_id in move.adding:
                wanted.setdefault(broker_id, {}).setdefault(topic, []).append(index)
        done = self._arrived_bytes
        for broker_id, keys in wanted.items():
            address = cluster.brokers.get(broker_id)
            if address is None:
                continue
            for directory in log_dirs_at(cluster, address.host, address.port, keys):
                for (topic, index), size in directory.sizes.items():
                    if index in keys.get(topic, ()):
                        done += min(size, self.left[topic, index].size_bytes)
        return done


@dataclass(slots=True)
class Done:
    moved: int = 0
    moved_bytes: int = 0
    elected: int = 0
    unelected: dict[Key, str] = field(default_factory=dict)


class Rebalance:
    def __init__(
        self,
        cluster: Cluster,
        watcher: Watcher,
        *,
        throttle_bytes: int | None = None,
        moves_at_once: int = MOVES_AT_ONCE,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._watcher = watcher
        self._throttle_bytes = throttle_bytes
        self._at_once = moves_at_once
        self._pause = pause
        self._throttled: set[str] = set()
        """Topics with throttled replicas."""
        self.done = Done()

    def run(self, planner: Planner, rounds: int = 1) -> Done:
        """Wait for what is under way, then plan and move; again for as many rounds as need be."""
        try:
            self._finish_begun()
            for _ in range(rounds):
                made = planner(describe_state(self._cluster))
                if not made.moves:
                    break
                self._carry_out(made)
        except BaseException:  # Ctrl-C, too
            if self._throttled:
                self._lift_if_nothing_moves()
            raise
        was_ours = bool(self._throttled)
        if lift_throttles(self._cluster, self._throttled) and not was_ours:
            self._watcher.on_throttle_found()
        return self.done

    def _lift_if_nothing_moves(self) -> None:
        try:
            if not list_reassignments(self._cluster):
                lift_throttles(self._cluster, self._throttled)
                return
        except ClientError:
            pass  # what ended us is told; that the throttle stays is told below
        self._watcher.on_throttle_left()

    # -- moving ----------------------------------------------------------------------------

    def _finish_begun(self) -> None:
        state = describe_state(self._cluster)
        begun = [
            Move(
                part.topic,
                part.index,
                tuple(each for each in part.replicas if each not in part.adding),
                part.target,
                part.size_bytes,
            )
            for part in state.moving
        ]
        if not begun:
            return
        if self._throttle_bytes is not None:
            self._throttle(begun)
        moves = Moves(begun)
        self._watcher.on_begun(moves.total_bytes, len(begun))
        self._await(moves, begun)
        self._elect(begun)

    def _carry_out(self, made: Plan) -> None:
        # Those that copy nothing first: leadership is even before the long part begins.
        ordered = sorted(made.moves, key=lambda move: (move.moved_bytes > 0, -move.moved_bytes))
        moves = Moves(ordered)
        self._watcher.on_begun(moves.total_bytes, len(ordered))
        for start in range(0, len(ordered), self._at_once):
            batch = ordered[start : start + self._at_once]
            if self._throttle_bytes is not None:
                self._throttle(batch)
            reassign(self._cluster, {(move.topic, move.index): move.after for move in batch})
            self._await(moves, batch)
            self._elect(batch)

    def _throttle(self, moves: Sequence[Move]) -> None:
        assert self._throttle_bytes is not None
        throttle(self._cluster, moves, self._broker_ids(), self._throttle_bytes)
        self._throttled |= {move.topic for move in moves if move.adding}

    def _broker_ids(self) -> list[int]:
        return [broker.broker_id for broker in describe_brokers(self._cluster)]

    def _await(self, moves: Moves, batch: Sequence[Move]) -> None:
        waiting = {(move.topic, move.index): move for move in batch}
        while True:
            moving = {(each.topic, each.index) for each in list_reassignments(self._cluster)}
            for key in [key for key in waiting if key not in moving]:
                moves.on_arrived(key)
                del waiting[key]
            self._watcher.on_progress(moves.done_bytes(self._cluster), len(moves.left))
            if not waiting:
                break
            self._pause(POLL_S)
        self._check_arrived(batch)

    def _check_arrived(self, batch: Sequence[Move]) -> None:
        """Somebody else may have cancelled a move, or deleted a topic."""
        arrived, astray = self._look_for(batch)
        for _ in range(LOOKS):
            if not astray:
                break
            self._pause(LOOK_S)
            arrived, astray = self._look_for(batch)
        self.done.moved += len(arrived)
        self.done.moved_bytes += sum(move.moved_bytes for move in arrived)
        if astray:
            raise ClientError(
                f"{len(astray)} partitions did not arrive, such as {astray[0].topic}-"
                f"{astray[0].index}: were they cancelled? Run it again to go on"
            )

    def _look_for(self, batch: Sequence[Move]) -> tuple[list[Move], list[Move]]:
        """Moves whose partitions are where they shall be, and the others; not of topics that are
        gone."""
        self._cluster.topics.clear()
        self._cluster.retry(lambda _: self._cluster.refresh(None))
        arrived: list[Move] = []
        astray: list[Move] = []
        for move in batch:
            topic = self._cluster.topics.get(move.topic)
            if topic is None:
                continue
            now = next((p.replicas for p in topic.partitions if p.index == move.index), ())
            (arrived if set(now) == set(move.after) else astray).append(move)
        return arrived, astray

    def _elect(self, batch: Sequence[Move]) -> None:
        keys = [(move.topic, move.index) for move in batch]
        elected, failed = elect_leaders(self._cluster, keys)
        self.done.elected += len(elected)
        self.done.unelected.update(failed)


def cancel(cluster: Cluster) -> list[Key]:
    """End all moves that are under way; their throttles with them, and any that were left."""
    keys = [(each.topic, each.index) for each in list_reassignments(cluster)]
    if keys:
        reassign(cluster, dict.fromkeys(keys))
    lift_throttles(cluster, {topic for topic, _ in keys})
    return keys


def lift_throttles(cluster: Cluster, topics: Iterable[str] = ()) -> bool:
    """Of these topics, and of all others that have one; False if there was none."""
    brokers = [broker.broker_id for broker in describe_brokers(cluster)]
    known = set(topics)
    if not known and not throttled_brokers(cluster, brokers):
        return False
    known |= throttled_topics(cluster, {part.topic for part in describe_state(cluster).partitions})
    if not known:
        return False  # rates alone hold nobody back but whom somebody named by a rule
    unthrottle(cluster, known, brokers)
    return True
