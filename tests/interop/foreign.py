"""One topic in all codecs and several segments, to be written by one broker and read by another."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.interop.confluent import TIMEOUT_S, create_topic, produce, producer_of
from tests.interop.conftest import Target, start_target

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS_PER_CODEC = 500
TOPIC = "travelling"
START_MS = 1_700_000_000_000


def value_of(number: int) -> bytes:
    return random.Random(number).randbytes(800) + bytes(400)


EXPECTED = [
    (f"{codec}-{n}".encode(), value_of(n)) for codec in CODECS for n in range(RECORDS_PER_CODEC)
]


def write(servers: str) -> None:
    create_topic(servers, TOPIC, config={"segment.bytes": "1048576"})
    number = 0
    for codec in CODECS:
        producer = producer_of(servers, compression_type=codec, batch_size=16_384)
        for n in range(RECORDS_PER_CODEC):
            key = f"{codec}-{n}".encode()
            producer.produce(TOPIC, value_of(n), key, timestamp=START_MS + number)
            number += 1
        assert producer.flush(TIMEOUT_S) == 0


def folder(data: Path) -> Path:
    return next(data.rglob(f"{TOPIC}-0"))


def written_by(name: str, copy: Path) -> Path:
    with start_target(name) as writer:
        write(writer.bootstrap_servers)
        writer.stop()
        shutil.copytree(folder(writer.data), copy)
    assert len(list(copy.glob("*.log"))) >= 3, "too little data to roll segments"
    return copy


def replace_files(data: Path, source: Path) -> None:
    receiver = folder(data)
    for path in receiver.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, receiver)


def served_by(name: str, source: Path, stop: Callable[[Target], None]) -> Iterator[Target]:
    with start_target(name) as receiver:
        create_topic(receiver.bootstrap_servers, TOPIC)
        # A record of its own: from then on the folder is surely there.
        produce(producer_of(receiver.bootstrap_servers), TOPIC, [(None, b"replaced")])
        stop(receiver)
        replace_files(receiver.data, source)
        receiver.start()
        yield receiver
