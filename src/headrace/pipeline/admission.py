"""When a batch starts and how far it goes.

Owns: the rule. Must not know: Spark, the log's protocol; time is an argument.

A batch starts when the longest wait has passed since the last one began, or earlier once a
partition has a full file's worth; not at all while there is nothing new. It goes to the end of
every partition, but no further than `FILES_PER_PARTITION_MAX` files' worth, so that work after a
long pause comes in batches of a bounded size; the rest is more than a full file's worth and starts
the next batch at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.plan import Positions

FILES_PER_PARTITION_MAX = 4
ON_TIME = 0.95
"""Whoever asks every second asks now and then a little early: that is not a second more to wait."""


@dataclass(slots=True)
class Admission:
    longest_wait_s: float
    records_per_file: dict[str, int]
    """By topic, as estimated."""
    began_s: float | None = None
    """When the last batch began; None: none yet, so what is there goes at once."""

    def ends(self, starts: Positions, latest: Positions, now_s: float) -> Positions:
        """How far the next batch goes; equal to `starts` if it does not start yet."""
        behind = {tp: latest[tp] - starts.get(tp, 0) for tp in latest}
        if not any(count > 0 for count in behind.values()):
            return dict(starts)
        is_full = any(count >= self._room(tp[0]) for tp, count in behind.items())
        is_due = self.began_s is None or now_s - self.began_s >= self.longest_wait_s * ON_TIME
        if not (is_full or is_due):
            return dict(starts)
        self.began_s = now_s
        return bounded(starts, latest, self.records_per_file)

    def _room(self, topic: str) -> int:
        return self.records_per_file.get(topic, 1 << 62)


def bounded(starts: Positions, latest: Positions, records_per_file: Mapping[str, int]) -> Positions:
    """As far as one batch goes."""
    ends = dict(starts)
    for (topic, partition), end in latest.items():
        start = starts.get((topic, partition), 0)
        room = records_per_file.get(topic, 1 << 62) * FILES_PER_PARTITION_MAX
        ends[topic, partition] = max(start, min(end, start + room))
    return ends


def records_per_file(file_bytes: int, bytes_per_record: float) -> int:
    return max(1, int(file_bytes / max(1.0, bytes_per_record)))
