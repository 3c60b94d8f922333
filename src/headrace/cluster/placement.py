"""Which brokers hold a partition: round robin from a start, and the check of what users chose.

Owns: `place` and `manual_refusal`. Must not know: records, requests.

Invariants: replicas of a partition are distinct brokers; first replicas (preferred leaders) are
spread evenly: their counts differ by at most one.
"""

from collections.abc import Sequence


def place(
    brokers: Sequence[int], partition_count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replicas of `partition_count` partitions over `brokers`, beginning at index `start`.

    The followers' distance from the leader grows with each round, so that the load of a lost
    broker falls on all others and not on its neighbour.
    """
    count = len(brokers)
    assert 0 < replication_factor <= count
    placed: list[tuple[int, ...]] = []
    for partition in range(partition_count):
        first = (start + partition) % count
        replicas = [brokers[first]]
        shift = (start + partition) // count
        for follower in range(replication_factor - 1):
            distance = 1 + (shift + follower) % (count - 1)
            replicas.append(brokers[(first + distance) % count])
        placed.append(tuple(replicas))
    return placed


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
