"""The last dead letters of one pipeline, in a topic that it may share with others."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace.client.cluster import UnknownTopic
from headrace.pipeline import dead_letters, log_reader
from headrace.pipeline.dead_letters import DeadLetter, newest_values, to_headers
from headrace.pipeline.errors import DataLost
from headrace.pipeline.options import LogOptions
from headrace.pipeline.ranges import OffsetRange

OPTIONS = LogOptions("nowhere:1")


class FakeLog:
    """Two partitions with ten dead letters each, every other one of another pipeline."""

    def __init__(self, _: LogOptions) -> None:
        pass

    def __enter__(self) -> "FakeLog":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, topic: str) -> list[int]:
        if topic != "dead":
            raise UnknownTopic(topic)
        return [0, 1]

    def earliest(self, where: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(where, 0)

    def latest(self, where: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(where, 10)


def read_range(_: LogOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    for offset in range(wanted.start, wanted.end):
        name = "mine" if offset % 2 else "other"
        value = b"%d/%d" % (wanted.partition, offset)
        letter = DeadLetter("t", 0, offset, 0, None, value, (), "cause", name)
        headers = [{"key": key, "value": told} for key, told in to_headers(letter)]
        yield pa.RecordBatch.from_pylist([{"value": value, "headers": headers}])


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "LogClient", FakeLog)
    monkeypatch.setattr(log_reader, "read_range", read_range)


def values(topic: str = "dead", records_max: int = 8, bytes_max: int = 1000) -> list[bytes]:
    return newest_values(OPTIONS, topic, "mine", records_max=records_max, bytes_max=bytes_max)


def test_the_last_of_each_partition_and_only_ones_own() -> None:
    assert values() == [b"0/7", b"0/9", b"1/7", b"1/9"]
    assert values(records_max=1) == [b"0/9", b"1/9"]
    assert values(bytes_max=6) == [b"0/7", b"1/7"]


def test_what_can_not_be_had_now_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert values("nowhere") == []

    def lost(_: LogOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        if wanted.partition == 1:
            raise DataLost("dead", 1, 6, 8, "retention")
        yield from read_range(OPTIONS, wanted)

    monkeypatch.setattr(log_reader, "read_range", lost)
    assert values() == [b"0/7", b"0/9"]
