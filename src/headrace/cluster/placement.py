"""Which brokers hold a partition: striped over racks and brokers, and the check of users' choices.

Owns: `place`, `start_of` and `manual_refusal`. Must not know: records, requests.
Spec: Kafka's StripedReplicaPlacer for the aims: racks first, brokers next, fenced ones last.

Invariants: replicas of a partition are distinct brokers; no rack has a second replica before
every rack that can has a first; a fenced broker is taken only where no other is left, and never
first; first replicas (preferred leaders) are spread evenly: their counts differ by at most one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from headrace.base.randomness import Random


class Candidate(NamedTuple):
    broker_id: int
    rack: str | None = None
    fenced: bool = False


def place(
    candidates: Sequence[Candidate], partition_count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replicas of `partition_count` partitions; `start` is an index into `leader_ring`.

    The followers' distance from the leader grows with each round, so that the load of a lost
    broker falls on all others and not on its neighbour.
    """
    assert 0 < replication_factor <= len(candidates)
    ring = leader_ring(candidates)
    fenced = _interleaved(each for each in candidates if each.fenced)
    placed: list[tuple[int, ...]] = []
    for turn in range(start, start + partition_count):
        first = turn % len(ring)
        replicas = [ring[first]]
        if replication_factor > 1:
            shift = turn // len(ring)
            _add_followers(replicas, replication_factor, list(_others(ring, first, shift)))
            _add_followers(replicas, replication_factor, _rotated(fenced, turn))
        placed.append(tuple(replica.broker_id for replica in replicas))
    return placed


def leader_ring(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that may be first, neighbours in different racks."""
    return _interleaved(each for each in candidates if not each.fenced)


def start_of(ring: Sequence[Candidate], loads: Mapping[int, int], random: Random) -> int:
    """Where to begin: at a broker that has least. Among equals the dice decide."""
    least = min(loads.get(each.broker_id, 0) for each in ring)
    indexes = [index for index, each in enumerate(ring) if loads.get(each.broker_id, 0) == least]
    return indexes[random.randrange(len(indexes))]


def _interleaved(candidates: Iterable[Candidate]) -> list[Candidate]:
    racks: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates):
        racks.setdefault(candidate.rack or "", []).append(candidate)
    rows = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [candidate for row in rows for candidate in row if candidate is not None]


def _others(ring: Sequence[Candidate], first: int, shift: int) -> Iterator[Candidate]:
    count = len(ring)
    for step in range(count - 1):
        yield ring[(first + 1 + (shift + step) % (count - 1)) % count]


def _rotated(candidates: list[Candidate], turn: int) -> list[Candidate]:
    if not candidates:
        return []
    cut = turn % len(candidates)
    return candidates[cut:] + candidates[:cut]


def _add_followers(
    replicas: list[Candidate], replication_factor: int, others: list[Candidate]
) -> None:
    """Take from `others` in order; a rack that has been taken waits for the next pass."""
    used = {_rack(replica) for replica in replicas}
    while others and len(replicas) < replication_factor:
        later = []
        for candidate in others:
            if len(replicas) == replication_factor:
                return
            if _rack(candidate) in used:
                later.append(candidate)
                continue
            used.add(_rack(candidate))
            replicas.append(candidate)
        others = later
        used = set()


def _rack(candidate: Candidate) -> str | int:
    """A broker without a rack stands alone."""
    return candidate.broker_id if candidate.rack is None else candidate.rack


def manual_refusal(
    replicas: Sequence[int], known_brokers: Sequence[int], replication_factor: int
) -> str | None:
    """Why a partition's replicas, as a user chose them, are refused; or None."""
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    if len(set(replicas)) != len(replicas):
        return f"The manual partition assignment includes a broker twice: {list(replicas)}."
    unknown = [broker for broker in replicas if broker not in known_brokers]
    if unknown:
        return (
            f"The manual partition assignment includes broker {unknown[0]}, "
            "but no such broker is registered."
        )
    if len(replicas) != replication_factor:
        return (
            f"The manual partition assignment has a partition with {len(replicas)} replica(s), "
            f"while others have {replication_factor}."
        )
    return None
