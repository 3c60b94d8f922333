"""The log alone, without a broker, opens a partition folder that the real Kafka wrote."""

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.foreign import EXPECTED, START_MS, TOPIC

from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import Record, read_records

pytestmark = pytest.mark.java


def topic_id_of(folder: Path) -> bytes:
    fields = dict(
        line.split(": ") for line in (folder / "partition.metadata").read_text().splitlines()
    )
    return base64.urlsafe_b64decode(fields["topic_id"] + "==")


@pytest.fixture(params=["clean", "unclean", "indexes lost"])
def log(
    request: pytest.FixtureRequest, kafka_folder: Path, tmp_path: Path
) -> Iterator[PartitionLog]:
    folder = tmp_path / f"{TOPIC}-0"
    shutil.copytree(kafka_folder, folder)
    if request.param == "indexes lost":
        for path in [*folder.glob("*index"), *folder.glob("*.snapshot")]:
            path.unlink()
    disk = DiskStorage()
    opened = PartitionLog.open(
        disk,
        str(folder),
        TOPIC,
        0,
        LogConfig(segment_bytes=1 << 20),
        SystemClock(),
        topic_id=topic_id_of(folder),
        files=FileBudget(disk),
        clean=request.param == "clean",
    )
    yield opened
    opened.close()
    disk.close()


def read(log: PartitionLog, offset: int) -> Iterator[Record]:
    end = log.log_end_offset
    while offset < end:
        region = log.read(offset, 100_000, end).region
        assert region is not None
        data, position = region.file.read(region.position, region.length), 0
        while position < len(data):
            header = read_header(data, position)
            batch = memoryview(data)[position : position + header.size_bytes]
            yield from (record for record in read_records(batch) if record.offset >= offset)
            position += header.size_bytes
            offset = header.next_offset


def test_every_record_is_read(log: PartitionLog) -> None:
    assert (log.log_start_offset, log.log_end_offset) == (0, len(EXPECTED))
    records = list(read(log, 0))
    assert [(bytes(r.key or b""), bytes(r.value or b"")) for r in records] == EXPECTED
    assert [r.offset for r in records] == list(range(len(EXPECTED)))


def test_every_offset_is_found(log: PartitionLog) -> None:
    for offset in range(0, len(EXPECTED), 97):
        assert next(read(log, offset)).offset == offset


def test_times_are_found(log: PartitionLog) -> None:
    for offset in range(0, len(EXPECTED), 211):
        found = log.offset_for_timestamp(START_MS + offset, log.log_end_offset)
        assert found is not None
        assert found.offset == offset
