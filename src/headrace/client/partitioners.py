"""Which partition a record goes to, as the Java client decides it.

Owns: murmur2 over the key's bytes, so that records with one key meet in one partition
whichever client wrote them; and the sticky choice for records without a key (KIP-480:
one partition until its batch is sent, then another), which keeps batches full.
Must not know: connections, batches.
"""

import random
from collections.abc import Sequence

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bits, with the Java client's seed; the result is unsigned."""
    length = len(data)
    state = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ (word >> 24)) * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ word
    if whole < length:
        state ^= int.from_bytes(data[whole:], "little")
        state = state * _MULTIPLIER & _MASK
    state = (state ^ (state >> 13)) * _MULTIPLIER & _MASK
    return state ^ (state >> 15)


def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartition:
    """The partition for records without a key, until `move_on`."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._current: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        current = self._current.get(topic)
        if current is None or current not in available:
            current = self._random.choice(available)
            self._current[topic] = current
        return current

    def move_on(self, topic: str, available: Sequence[int]) -> None:
        """The batch of this topic's partition was sent: take another one if there is one."""
        others = [index for index in available if index != self._current.get(topic)]
        if others:
            self._current[topic] = self._random.choice(others)
