"""Damage to every kind of file: bit flips, cuts, junk, missing files.

One rule for all: either the log refuses with the file's name, or it serves a prefix of what was
written, byte for byte, that reaches at least to the recovery point. Never anything else.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.errors import CorruptionError, UsageError
from headrace.wire.kafka.record_batch import crc_of, read_header

FILES = {
    "log": lambda name: name.endswith(".log"),
    "index": lambda name: name.endswith(".index"),
    "timeindex": lambda name: name.endswith(".timeindex"),
    "snapshot": lambda name: name.endswith(".snapshot"),
    "epochs": lambda name: name.endswith("leader-epoch-checkpoint"),
    "metadata": lambda name: name.endswith("partition.metadata"),
    "recovery-point": lambda name: name.endswith("recovery-point-offset-checkpoint"),
    "log-start": lambda name: name.endswith("log-start-offset-checkpoint"),
    "high-watermark": lambda name: name.endswith("replication-offset-checkpoint"),
    "meta": lambda name: name.endswith("meta.properties"),
    "marker": lambda name: name.endswith(".kafka_cleanshutdown"),
}
STOPS = ("close", "kill")


def prepare(world: Callable[..., Any], seed: int, stop: str) -> Any:
    """A log of several segments, stopped; `w.synced_end` is what its checkpoint promises."""
    w = world(seed)
    for _ in range(25):
        w.produce()
    if stop == "close":
        w.directory.close()
        w.synced_end = w.log.log_end_offset
    else:
        w.synced_end = 0
    w.disk.kill()
    return w


def judge(w: Any, *, spoiled: bool = False) -> str:
    """Open and compare. With `spoiled`, served batches may carry damage that a CRC shows."""
    try:
        log = w.open()
    except (CorruptionError, UsageError) as error:
        return named(error, "refused")
    assert log.log_end_offset >= w.synced_end
    written = {batch.base_offset: batch for batch in w.written}
    offset = log.log_start_offset
    for _ in range(10_000):
        if offset >= log.log_end_offset:
            break
        try:
            region = log.read(offset, 700, log.log_end_offset).region
        except CorruptionError as error:
            return named(error, "refused on read")
        assert region is not None
        piece = region.file.read(region.position, region.length)
        position = 0
        while position + 61 <= len(piece):
            header = read_header(piece, position)
            batch = piece[position : position + header.size_bytes]
            if spoiled and crc_of(batch, 0, len(batch)) != header.crc:
                return "shown by CRC"
            assert batch == written[header.base_offset].content
            position += header.size_bytes
            offset = header.next_offset
        assert position == len(piece)
    for producer_id in w.log.producers.entries:
        last = [b for b in w.written if b.producer_id == producer_id][-1]
        if last.last_offset < log.log_end_offset:
            view = memoryview(bytearray(last.content))
            staged = log.stage(view, read_header(view), 0, w.clock.now_ms())
            assert staged.duplicate
            assert staged.base_offset == last.base_offset
    return "served"


def named(error: Exception, outcome: str) -> str:
    """A refusal must say which file it is about."""
    return outcome if "/data" in str(error) else f"no file named: {error}"


def paths_of(w: Any, kind: str) -> list[str]:
    return [path for path in w.disk.tree() if FILES[kind](path)]


def in_unchecked_bytes(content: bytes, place: int) -> bool:
    """Offset and epoch of a batch: no CRC covers them, only a scan's order of offsets."""
    position = 0
    while position < len(content):
        size = read_header(content, position).size_bytes
        if place < position + size:
            return place < position + 16
        position += size
    return False


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", FILES)
def test_b1_one_bit_flipped(world: Callable[..., Any], kind: str, stop: str) -> None:
    outcomes: dict[str, int] = {}
    for seed in range(24):
        w = prepare(world, seed % 4, stop)
        paths = [path for path in paths_of(w, kind) if w.disk.size(path)]
        if not paths:
            continue
        w.rng.seed(seed)
        path = w.rng.choice(paths)
        content = bytearray(w.disk.read_file(path))
        place = w.rng.randrange(len(content))
        if kind == "log" and stop == "close" and in_unchecked_bytes(content, place):
            continue
        content[place] ^= 1 << w.rng.randrange(8)
        w.disk.overwrite(path, bytes(content))
        outcome = judge(w, spoiled=kind == "log" and stop == "close")
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert set(outcomes) <= {"refused", "refused on read", "shown by CRC", "served"}, outcomes
    if kind in ("index", "timeindex", "snapshot", "epochs", "metadata", "high-watermark"):
        assert set(outcomes) <= {"served"}, outcomes


@pytest.mark.parametrize("stop", STOPS)
def test_b2_cut_at_every_byte_of_the_last_batch(world: Callable[..., Any], stop: str) -> None:
    w = prepare(world, 1, stop)
    path = max(paths_of(w, "log"), key=lambda path: (w.disk.size(path) > 0, path))
    content = w.disk.read_file(path)
    last = w.written[-1]
    tree = w.disk.tree()
    for size in range(len(content) - len(last.content), len(content)):
        for name, data in tree.items():
            if w.disk.exists(name):
                w.disk.overwrite(name, data)
            else:
                w.disk.replace_file(name, data)
        w.disk.overwrite(path, content[:size])
        w.disk.kill()
        outcome = judge(w)
        if stop == "close":
            assert outcome == "refused"
        else:
            assert outcome == "served"
            assert w.log.log_end_offset == last.base_offset


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", FILES)
def test_b2_cut_anywhere(world: Callable[..., Any], kind: str, stop: str) -> None:
    for seed in range(12):
        w = prepare(world, seed % 3, stop)
        paths = [path for path in paths_of(w, kind) if w.disk.size(path)]
        if not paths:
            continue
        w.rng.seed(seed)
        path = w.rng.choice(paths)
        content = w.disk.read_file(path)
        size = 0 if seed == 0 else w.rng.randrange(len(content))
        w.disk.overwrite(path, content[:size])
        judge(w)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("junk", ["zeros", "ones", "garbage", "duplicate", "half"])
def test_b3_junk_behind_the_end_is_cut(world: Callable[..., Any], junk: str, stop: str) -> None:
    w = prepare(world, 2, stop)
    path = max(paths_of(w, "log"), key=lambda path: (w.disk.size(path) > 0, path))
    content = w.disk.read_file(path)
    last = w.written[-1].content
    tail = {
        "zeros": bytes(5000),
        "ones": b"\xff" * 5000,
        "garbage": w.rng.randbytes(5000),
        "duplicate": last,
        "half": last[: len(last) // 2],
    }[junk]
    w.disk.overwrite(path, content + tail)
    assert judge(w) == "served"
    assert w.log.log_end_offset == w.written[-1].last_offset + 1
    assert w.disk.size(path) == len(content)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", FILES)
def test_b4_a_file_is_missing(world: Callable[..., Any], kind: str, stop: str) -> None:
    w = prepare(world, 3, stop)
    for path in paths_of(w, kind):
        w = prepare(world, 3, stop)
        w.disk.remove(path)
        outcome = judge(w)
        if kind != "log":
            assert outcome == "served"
            assert w.log.log_end_offset == w.written[-1].last_offset + 1


def test_b4_all_indexes_and_snapshots_are_missing(world: Callable[..., Any]) -> None:
    w = prepare(world, 3, "close")
    for kind in ("index", "timeindex", "snapshot", "epochs"):
        for path in paths_of(w, kind):
            w.disk.remove(path)
    assert judge(w) == "served"
    assert w.log.log_end_offset == w.written[-1].last_offset + 1


def test_damage_in_the_middle_names_file_and_position(world: Callable[..., Any]) -> None:
    w = prepare(world, 4, "kill")
    path = paths_of(w, "log")[0]
    content = bytearray(w.disk.read_file(path))
    second = read_header(content).size_bytes
    content[second + 62] ^= 1
    w.disk.overwrite(path, bytes(content))
    with pytest.raises(CorruptionError) as caught:
        w.open()
    assert caught.value.path == path
    assert caught.value.position == second
    assert "a good batch follows" in caught.value.reason
    assert w.disk.read_file(path) == bytes(content), "evidence is left as it was found"
    # The rest of the directory serves on, and the next start looks again.
    other = w.directory.open_partition("t", 1, bytes(range(16)), w.config)
    assert other.log_end_offset == 0
    w.directory.close()
    assert not w.disk.exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize("damage", ["cut", "batches", "zeros", "removed"])
def test_no_synced_segment_loses_its_end_unseen(world: Callable[..., Any], damage: str) -> None:
    """Rows B2 to B4 below the recovery point, where a start reads no more than the ends. Only a
    first segment that is gone looks like one that retention took."""
    for slot in range(4):
        w = world(slot)
        for _ in range(25):
            w.produce()
        w.log.flush_now()
        w.directory.checkpoint({})
        w.synced_end = w.log.log_end_offset
        w.disk.kill()
        path = paths_of(w, "log")[slot]
        content = w.disk.read_file(path)
        sizes = [read_header(content).size_bytes]
        while sum(sizes) < len(content):
            sizes.append(read_header(content, sum(sizes)).size_bytes)
        if damage == "removed":
            w.disk.remove(path)
        elif damage == "batches":
            w.disk.overwrite(path, content[: sum(sizes[: w.rng.randrange(len(sizes))])])
        else:
            size = w.rng.randrange(len(content))
            tail = bytes(len(content) - size) if damage == "zeros" else b""
            w.disk.overwrite(path, content[:size] + tail)
        is_first_removed = damage == "removed" and slot == 0
        assert judge(w) == ("served" if is_first_removed else "refused")


def test_what_ends_below_its_high_watermark_says_so(world: Callable[..., Any]) -> None:
    """An older copy of the last segment: every batch of it is whole."""
    w = prepare(world, 3, "kill")
    w.open()
    w.directory.checkpoint({("t", 0): w.log.log_end_offset})
    end_offset = w.log.log_end_offset
    w.disk.kill()
    path = max(paths_of(w, "log"), key=lambda path: (w.disk.size(path) > 0, path))
    content = w.disk.read_file(path)
    w.disk.overwrite(path, content[: -len(w.written[-1].content)])
    log = w.open()
    assert log.log_end_offset == w.written[-1].base_offset
    assert log.recovered.cut_bytes == 0
    assert log.recovered.missing_up_to == end_offset
