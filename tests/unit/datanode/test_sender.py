"""Packets of a read: how many are handed to a stream at once, and what they hold."""

import random
from collections.abc import Sequence

import pytest
from tests.unit.datanode.stored import new_dataset, store

from headrace.base.errors import CorruptionError
from headrace.base.events import EventLog
from headrace.base.storage import FileRegion
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.context import Context, TransferSettings
from headrace.datanode.replica import Replica
from headrace.datanode.sender import BlockSender
from headrace.datanode.streams import Part
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.hadoop.block_meta import CRC32C_512
from headrace.wire.hadoop.packets import next_packet

KIB = 1024
DATA = random.Random(7).randbytes(300 * KIB + 77)
PACKET_BYTES = 64 * KIB


class Reader:
    """A stream that takes everything."""

    peer = "reader"
    backlogged = False
    closed = False

    def __init__(self) -> None:
        self.sends: list[bytes] = []

    def send(self, parts: Sequence[Part]) -> None:
        self.sends.append(
            b"".join(
                part.file.read(part.position, part.length)
                if isinstance(part, FileRegion)
                else bytes(part)
                for part in parts
            )
        )

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def land(self, _: object) -> None: ...

    def close(self, reason: str, *, after_sending: bool = False) -> None: ...


@pytest.fixture
def replica_and_context() -> tuple[Replica, Context, SimulatedDisk]:
    clock, disk = SimulatedClock(), SimulatedDisk()
    dataset = new_dataset(disk)
    replica = store(dataset, 1, DATA)
    folder = "/data/current/BP-1/current/finalized/subdir0/subdir0"
    assert replica.paths == (f"{folder}/blk_1", f"{folder}/blk_1_1001.meta")
    assert (replica.data_path, replica.meta_path) == replica.paths
    context = Context(
        dataset,
        lambda *_: None,
        clock,
        None,  # type: ignore[arg-type]
        EventLog(lambda _: None, clock, "info"),
        TransferSettings(read_packet_bytes=PACKET_BYTES),
    )
    return replica, context, disk


def _read(raw: bytes) -> tuple[bytes, int]:
    """The data of all packets, checked, and how many there are with the last, empty one."""
    data, count, at, view = b"", 0, 0, memoryview(raw)
    while at < len(raw):
        packet = next_packet(view, at, len(raw))
        assert packet is not None, "a packet is whole"
        assert packet.seqno == count
        piece = raw[packet.data : packet.end]
        assert raw[packet.checksums : packet.data] == compute_checksums(CRC32C_512, piece)
        data += piece
        count += 1
        at = packet.end
        assert packet.last == (at == len(raw))
    return data, count


def test_a_short_read_is_one_send_with_its_answer_and_its_end(
    replica_and_context: tuple[Replica, Context, SimulatedDisk],
) -> None:
    replica, context, _ = replica_and_context
    reader = Reader()
    sender = BlockSender(context, replica, 1000, 20 * KIB)
    assert sender.send_more(reader, b"answer") == sender.data_bytes
    assert sender.done
    (sent,) = reader.sends
    assert sent[:6] == b"answer"
    data, count = _read(sent[6:])
    assert data == DATA[sender.start : sender.start + sender.data_bytes]
    assert sender.start <= 1000
    assert len(data) >= 20 * KIB
    assert count == 2


def test_a_long_read_comes_in_bounded_pieces(
    replica_and_context: tuple[Replica, Context, SimulatedDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.datanode.sender._AHEAD_BYTES", 2 * PACKET_BYTES)
    replica, context, _ = replica_and_context
    reader = Reader()
    sender = BlockSender(context, replica, 0, len(DATA))
    queued = []
    while not sender.done:
        queued.append(sender.send_more(reader))
    assert queued == [2 * PACKET_BYTES, 2 * PACKET_BYTES, len(DATA) - 4 * PACKET_BYTES]
    data, count = _read(b"".join(reader.sends))
    assert data == DATA
    assert count == 6


def test_nothing_is_sent_of_a_read_whose_checksums_are_gone(
    replica_and_context: tuple[Replica, Context, SimulatedDisk],
) -> None:
    replica, context, disk = replica_and_context
    reader = Reader()
    sender = BlockSender(context, replica, 200 * KIB, 10 * KIB)
    disk.open(replica.meta_path).truncate(100)
    with pytest.raises(CorruptionError, match="too short"):
        sender.send_more(reader, b"answer")
    assert reader.sends == []
