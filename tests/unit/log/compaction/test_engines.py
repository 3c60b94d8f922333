"""The compiled engine gives what the Python one gives, byte for byte."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.log.compaction.engine import PythonEngine
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.record_batch import crc_of

pytest.importorskip("numba")
np = pytest.importorskip("numpy")
compiled = pytest.importorskip("headrace.log.compaction.compiled")


def test_siphash_is_the_published_one() -> None:
    """The first vectors of SipHash-2-4-128's reference implementation."""
    key = bytes(range(16))
    k0, k1 = (np.uint64(int.from_bytes(part, "little")) for part in (key[:8], key[8:]))
    data = np.frombuffer(bytes(range(64)), np.uint8)
    expected = {
        0: "a3817f04ba25a8e66df67214c7550293",
        1: "da87c1d86b99af44347659119b22fc45",
        2: "8177228da4a45dc7fca38bdef60affe4",
    }
    for length, digest in expected.items():
        words = compiled.siphash(data, 0, length, k0, k1)
        assert b"".join(int(word).to_bytes(8, "little") for word in words).hex() == digest


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_crc_is_the_batches_one(size: int) -> None:
    batch = bytes(21) + random.Random(size).randbytes(size)
    data = np.frombuffer(batch, np.uint8)
    assert int(compiled.crc32c(data, 21, len(batch), compiled._TABLES)) == crc_of(
        batch, 0, len(batch)
    )


def fill(bench: Any, rng: random.Random) -> None:
    """Everything that a log may hold, more than once cleaned."""
    sequences: dict[int, int] = {}
    for _ in range(3):
        for _ in range(rng.randint(5, 40)):
            bench.clock.advance(rng.randint(0, 300))
            count = rng.randint(1, 6)
            records = [
                (b"k%d" % rng.randint(0, 9), rng.choice([None, b"", rng.randbytes(30)]))
                for _ in range(count)
            ]
            codec = rng.choice([Compression.NONE, Compression.NONE, Compression.ZSTD])
            producer_id = rng.choice([-1, -1, 5, 6])
            if producer_id < 0:
                bench.put(*records, codec=codec)
                continue
            sequence = sequences.get(producer_id, 0)
            sequences[producer_id] = sequence + count
            bench.put(
                *records,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            )
            if rng.random() < 0.7:
                bench.mark(producer_id, commit=rng.random() < 0.6)
        for producer_id in list(bench.log.producers.ongoing):
            bench.mark(producer_id, commit=rng.random() < 0.5)
        bench.roll_and_clean()


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_leave_the_same_files(make_bench: Callable[..., Any], seed: int) -> None:
    trees = []
    for engine in (PythonEngine, compiled.CompiledEngine):
        bench = make_bench(engine=engine)
        fill(bench, random.Random(seed))
        trees.append({name: bench.disk.read_file(f"/d/t-0/{name}") for name in files(bench)})
    assert trees[0] == trees[1]


def files(bench: Any) -> list[str]:
    return [name for name in bench.disk.list("/d/t-0") if not name.endswith(".deleted")]


def test_damage_stops_the_compiled_one_too(make_bench: Callable[..., Any]) -> None:
    bench = make_bench(engine=compiled.CompiledEngine)
    bench.put((b"a", b"1"), (b"b", b"1234"))
    bench.put((b"a", b"2"))
    bench.log.roll()
    bench.log.flush_now()
    bench.disk.open(bench.log.segments[0].log.path).write_at(61 + 20, b"\xff")
    with pytest.raises(Exception, match="wrong CRC"):
        bench.clean()
