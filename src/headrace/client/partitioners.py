"""Which partition a record goes to: as the Java client decides it, and when a key is too much.

Owns: murmur2 over the key's bytes, so that records with one key meet in one partition
whichever client wrote them; the sticky choice for records without a key (KIP-480: one partition
until its batch is sent, then another), which keeps batches full; and for keys that take more than
one partition can, two ways:

- `KeySalt` writes a key under several names, `key~000`, `key~001` …: each name has its partition
  and its order, and compaction works on each. `merged` puts a key's records together again.
- `SpreadingPartitioner` leaves keys as they are and their partitions, too, until one is written
  faster than a threshold: what is above it goes round all partitions. Order within that key is
  lost from there on, and compaction would keep one record of it in each partition.

Must not know: connections, batches.

Invariants: a merge never changes the order within one partition, and gives the same order for the
same records whoever reads them; rates are kept of a bounded number of keys.
"""

import heapq
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

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


SALT_BYTES = 4
_SALT = re.compile(rb"~[0-9a-f]{3}")
BUCKETS_MAX = 1 << 12
KEYS_MAX = 10_000
"""Keys whose rates are kept; the slowest make room."""


class Stamped(Protocol):
    """A record as any consumer gives it: where it stands, and when it was written."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...


R = TypeVar("R", bound=Stamped)


class KeySalt:
    """Names of a key in `bucket_count` buckets. Writers and readers must agree on the count."""

    def __init__(self, bucket_count: int) -> None:
        if not 1 <= bucket_count <= BUCKETS_MAX:
            raise ValueError(f"bucket_count is between 1 and {BUCKETS_MAX}, not {bucket_count}")
        self.bucket_count = bucket_count
        self._next: dict[bytes, int] = {}

    def salted(self, key: bytes, spread_by: bytes | None = None) -> bytes:
        """The key's next name; with `spread_by` the same name for the same bytes, so that what
        must stay in order (an order's lines, say) does."""
        if spread_by is not None:
            bucket = murmur2(spread_by) % self.bucket_count
        else:
            if len(self._next) >= KEYS_MAX and key not in self._next:
                self._next.clear()
            bucket = self._next.get(key, 0)
            self._next[key] = (bucket + 1) % self.bucket_count
        return b"%b~%03x" % (key, bucket)

    def original(self, salted: bytes) -> bytes:
        """The key that a name stands for. ValueError if it is no salted name."""
        key, salt = salted[:-SALT_BYTES], salted[-SALT_BYTES:]
        # `int` alone would take +01, 0_1, 00A or a space for a bucket, which nobody writes.
        is_hex = _SALT.fullmatch(salt) is not None
        if not is_hex or int(salt[1:], 16) >= self.bucket_count:
            raise ValueError(f"{salted!r} is not a key with {self.bucket_count} buckets")
        return key

    def names(self, key: bytes) -> list[bytes]:
        """All names of a key, for who looks for one."""
        return [b"%b~%03x" % (key, bucket) for bucket in range(self.bucket_count)]


def merged(partitions: Iterable[Iterable[R]]) -> Iterator[R]:
    """The records of several partitions, each in its order, as one stream by time.

    A record that is older than the one before it in its partition counts as that one's age:
    otherwise it would have to overtake it.
    """

    def aged(records: Iterable[R]) -> Iterator[tuple[tuple[int, int, int], R]]:
        latest = -(1 << 63)
        for record in records:
            latest = max(latest, record.timestamp)
            yield (latest, record.partition, record.offset), record

    for _, record in heapq.merge(*map(aged, partitions), key=lambda each: each[0]):
        yield record


class SpreadingPartitioner:
    """A key's own partition up to `bytes_per_second`, and round all partitions above it."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        window_s: float = 10.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if bytes_per_second <= 0 or window_s <= 0:
            raise ValueError("bytes_per_second and window_s are above 0")
        self._window_s = window_s
        self._bytes_max = bytes_per_second * window_s
        self._now_s = now_s
        self._used: dict[bytes, tuple[float, float]] = {}
        """Of each key its bytes, fading over the window, and when that was so."""
        self._turn = 0

    def partition(self, key: bytes, size_bytes: int, partition_count: int) -> int:
        """Where a record of that size goes."""
        now_s = self._now_s()
        used = self._used_by(key, now_s) + size_bytes
        if key not in self._used and len(self._used) >= KEYS_MAX:
            self._make_room(now_s)
        self._used[key] = (used, now_s)
        if used <= self._bytes_max:
            return partition_of_key(key, partition_count)
        self._turn += 1
        return self._turn % partition_count

    def hot_keys(self) -> Mapping[bytes, float]:
        """Keys above the threshold now, and their bytes a second."""
        now_s = self._now_s()
        rates = {key: self._used_by(key, now_s) for key in self._used}
        return {key: used / self._window_s for key, used in rates.items() if used > self._bytes_max}

    def _used_by(self, key: bytes, now_s: float) -> float:
        used, since_s = self._used.get(key, (0.0, now_s))
        return used * max(0.0, 1.0 - (now_s - since_s) / self._window_s)

    def _make_room(self, now_s: float) -> None:
        kept = heapq.nlargest(
            KEYS_MAX // 2, self._used, key=lambda key: (self._used_by(key, now_s), key)
        )
        self._used = {key: self._used[key] for key in kept}
