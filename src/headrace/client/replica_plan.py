"""Where replicas should be: the moves that even out bytes and leadership over brokers.

Owns: the plan, a pure function of what the cluster looks like. Must not know: requests, sockets,
how a plan is carried out (`rebalance`).

A partition weighs its bytes and a little for being there. The plan is made in four steps, each of
which moves no more than it must:
1. what lies on brokers that leave goes to the emptiest others;
2. replicas that share a rack without need are taken apart;
3. replicas go from the fullest broker to the emptiest, the largest that fits between both means,
   until every broker is within the threshold of its share or nothing helps any more;
4. the first replica, which is preferred to lead, is chosen anew where somebody leads too much:
   that costs no bytes.

Invariants: a partition keeps its number of replicas, on distinct brokers; no step puts it on fewer
racks; nothing goes to a broker that is down, cordoned or leaving; partitions that are on the move
already, or have no leader to be copied from, are left alone.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.client.errors import ClientError

PARTITION_COST_BYTES = 1 << 20
"""An empty partition costs something too: without it nobody would spread empty ones."""

Key = tuple[str, int]


class Unplannable(ClientError):
    """What was asked for can't be had; the message says why."""


@dataclass(frozen=True, slots=True)
class PlacedBroker:
    broker_id: int
    rack: str | None = None
    takes_replicas: bool = True
    """Neither down nor cordoned."""


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    topic: str
    index: int
    replicas: tuple[int, ...]
    """As they will be when a move that is under way has ended."""
    size_bytes: int
    is_fixed: bool = False
    """On the move already, or without a leader to be copied from."""

    @property
    def key(self) -> Key:
        return self.topic, self.index

    @property
    def weight(self) -> int:
        return self.size_bytes + PARTITION_COST_BYTES


@dataclass(frozen=True, slots=True)
class Move:
    topic: str
    index: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(each for each in self.after if each not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(each for each in self.before if each not in self.after)

    @property
    def moved_bytes(self) -> int:
        """What has to be copied."""
        return self.size_bytes * len(self.adding)

    @property
    def changes_leader(self) -> bool:
        return self.before[0] != self.after[0]


@dataclass(frozen=True, slots=True)
class Share:
    """What one broker has, or will have."""

    replicas: int = 0
    leaders: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    moves: tuple[Move, ...]
    before: Mapping[int, Share]
    after: Mapping[int, Share]

    @property
    def moved_bytes(self) -> int:
        return sum(move.moved_bytes for move in self.moves)


def plan(
    brokers: Sequence[PlacedBroker],
    partitions: Sequence[PlacedPartition],
    *,
    leaving: Collection[int] = (),
    among: Collection[int] | None = None,
    threshold_percent: float = 10.0,
    is_balancing: bool = True,
) -> Plan:
    """`among`: brokers that take part, None for all. Without `is_balancing` only those that are
    leaving are emptied."""
    draft = _Draft(brokers, partitions, set(leaving), None if among is None else set(among))
    draft.empty_leaving()
    if is_balancing:
        draft.part_racks()
        draft.even_out(threshold_percent)
    draft.choose_leaders()
    moves = tuple(
        Move(part.topic, part.index, part.replicas, after, part.size_bytes)
        for part in partitions
        if (after := tuple(draft.replicas[part.key])) != part.replicas
    )
    before = shares({part.key: part.replicas for part in partitions}, partitions, brokers)
    return Plan(moves, before, shares(draft.replicas, partitions, brokers))


def shares(
    placed: Mapping[Key, Sequence[int]],
    partitions: Iterable[PlacedPartition],
    brokers: Iterable[PlacedBroker],
) -> dict[int, Share]:
    replicas: dict[int, int] = defaultdict(int)
    leaders: dict[int, int] = defaultdict(int)
    sizes: dict[int, int] = defaultdict(int)
    for part in partitions:
        where = placed[part.key]
        leaders[where[0]] += 1
        for broker_id in where:
            replicas[broker_id] += 1
            sizes[broker_id] += part.size_bytes
    ids = sorted({broker.broker_id for broker in brokers} | set(replicas))
    return {each: Share(replicas[each], leaders[each], sizes[each]) for each in ids}


class _Draft:
    """The placement as it becomes."""

    def __init__(
        self,
        brokers: Sequence[PlacedBroker],
        partitions: Sequence[PlacedPartition],
        leaving: set[int],
        among: set[int] | None,
    ) -> None:
        self._racks = {broker.broker_id: broker.rack for broker in brokers}
        self._leaving = leaving
        self._takers = [
            broker.broker_id
            for broker in brokers
            if broker.takes_replicas
            and broker.broker_id not in leaving
            and (among is None or broker.broker_id in among)
        ]
        self._among = among
        self.replicas: dict[Key, list[int]] = {p.key: list(p.replicas) for p in partitions}
        self._free = [part for part in partitions if not part.is_fixed]
        self._loads: dict[int, int] = defaultdict(int)
        self._held: dict[int, list[PlacedPartition]] = defaultdict(list)
        """What may be moved away, by broker, the lightest first."""
        self._touched: set[Key] = set()
        """Partitions of which a replica goes elsewhere."""
        for part in sorted(partitions, key=_lightest_first):
            for broker_id in part.replicas:
                self._loads[broker_id] += part.weight
                if not part.is_fixed:
                    self._held[broker_id].append(part)

    # -- racks -----------------------------------------------------------------------------

    def _rack(self, broker_id: int) -> str | int:
        """A broker without a rack stands alone."""
        rack = self._racks.get(broker_id)
        return broker_id if rack is None else rack

    def _rack_count(self, replicas: Iterable[int]) -> int:
        return len({self._rack(each) for each in replicas})

    def _replaced(self, part: PlacedPartition, source: int, target: int) -> list[int]:
        return [target if each == source else each for each in self.replicas[part.key]]

    def _may_go(self, part: PlacedPartition, source: int, target: int) -> bool:
        now = self.replicas[part.key]
        if target in now:
            return False
        return self._rack_count(self._replaced(part, source, target)) >= self._rack_count(now)

    def _go(self, part: PlacedPartition, source: int, target: int) -> None:
        self.replicas[part.key] = self._replaced(part, source, target)
        self._loads[source] -= part.weight
        self._loads[target] += part.weight
        held = self._held[source]
        del held[bisect_left(held, _lightest_first(part), key=_lightest_first)]
        insort(self._held[target], part, key=_lightest_first)
        self._touched.add(part.key)

    # -- steps -----------------------------------------------------------------------------

    def empty_leaving(self) -> None:
        """The largest first: the small ones fill up what is left uneven."""
        for source in sorted(self._leaving):
            for part in self._held[source][::-1]:
                self._go(part, source, self._home_for(part, source))

    def _home_for(self, part: PlacedPartition, source: int) -> int:
        now = self.replicas[part.key]
        others = [each for each in self._takers if each not in now]
        if not others:
            raise Unplannable(
                f"{part.topic}-{part.index} has {len(now)} replicas, and no broker is left that "
                f"could take the one on {source}: add a broker, uncordon one, or lower the "
                "replication factor"
            )
        return min(
            others,
            key=lambda each: (
                -self._rack_count(self._replaced(part, source, each)),
                self._loads[each],
                each,
            ),
        )

    def part_racks(self) -> None:
        racks = len({self._rack(each) for each in self._takers})
        for part in sorted(self._free, key=_lightest_first, reverse=True):
            for _ in range(len(part.replicas)):
                now = self.replicas[part.key]
                if self._rack_count(now) >= min(len(now), racks) or not self._part_rack(part):
                    break

    def _part_rack(self, part: PlacedPartition) -> bool:
        """Move one of two replicas in one rack to a rack that has none."""
        now = self.replicas[part.key]
        used = [self._rack(each) for each in now]
        doubled = [each for each in now if used.count(self._rack(each)) > 1 and self._takes(each)]
        free = [each for each in self._takers if self._rack(each) not in used]
        if not doubled or not free:
            return False
        source = max(doubled, key=lambda each: (self._loads[each], each))
        self._go(part, source, min(free, key=lambda each: (self._loads[each], each)))
        return True

    def _takes(self, broker_id: int) -> bool:
        return self._among is None or broker_id in self._among

    def even_out(self, threshold_percent: float) -> None:
        if len(self._takers) < 2:
            return
        share = sum(self._loads[each] for each in self._takers) / len(self._takers)
        band = share * threshold_percent / 100
        bound = sum(len(self._held[each]) for each in self._takers)
        for _ in range(bound):
            outside = max(abs(self._loads[each] - share) for each in self._takers)
            if outside <= band or not self._even_out_once(share):
                return

    def _even_out_once(self, share: float) -> bool:
        by_load = sorted(self._takers, key=lambda each: (-self._loads[each], each))
        for source in by_load:
            if self._loads[source] <= share:
                return False
            for target in reversed(by_load):
                if self._loads[target] >= share:
                    break
                part = self._best(source, target, share)
                if part is not None:
                    self._go(part, source, target)
                    return True
        return False

    def _best(self, source: int, target: int, share: float) -> PlacedPartition | None:
        """The largest that leaves both on their side of the mean, else the smallest that helps.

        Of a partition that stays otherwise, if there is one: one that moves as a whole is slower,
        and its leadership has nowhere else to go.
        """
        room = min(self._loads[source] - share, share - self._loads[target])
        worst = max(self._loads[source] - share, share - self._loads[target])
        held = self._held[source]
        border = bisect_right(held, room, key=lambda part: part.weight)
        for may_be_touched in (False, True):
            for part in reversed(held[:border]):
                if part.key in self._touched and not may_be_touched:
                    continue
                if self._may_go(part, source, target):
                    return part
        for part in held[border:]:
            # It goes beyond the mean: only if the larger of both deviations becomes smaller.
            over = max(
                abs(self._loads[source] - part.weight - share),
                abs(self._loads[target] + part.weight - share),
            )
            if over >= worst:
                return None
            if self._may_go(part, source, target):
                return part
        return None

    # -- leaders ---------------------------------------------------------------------------

    def choose_leaders(self) -> None:
        """Until nobody leads two more than somebody who could have one of them, directly or by a
        chain of brokers that each pass one on."""
        led: dict[int, dict[Key, None]] = {each: {} for each in self._takers}
        parts = {part.key: part for part in self._free}
        for key in parts:
            first = self.replicas[key][0]
            if first in led:
                led[first][key] = None
        for _ in range(len(parts)):
            chain = self._chain(led)
            if chain is None:
                return
            for giver, key, taker in chain:
                replicas = self.replicas[key]
                replicas.remove(taker)
                replicas.insert(0, taker)
                del led[giver][key]
                led[taker][key] = None

    def _chain(self, led: dict[int, dict[Key, None]]) -> list[tuple[int, Key, int]] | None:
        for source in sorted(led, key=lambda each: (-len(led[each]), each)):
            came: dict[int, tuple[int, Key]] = {}
            waiting = deque([source])
            while waiting:
                at = waiting.popleft()
                for key in led[at]:
                    for follower in self.replicas[key][1:]:
                        if follower not in led or follower == source or follower in came:
                            continue
                        came[follower] = (at, key)
                        if len(led[follower]) <= len(led[source]) - 2:
                            return _steps(came, source, follower)
                        waiting.append(follower)
        return None


def _steps(
    came: Mapping[int, tuple[int, Key]], source: int, target: int
) -> list[tuple[int, Key, int]]:
    steps: list[tuple[int, Key, int]] = []
    while target != source:
        giver, key = came[target]
        steps.append((giver, key, target))
        target = giver
    return steps[::-1]


def _lightest_first(part: PlacedPartition) -> tuple[int, Key]:
    return (part.weight, part.key)
