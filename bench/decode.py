"""Record batches into Arrow on one core: rows a second of CPU, by codec and size of values.

    python -m bench.decode [--rows 200000]

Owns: batches in memory as a fetch would bring them, and the best of a few runs over them. No
broker and no socket: what a task pays besides is the receive. CPU time is counted, so that a busy
machine matters less.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from headrace.pipeline.decode.checksum import checksum
from headrace.pipeline.decode.columnar import decode
from headrace.pipeline.decode.unfold import Bytes, Unfolder
from headrace.pipeline.decode.walk import walk
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.records import build_batch

BATCH_BYTES = 512 * 1024
FETCH_BYTES = 16 * 1024 * 1024
RUNS = 5


def event(dice: random.Random, size: int) -> bytes:
    """A JSON event with a text that fills it up to `size`."""
    head = json.dumps(
        {"order": dice.randrange(10**9), "user": dice.randrange(10**6), "total": dice.random()}
    )
    return (head + "".join(dice.choices("abcdefgh ", k=max(0, size - len(head))))).encode()


def fetches(rows: int, size: int, codec: Compression) -> list[Bytes]:
    """Buffers as large as a fetch, together with at least `rows` rows."""
    dice = random.Random(size)
    values = [event(dice, size) for _ in range(64)]
    buffers, current, offset = [], bytearray(), 0
    per_batch = max(1, BATCH_BYTES // size)
    while offset < rows:
        records = [
            (b"key-%08d" % (offset + index), values[index % 64], (), 1_700_000_000_000 + index)
            for index in range(per_batch)
        ]
        current += build_batch(records, base_offset=offset, compression=codec)
        offset += per_batch
        if len(current) >= FETCH_BYTES:
            buffers.append(np.frombuffer(current, np.uint8))
            current = bytearray()
    if current:
        buffers.append(np.frombuffer(current, np.uint8))
    return buffers


def batches(buffers: list[Bytes]) -> Iterator[pa.RecordBatch]:
    unfolder, position = Unfolder(), 0
    for raw in buffers:
        walked = walk(raw.data, position, 1 << 60)
        for portion in unfolder.portions(raw, walked.spans, 1 << 20):
            yield decode(portion, 0, position, 1 << 60)
        position = walked.next_offset


def best_s(work: Callable[[], object]) -> float:
    took = []
    for _ in range(RUNS):
        before_s = time.process_time()
        work()
        took.append(time.process_time() - before_s)
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    wanted = parser.parse_args().rows
    print(
        f"{'bytes':>6} {'codec':>7} {'decode k rows/s':>16} {'MB/s':>7} {'checksum k rows/s':>18}"
    )
    for size in (100, 1024):
        for codec in Compression:
            buffers = fetches(wanted, size, codec)
            made = list(batches(buffers))
            rows = sum(batch.num_rows for batch in made)
            decode_s = best_s(lambda buffers=buffers: [None for _ in batches(buffers)])
            checksum_s = best_s(lambda made=made: [checksum(batch) for batch in made])
            print(
                f"{size:>6} {codec.name.lower():>7} {rows / decode_s / 1e3:>16,.0f} "
                f"{rows * size / decode_s / 1e6:>7,.0f} {rows / checksum_s / 1e3:>18,.0f}"
            )


if __name__ == "__main__":
    main()
