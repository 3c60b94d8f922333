"""Where a pipeline stands: its last batch, its rate, its lag in records and in seconds.

Owns: the arithmetic. Must not know: how it is shown. Lag in records counts offsets between what is
committed and the end that may be read; lag in seconds is the age of the oldest record that is not
yet in a committed file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.batches import Batch, Batches
from headrace.pipeline.plan import Positions, Step, TopicPartition

RECENT_BATCHES = 20

OldestMs = Callable[[TopicPartition, int, int], int | None]
"""The timestamp of the first record in [start, end) of a partition, None if there is none."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    topic: str
    partition: int
    position: int
    end: int
    seconds: float

    @property
    def records(self) -> int:
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class Status:
    pipeline: str
    batches: int
    state: str
    """`idle`, or the step of the batch that is under way."""
    last: Batch | None
    records_per_s: float
    bytes_per_s: float
    lags: tuple[PartitionLag, ...]

    @property
    def lag_records(self) -> int:
        return sum(each.records for each in self.lags)

    @property
    def lag_seconds(self) -> float:
        return max((each.seconds for each in self.lags), default=0.0)

    def to_json(self) -> dict[str, Any]:
        last = None
        if self.last is not None:
            commit = self.last.commit
            last = {
                "number": commit.number,
                "committed_ms": commit.committed_ms,
                "duration_ms": commit.duration_ms,
                "records": commit.records,
                "files": commit.files,
                "size_bytes": commit.size_bytes,
            }
        return {
            "pipeline": self.pipeline,
            "batches": self.batches,
            "state": self.state,
            "last_batch": last,
            "records_per_s": round(self.records_per_s, 1),
            "bytes_per_s": round(self.bytes_per_s, 1),
            "lag_records": self.lag_records,
            "lag_seconds": round(self.lag_seconds, 3),
            "partitions": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "position": each.position,
                    "end": each.end,
                    "lag_records": each.records,
                    "lag_seconds": round(each.seconds, 3),
                }
                for each in self.lags
            ],
        }


def status_of(
    pipeline: str,
    batches: Batches,
    latest: Callable[[Sequence[TopicPartition]], Positions],
    oldest_ms: OldestMs,
    now_ms: int,
    unflushed: Callable[[Positions], Positions] = lambda _: {},
) -> Status:
    """`unflushed` gives the starts of partitions of which no batch is committed yet."""
    standing = batches.standing()
    recent = batches.recent(RECENT_BATCHES)
    last = recent[-1] if recent else None
    positions = {} if last is None else dict(last.plan.positions)
    positions |= unflushed(positions)
    ends = latest(sorted(positions))
    records_per_s, bytes_per_s = rates(recent)
    return Status(
        pipeline=pipeline,
        batches=0 if last is None else last.plan.number + 1,
        state="idle" if standing.step is Step.PLAN else standing.step.name.lower(),
        last=last,
        records_per_s=records_per_s,
        bytes_per_s=bytes_per_s,
        lags=lags_of(positions, ends, oldest_ms, now_ms),
    )


def lags_of(
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    oldest_ms: OldestMs,
    now_ms: int,
) -> tuple[PartitionLag, ...]:
    lags = []
    for where, position in sorted(positions.items()):
        end = ends[where]
        seconds = 0.0
        if end > position:
            oldest = oldest_ms(where, position, end)
            seconds = 0.0 if oldest is None else max(0.0, (now_ms - oldest) / 1000)
        lags.append(PartitionLag(*where, position, end, seconds))
    return tuple(lags)


def rates(recent: Sequence[Batch]) -> tuple[float, float]:
    """Records and bytes a second, from the first plan of the recent batches to the last commit."""
    if not recent:
        return 0.0, 0.0
    span_ms = recent[-1].commit.committed_ms - recent[0].plan.planned_ms
    if span_ms <= 0:
        return 0.0, 0.0
    records = sum(each.commit.records for each in recent)
    size_bytes = sum(each.commit.size_bytes for each in recent)
    return records * 1000 / span_ms, size_bytes * 1000 / span_ms
