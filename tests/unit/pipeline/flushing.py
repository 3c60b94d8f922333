"""A pipeline in one process: a log in memory, simulated files, real Parquet."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.pipeline.batches import Batches
from headrace.pipeline.columns import RAW_SCHEMA
from headrace.pipeline.decode.checksum import checksum
from headrace.pipeline.fence import Driver, Fence
from headrace.pipeline.flush import FileSettings, FlushTask, write_slice
from headrace.pipeline.layout import Rooms
from headrace.pipeline.options import LogOptions
from headrace.pipeline.plan import Plan, SliceFacts
from headrace.pipeline.publication import Done, Publication, Wanted
from headrace.pipeline.verify import Report, Verifier
from headrace.testing.pipeline_files import SimulatedFiles

HOUR_MS = 3_600_000
BASE_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS
ROOMS = Rooms("/lake", "/lake/_headrace/p", "p")


def record(
    partition: int, offset: int, *, hour: int = 0, value: bytes | None = b""
) -> dict[str, object]:
    return {
        "partition": partition,
        "offset": offset,
        "timestamp": (BASE_MS + hour * HOUR_MS + offset) * 1000,
        "timestampType": 0,
        "key": b"%d" % offset,
        "value": b"value %d" % offset if value == b"" else value,
        "headers": [{"key": "n", "value": b"%d" % offset}],
    }


def batch_of(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, RAW_SCHEMA)


@dataclass
class Flushing:
    rows: dict[tuple[str, int], list[dict[str, object]]] = field(default_factory=dict)
    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    kept_from: int = 0
    rooms: Rooms = ROOMS
    leader_epoch: int = -1

    def read(
        self, topic: str, partition: int, start: int, end: int, size: int = 7
    ) -> Iterator[pa.RecordBatch]:
        found = [r for r in self.rows[topic, partition] if start <= r["offset"] < end]  # type: ignore[operator]
        for at in range(0, len(found), size):
            yield batch_of(found[at : at + size])

    def stage(self, plan: Plan) -> list[SliceFacts]:
        facts = []
        for index, work in enumerate(plan.slices):
            task = FlushTask(
                log=LogOptions("nowhere:1"),
                work=work,
                topic_id="",
                target_url="",
                staging=self.rooms.staging_of(plan.number),
                label=str(index),
                pipeline="p",
                number=plan.number,
                file=FileSettings("zstd"),
            )
            batches = self.read(work.topic, work.partition, work.start, work.end)
            facts.append(write_slice(task, "0", self.files, batches, checksum))
        return facts

    def batches(self) -> Batches:
        return Batches(self.files, self.rooms, "test")

    def flush(self, records_per_file: int = 1000) -> list[Done]:
        fence = Fence(self.files, self.rooms, Driver("here", 1, "test", 0))
        fence.claim()
        publication = Publication(self.files, self.batches(), self.rooms, fence, self.stage)
        ends = {where: rows[-1]["offset"] + 1 for where, rows in self.rows.items()}  # type: ignore[operator]
        return publication.advance(
            Wanted(
                ends=ends,
                starts=dict.fromkeys(ends, 0),
                topic_ids={topic: "id" for topic, _ in ends},
                records_per_file={topic: records_per_file for topic, _ in ends},
                leader_epochs=dict.fromkeys(ends, self.leader_epoch),
            )
        )

    def verify(self) -> Report:
        verifier = Verifier(
            self.files,
            self.batches(),
            self.rooms,
            self.read,
            lambda wanted: dict.fromkeys(wanted, self.kept_from),
            checksum,
        )
        return verifier.verify()

    def published(self) -> list[str]:
        return sorted(p for p in self.files.files if "/topic=" in p)
