"""When the page cache is advised: ahead of long reads, behind those who asked for it."""

from typing import Any, cast

import pytest

from headrace.base.storage import File
from headrace.datanode.page_cache import CacheSettings, ReadAdvice, WriteAdvice
from headrace.wire.hadoop.protos.data_transfer_pb2 import CachingStrategyProto

MIB = 1 << 20
FILE = cast(File, None)


class Told:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def will_need(self, _: File, position: int, length: int) -> None:
        self.calls.append(("ahead", position, length))

    def drop(self, _: File, position: int, length: int) -> None:
        self.calls.append(("drop", position, length))

    def write_out(self, _: File, position: int, length: int) -> None:
        self.calls.append(("out", position, length))


def reads(settings: CacheSettings, asked: Any, end: int, start: int = 0) -> list[Any]:
    told = Told()
    advice = ReadAdvice(told, settings, asked, FILE, start, end)
    for position in range(start, end, MIB):
        advice.on_read(position)
    return told.calls


def test_every_byte_is_read_ahead_once() -> None:
    calls = reads(CacheSettings(readahead_bytes=4 * MIB), None, 20 * MIB + 5)
    assert {name for name, _, _ in calls} == {"ahead"}
    covered = 0
    for _, position, length in calls:
        assert position == covered
        covered += length
    assert covered == 20 * MIB + 5
    assert len(calls) < 12


def test_a_short_read_is_left_alone() -> None:
    settings = CacheSettings(readahead_bytes=4 * MIB, drop_behind_reads=True)
    assert reads(settings, None, 256 * 1024) == []


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (None, {"ahead"}),
        (CachingStrategyProto(), {"ahead"}),
        (CachingStrategyProto(readahead=0), set()),
        (CachingStrategyProto(readahead=0, dropBehind=True), {"drop"}),
        (CachingStrategyProto(dropBehind=True), {"ahead", "drop"}),
    ],
)
def test_a_client_may_ask_otherwise(asked: Any, names: set[str]) -> None:
    calls = reads(CacheSettings(readahead_bytes=4 * MIB), asked, 20 * MIB)
    assert {name for name, _, _ in calls} == names


def test_what_was_sent_is_dropped_and_nothing_else() -> None:
    calls = reads(CacheSettings(drop_behind_reads=True), None, 5 * MIB, start=MIB)
    assert calls == [("drop", at * MIB, MIB) for at in range(1, 4)]


def writes(
    settings: CacheSettings, asked: Any = None, *, will_be_synced: bool = False
) -> list[Any]:
    told = Told()
    advice = WriteAdvice(told, settings, asked, FILE, 0, will_be_synced=will_be_synced)
    if not advice.is_idle:
        for end in range(MIB // 2, 24 * MIB + 1, MIB // 2):
            advice.on_written(end)
    return told.calls


def test_written_data_is_pushed_out_and_dropped_far_behind() -> None:
    assert writes(CacheSettings()) == []
    calls = writes(CacheSettings(sync_behind_writes=True))
    assert calls == [("out", at * MIB, 4 * MIB) for at in range(0, 24, 4)]
    assert writes(CacheSettings(), will_be_synced=True) == calls
    calls = writes(CacheSettings(), CachingStrategyProto(dropBehind=True))
    drops = [(position, length) for name, position, length in calls if name == "drop"]
    assert drops == [(0, 4 * MIB), (0, 8 * MIB), (0, 12 * MIB)]
    asked = CachingStrategyProto(dropBehind=False)
    assert writes(CacheSettings(drop_behind_writes=True), asked) == []
