"""Every kind of file, whole and damaged."""

import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from headrace.base.errors import UsageError
from headrace.cli.log_files import rows_of
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.control_records import (
    ControlRecordType,
    encode_control_key,
    encode_control_value,
)
from headrace.wire.kafka.coordinator_records import encode_key, encode_value
from headrace.wire.kafka.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from headrace.wire.kafka.messages.leader_change_message import LeaderChangeMessage
from headrace.wire.kafka.messages.metadata_records import TopicRecord
from headrace.wire.kafka.metadata_records import encode_metadata_record
from headrace.wire.kafka.records import Record, build_batch

NAME = "00000000000000000100"


def rows(path: Path, *, with_records: bool = True) -> list[dict[str, Any]]:
    return list(rows_of(path, with_records=with_records))


def batch(first: int, values: list[bytes], compression: Compression = Compression.NONE) -> bytes:
    records = [Record(first + i, 1_000 + i, b"k", value) for i, value in enumerate(values)]
    return bytes(build_batch(records, base_offset=first, compression=compression, producer_id=9))


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    folder = tmp_path / "events-0"
    folder.mkdir()
    path = folder / f"{NAME}.log"
    path.write_bytes(batch(100, [b"a", b"\xff"]) + batch(102, [b"c"] * 50, Compression.ZSTD))
    return path


def test_a_segment(segment: Path) -> None:
    first, second = rows(segment)
    assert (first["base_offset"], first["last_offset"], first["position"]) == (100, 101, 0)
    assert first["crc_valid"]
    assert first["producer_id"] == 9
    assert first["records"][1] == {
        "offset": 101,
        "timestamp": 1_001,
        "key": "k",
        "value": {"base64": "/w=="},
    }
    assert (second["compression"], second["record_count"]) == ("zstd", 50)
    assert second["position"] == first["size_bytes"]
    assert "records" not in rows(segment, with_records=False)[0]


def test_an_empty_segment(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.log").touch()
    assert rows(tmp_path / f"{NAME}.log") == []


@pytest.mark.parametrize(
    ("tail", "damage"),
    [
        (b"\0" * 10, "10 bytes at the end are less than a batch header"),
        (b"\0" * 100, "magic 0 instead of 2, 100 bytes are left"),
        (batch(152, [b"torn"])[:-1], "the file only"),
    ],
)
def test_a_damaged_tail_is_found(segment: Path, tail: bytes, damage: str) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole + tail)
    *good, bad = rows(segment)
    assert len(good) == 2
    assert damage in bad["damage"]
    assert bad["position"] == len(whole)


def test_a_flipped_bit_is_found(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    first, second = rows(segment)
    assert not first["crc_valid"]
    assert "records" not in first
    assert "checksum" in first["damage"]
    assert second["crc_valid"]


def test_indexes(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.index"
    path.write_bytes(struct.pack(">iiii", 5, 4096, 9, 8192) + bytes(80))
    assert rows(path) == [{"offset": 105, "position": 4096}, {"offset": 109, "position": 8192}]
    path.write_bytes(bytes(800))
    assert rows(path) == []
    path.write_bytes(struct.pack(">ii", 5, 4096) + b"xyz")
    assert "3 bytes" in rows(path)[-1]["damage"]
    path = tmp_path / f"{NAME}.timeindex"
    path.write_bytes(struct.pack(">qi", 1_700_000_000_000, 7) + bytes(24))
    assert rows(path) == [{"timestamp": 1_700_000_000_000, "offset": 107}]
    path = tmp_path / f"{NAME}.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 9, 100, 105, 106))
    assert rows(path)[0]["last_stable_offset"] == 106


def test_a_producer_snapshot(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.snapshot"
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 9, 1, 41, 99, 3, 1_000, -1, -1)
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    (row,) = rows(path)
    assert (row["producer_id"], row["last_sequence"], row["last_offset"]) == (9, 41, 99)
    path.write_bytes(struct.pack(">hI", 1, 7) + body)
    assert "checksum" in rows(path)[0]["damage"]
    path.write_bytes(b"x")
    assert "too short" in rows(path)[0]["damage"]


def test_text_files(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text("0\n2\nevents 0 12\nmy.topic 1 7\n")
    assert rows(path)[1] == {"topic": "my.topic", "partition": 1, "offset": 7}
    path.write_text("0\n3\nevents 0 12\n")
    assert "3 lines are announced, 1 are there" in rows(path)[-1]["damage"]
    path.write_text("")
    assert "damage" in rows(path)[0]
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n1\n4 100\n")
    assert rows(path) == [{"epoch": 4, "start_offset": 100}]
    path = tmp_path / "meta.properties"
    path.write_text("#comment\nversion=1\ncluster.id=a=b\n")
    assert rows(path)[1] == {"key": "cluster.id", "value": "a=b"}
    path = tmp_path / "partition.metadata"
    path.write_text("version: 0\ntopic_id: abc\n")
    assert rows(path)[1] == {"key": "topic_id", "value": "abc"}


def test_cluster_metadata_is_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    path = folder / f"{NAME}.log"
    value = encode_metadata_record(TopicRecord(name="events", topic_id=b"\x01" * 16))
    change = Record(
        101,
        0,
        encode_control_key(ControlRecordType.LEADER_CHANGE),
        encode_control_value(LeaderChangeMessage(leader_id=3)),
    )
    path.write_bytes(
        bytes(build_batch([(None, value, [], 5), (None, b"\x63", [], 5)], base_offset=99))
        + bytes(build_batch([change], base_offset=101, is_control=True))
    )
    first, second = rows(path)
    assert first["records"][0]["type"] == "TopicRecord"
    assert first["records"][0]["value"]["name"] == "events"
    assert "undecoded" in first["records"][1]
    assert second["records"][0]["type"] == "LEADER_CHANGE"
    assert second["records"][0]["value"]["leader_id"] == 3


def test_zeros_ahead_of_the_end_are_damage_in_all_logs_but_the_edits(
    segment: Path, tmp_path: Path
) -> None:
    content = batch(100, [b"edit"])
    edits = tmp_path / "__namespace-0" / segment.name
    edits.parent.mkdir()
    for path in (segment, edits):
        path.write_bytes(content + bytes(700))
    assert rows(edits)[1:] == [{"position": len(content), "unused_bytes": 700}]
    assert "damage" in rows(segment)[1]
    edits.write_bytes(content + bytes(700) + b"\x01")
    assert "damage" in rows(edits)[1]


def test_committed_offsets_are_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    path = folder / f"{NAME}.log"
    key = encode_key(OffsetCommitKey(group="g", topic="events", partition=2))
    value = encode_value(OffsetCommitValue(offset=41, metadata="m"))
    path.write_bytes(bytes(build_batch([(key, value, [], 5), (key, None, [], 6)])))
    first, second = rows(path)[0]["records"]
    assert first["type"] == "OffsetCommit"
    assert (first["key"]["group"], first["value"]["offset"]) == ("g", 41)
    assert second["value"] is None


def test_what_is_not_a_file_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for path in (tmp_path / "notes.txt", tmp_path, tmp_path / f"{NAME}.log"):
        with pytest.raises(UsageError):
            rows(path)
