"""Ranges of offsets: what one task reads.

Owns: the value, and how a range is cut into parts. Must not know: how anything is read.
Invariant: `start` is inclusive and `end` exclusive; not every offset of a range has a record
(transaction markers, compaction), so a range of n offsets holds at most n records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of one partition.

    `topic_id`, as Kafka prints ids, says which topic of that name is meant; empty is any.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""

    @property
    def count(self) -> int:
        return max(0, self.end - self.start)

    @property
    def where(self) -> tuple[str, int]:
        return self.topic, self.partition


def split(ranges: Sequence[OffsetRange], count_min: int) -> list[OffsetRange]:
    """The ranges that hold anything, the large ones cut so that there are at least `count_min`.

    Each range is cut into equal parts, as many as its share of all offsets asks for.
    """
    filled = [each for each in ranges if each.count > 0]
    total = sum(each.count for each in filled)
    if len(filled) >= count_min:
        return filled
    parts: list[OffsetRange] = []
    for each in filled:
        wanted = -(-each.count * count_min // total)
        parts += _cut(each, min(wanted, each.count))
    return parts


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.count * index // count for index in range(count + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(bounds)]
