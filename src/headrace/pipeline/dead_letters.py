"""Records that did not fit: sent to a topic with what is known of them, and sent back from it.

Owns: the form of a dead letter. Must not know: why a record did not fit, Spark's DataFrames.

A dead letter has the record's value and headers as they were, the key `TOPIC/PARTITION/OFFSET` (so
that one that is sent twice can be told: they are at-least-once) and these headers more:
  headrace.topic, headrace.partition, headrace.offset, headrace.timestamp, headrace.key (if any),
  headrace.cause, headrace.pipeline
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from headrace.client.errors import ClientError
from headrace.client.producer import Producer
from headrace.pipeline.errors import CorruptRecords, DataLost
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.options import LogOptions
from headrace.pipeline.ranges import OffsetRange

PREFIX = "headrace."
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    cause: str
    pipeline: str


def to_headers(letter: DeadLetter) -> Headers:
    told: Headers = [
        ("topic", letter.topic.encode()),
        ("partition", str(letter.partition).encode()),
        ("offset", str(letter.offset).encode()),
        ("timestamp", str(letter.timestamp_ms).encode()),
        ("cause", letter.cause.encode()),
        ("pipeline", letter.pipeline.encode()),
    ]
    if letter.key is not None:
        told.append(("key", letter.key))
    return [*letter.headers, *((PREFIX + name, value) for name, value in told)]


def from_headers(value: bytes | None, headers: Headers) -> DeadLetter | None:
    """None: not a dead letter."""
    own = {n.removeprefix(PREFIX): v for n, v in headers if n.startswith(PREFIX)}
    try:
        return DeadLetter(
            topic=_text(own["topic"]),
            partition=int(_text(own["partition"])),
            offset=int(_text(own["offset"])),
            timestamp_ms=int(_text(own["timestamp"])),
            key=own.get("key"),
            value=value,
            headers=tuple(each for each in headers if not each[0].startswith(PREFIX)),
            cause=_text(own["cause"]),
            pipeline=_text(own["pipeline"]),
        )
    except (KeyError, ValueError):
        return None


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


def send(options: LogOptions, topic: str, letters: Iterable[DeadLetter]) -> int:
    """Returns when all of them are acknowledged by all in-sync replicas."""
    count = 0
    with options.cluster() as cluster:
        producer = Producer(cluster)
        for letter in letters:
            key = f"{letter.topic}/{letter.partition}/{letter.offset}".encode()
            producer.send(topic, letter.value, key=key, headers=to_headers(letter))
            count += 1
        producer.flush()
    return count


def read(options: LogOptions, topic: str) -> Iterator[DeadLetter]:
    """All dead letters of a topic, each once, in the order of their partitions."""
    seen: set[tuple[str, int, int]] = set()
    with LogClient(options) as log:
        where = [(topic, partition) for partition in log.partitions(topic)]
        starts, ends = log.earliest(where), log.latest(where)
    for each in where:
        for letter in _letters(options, OffsetRange(*each, starts[each], ends[each])):
            origin = (letter.topic, letter.partition, letter.offset)
            if origin not in seen:
                seen.add(origin)
                yield letter


def _letters(options: LogOptions, wanted: OffsetRange) -> Iterator[DeadLetter]:
    from headrace.pipeline.log_reader import read_range

    for batch in read_range(options, wanted):
        for row in batch.select(["value", "headers"]).to_pylist():
            headers = [(h["key"], h["value"]) for h in row["headers"]]
            letter = from_headers(row["value"], headers)
            if letter is not None:
                yield letter


def newest_values(
    options: LogOptions, topic: str, pipeline: str, *, records_max: int, bytes_max: int
) -> list[bytes]:
    """Values among a pipeline's last dead letters, as far as they can be had now.

    No reason to stop for whoever asks: the topic may not exist, or lose records meanwhile.
    """
    found: list[bytes] = []
    with suppress(ClientError, DataLost, CorruptRecords):
        with LogClient(options) as log:
            where = [(topic, partition) for partition in log.partitions(topic)]
            starts, ends = log.earliest(where), log.latest(where)
        for each in where:
            start = max(starts[each], ends[each] - max(1, records_max // len(where)))
            room_bytes = bytes_max // len(where)
            for letter in _letters(options, OffsetRange(*each, start, ends[each])):
                if letter.value and letter.pipeline == pipeline:
                    found.append(letter.value)
                    room_bytes -= len(letter.value)
                if room_bytes <= 0:
                    break
    return found


def send_back(options: LogOptions, letters: Iterable[DeadLetter]) -> int:
    """To the topics they came from, as new records with their old keys, headers and times."""
    count = 0
    with options.cluster() as cluster:
        producer = Producer(cluster, auto_create=False)
        for letter in letters:
            producer.send(
                letter.topic,
                letter.value,
                key=letter.key,
                headers=list(letter.headers),
                timestamp_ms=letter.timestamp_ms,
            )
            count += 1
        producer.flush()
    return count
