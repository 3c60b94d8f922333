"""`headrace produce`: records from stdin into a topic."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, BinaryIO

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.app import BootstrapServers, Data
from headrace.cli.output import print_json, progress, say
from headrace.cli.record_json import BadRecord, Headers, ParsedRecord, parse_record
from headrace.cli.target import open_cluster
from headrace.client.cluster import Cluster
from headrace.client.producer import ACKS_ALL, Delivery, Producer
from headrace.wire.kafka.compression import Compression


class Codec(StrEnum):
    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


class Acks(StrEnum):
    none = "0"
    leader = "1"
    every = "all"


JsonRecords = Annotated[
    bool, typer.Option("--json", help="Lines are JSON records; the summary is JSON too.")
]
KeySeparator = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", metavar="SEP", help="Lines are KEY SEP VALUE."),
]
Key = Annotated[
    str | None, typer.Option("--key", "-k", help="The key of every record without one.")
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="K=V", help="A header for every record."),
]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", help="Default: by key as Java does.")
]
Compress = Annotated[Codec, typer.Option("--compression", "-z", help="How batches are compressed.")]
NeededAcks = Annotated[
    Acks, typer.Option("--acks", help="Who must have a record before it counts as sent.")
]

_ACKS = {Acks.none: 0, Acks.leader: 1, Acks.every: ACKS_ALL}


def register(app: typer.Typer) -> None:
    app.command("produce")(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    as_json: JsonRecords = False,
    key_separator: KeySeparator = None,
    key: Key = None,
    header: Header = None,
    partition: Partition = None,
    compression: Compress = Codec.none,
    acks: NeededAcks = Acks.every,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
) -> None:
    """Send records from stdin, one a line.

    Ends when all of them are acknowledged. A line that is no record ends it too, with exit
    code 1, once what came before that line is sent.

    \b
    Examples:
      echo hello | headrace produce events
      headrace produce events < lines.txt
      printf 'user-1:login\\n' | headrace produce events --key-separator :
      echo '{"key": "k", "value": {"n": 1}}' | headrace produce events --json
      headrace consume events --json --until-end | headrace produce copy --json -z zstd
    """
    if key_separator == "":
        raise UsageError("--key-separator can't be empty")
    record_key = None if key is None else key.encode("utf-8")
    defaults = ParsedRecord(record_key, None, _headers_of(header), partition, None)
    with open_cluster(bootstrap_servers, data) as cluster:
        if partition is not None:
            _check_partition(cluster, topic, partition)
        producer = Producer(
            cluster, acks=_ACKS[acks], compression=Compression[compression.name.upper()]
        )
        lines = _records(sys.stdin.buffer, as_json=as_json, key_separator=key_separator)
        deliveries, bad_line = _send_all(producer, topic, lines, defaults)
    _report(topic, deliveries, as_json=as_json)
    if bad_line is not None:
        raise bad_line


class BadLine(HeadraceError):
    """A line of stdin is no record; those before it are."""

    def __init__(self, number: int, reason: object) -> None:
        super().__init__(
            f"line {number} of stdin: {reason}; this line and those after it were not sent"
        )


def _send_all(
    producer: Producer,
    topic: str,
    lines: Iterator[tuple[int, ParsedRecord]],
    defaults: ParsedRecord,
) -> tuple[list[Delivery], BadLine | None]:
    """Send until the end or the first bad line; either way what was taken is delivered."""
    is_typed = sys.stdin.isatty()
    if is_typed:
        say(f"reading lines for {topic}; Ctrl-D ends")
    deliveries: list[Delivery] = []
    bad_line: BadLine | None = None
    with progress("sending") as shown:
        try:
            for number, record in lines:
                deliveries += _send(producer, topic, number, record, defaults)
                shown.advance()
                if is_typed:
                    deliveries += producer.flush()
        except BadLine as error:
            bad_line = error
        deliveries += producer.flush()
    return deliveries, bad_line


def _send(
    producer: Producer, topic: str, number: int, record: ParsedRecord, defaults: ParsedRecord
) -> list[Delivery]:
    try:
        return producer.send(
            topic,
            record.value,
            key=defaults.key if record.key is None else record.key,
            headers=[*defaults.headers, *record.headers],
            partition=defaults.partition if record.partition is None else record.partition,
            timestamp_ms=record.timestamp_ms,
        )
    except UsageError as error:
        # The flags were checked before: it is the record that names no partition of the topic.
        raise BadLine(number, error) from error


def _check_partition(cluster: Cluster, topic: str, partition: int) -> None:
    count = len(cluster.topic(topic, auto_create=True).partitions)
    if not 0 <= partition < count:
        raise UsageError(f"topic {topic} has {count} partitions: there is no partition {partition}")


def _records(
    source: BinaryIO, *, as_json: bool, key_separator: str | None
) -> Iterator[tuple[int, ParsedRecord]]:
    """The records with the numbers of their lines, up to the first that is none."""
    separator = None if key_separator is None else key_separator.encode("utf-8")
    for number, raw in enumerate(source, start=1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if as_json:
            if not line.strip():
                continue
            try:
                yield number, parse_record(line.decode("utf-8"))
            except (BadRecord, UnicodeDecodeError) as error:
                raise BadLine(number, error) from error
        elif separator is None:
            yield number, ParsedRecord(None, line, [], None, None)
        else:
            record_key, found, value = line.partition(separator)
            if not found:
                raise BadLine(number, f"it has no key separator {key_separator!r}")
            yield number, ParsedRecord(record_key, value, [], None, None)


def _headers_of(pairs: list[str] | None) -> Headers:
    headers: Headers = []
    for pair in pairs or []:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise UsageError(f"-H {pair!r} is not NAME=VALUE")
        headers.append((name, value.encode("utf-8")))
    return headers


def _report(topic: str, deliveries: list[Delivery], *, as_json: bool) -> None:
    count = sum(delivery.record_count for delivery in deliveries)
    if as_json:
        ends: dict[int, dict[str, int]] = {}
        for each in deliveries:
            summary = ends.setdefault(
                each.partition, {"partition": each.partition, "count": 0, "last_offset": -1}
            )
            summary["count"] += each.record_count
            if each.base_offset >= 0:
                summary["last_offset"] = each.base_offset + each.record_count - 1
        partitions = [ends[index] for index in sorted(ends)]
        print_json({"topic": topic, "count": count, "partitions": partitions})
    else:
        say(f"{count} record(s) to {topic}")
