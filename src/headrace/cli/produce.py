"""`headrace produce`: records from stdin into a topic."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, BinaryIO

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import BootstrapServers, Data
from headrace.cli.output import print_json, progress, say
from headrace.cli.record_json import Headers, ParsedRecord, parse_record
from headrace.cli.target import open_cluster
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


_ACKS = {Acks.none: 0, Acks.leader: 1, Acks.every: ACKS_ALL}


def register(app: typer.Typer) -> None:
    app.command("produce")(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Lines are JSON records; the summary is JSON too."),
    ] = False,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="SEP", help="Lines are KEY SEP VALUE."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of every record without one.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="K=V", help="A header for every record."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Default: by key as Java does.")
    ] = None,
    compression: Annotated[
        Codec, typer.Option("--compression", "-z", help="How batches are compressed.")
    ] = Codec.none,
    acks: Annotated[
        Acks, typer.Option("--acks", help="Who must have a record before it counts as sent.")
    ] = Acks.every,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
) -> None:
    """Send records from stdin, one a line.

    Ends when all of them are acknowledged.

    \b
    Examples:
      echo hello | headrace produce events
      headrace produce events < lines.txt
      printf 'user-1:login\\n' | headrace produce events --key-separator :
      echo '{"key": "k", "value": {"n": 1}}' | headrace produce events --json
      headrace consume events --json --until-end | headrace produce copy --json -z zstd
    """
    defaults = _headers_of(header)
    source = sys.stdin.buffer
    if source.isatty():
        say(f"reading lines for {topic}; Ctrl-D ends")
    with open_cluster(bootstrap_servers, data) as cluster, progress("sending") as shown:
        producer = Producer(
            cluster, acks=_ACKS[acks], compression=Compression[compression.name.upper()]
        )
        deliveries: list[Delivery] = []
        for record in _records(source, as_json=as_json, key_separator=key_separator):
            record_key = record.key
            if record_key is None and key is not None:
                record_key = key.encode("utf-8")
            deliveries += producer.send(
                topic,
                record.value,
                key=record_key,
                headers=[*defaults, *record.headers],
                partition=partition if record.partition is None else record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            shown.advance()
            if source.isatty():
                deliveries += producer.flush()
        deliveries += producer.flush()
    _report(topic, deliveries, as_json=as_json)


def _records(
    source: BinaryIO, *, as_json: bool, key_separator: str | None
) -> Iterator[ParsedRecord]:
    separator = None if key_separator is None else key_separator.encode("utf-8")
    if separator == b"":
        raise UsageError("--key-separator can't be empty")
    for number, raw in enumerate(source, start=1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if as_json:
            if not line.strip():
                continue
            try:
                yield parse_record(line.decode("utf-8"))
            except (UsageError, UnicodeDecodeError) as error:
                raise UsageError(f"line {number} of stdin: {error}") from error
        elif separator is None:
            yield ParsedRecord(None, line, [], None, None)
        else:
            record_key, found, value = line.partition(separator)
            if not found:
                raise UsageError(f"line {number} of stdin has no key separator {key_separator!r}")
            yield ParsedRecord(record_key, value, [], None, None)


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
