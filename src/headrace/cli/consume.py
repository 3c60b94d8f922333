"""`headrace consume`: records of a topic to stdout."""

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import BootstrapServers, Data, Json
from headrace.cli.output import Progress, progress_beside_output, say
from headrace.cli.record_json import record_to_json
from headrace.cli.start import BEGINNING, END, FORMS, Start, parse_start
from headrace.cli.target import open_cluster
from headrace.client.cluster import Cluster
from headrace.client.consumer import ConsumedRecord, Consumer, start_positions
from headrace.client.fetch import READ_COMMITTED, READ_UNCOMMITTED
from headrace.client.group_consumer import GroupConsumer
from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, committed, list_offsets

POLL_MS = 500


def register(app: typer.Typer) -> None:
    app.command("consume")(consume)


From = Annotated[
    str | None,
    typer.Option("--from", "-f", metavar="WHERE", help=f"{FORMS}. Default: beginning."),
]
Group = Annotated[
    str | None,
    typer.Option("--group", "-g", help="Read as a member of this group and commit offsets."),
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", help="Only this one; may be repeated.")
]
Maximum = Annotated[
    int | None, typer.Option("--max", "-n", metavar="N", min=0, help="End after N records.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="End when nothing came for so long."),
]
UntilEnd = Annotated[
    bool, typer.Option("--until-end", "-e", help="End where the topic ended at the start.")
]
KeySeparator = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", metavar="SEP", help="Print KEY SEP VALUE."),
]

IsolationLevel = Annotated[
    str,
    typer.Option(
        "--isolation-level",
        metavar="LEVEL",
        help="read_committed leaves out what is aborted or still open; read_uncommitted does not.",
    ),
]
ISOLATION_LEVELS = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    start: From = None,
    group: Group = None,
    partition: Partitions = None,
    maximum: Maximum = None,
    timeout: Timeout = None,
    until_end: UntilEnd = False,
    key_separator: KeySeparator = None,
    isolation_level: IsolationLevel = "read_committed",
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Print a topic's records until Ctrl-C.

    Values, one a line, or with --json whole records. Of transactions only what is committed, unlike
    Kafka's console consumer, which shows all by default.

    \b
    Examples:
      headrace consume events
      headrace consume events --from end --json
      headrace consume events --from 15m --until-end
      headrace consume events --from 2026-01-31T12:00:00Z --max 10
      headrace consume events --group readers --timeout 5
    """
    if isolation_level not in ISOLATION_LEVELS:
        raise UsageError(f"--isolation-level is one of {', '.join(ISOLATION_LEVELS)}")
    isolation = ISOLATION_LEVELS[isolation_level]
    begin = None if start is None else parse_start(start, int(time.time() * 1000))
    if group is not None:
        _check_group_flags(group, begin, partition)
    with open_cluster(bootstrap_servers, data, timeout_s=timeout) as cluster:
        if group is not None:
            reader: Consumer | GroupConsumer = _group_reader(
                cluster, group, topic, begin, isolation
            )
        else:
            reader = _plain_reader(cluster, topic, begin or BEGINNING, partition, isolation)
        ends = _ends(cluster, topic, partition, isolation) if until_end else None
        records = _taken(reader, maximum, timeout, ends)
        try:
            with progress_beside_output("reading", _count_to(reader, ends)) as shown:
                _print_records(records, shown, as_json=as_json, separator=key_separator)
        except KeyboardInterrupt:
            # The usual way to end an endless command.
            pass
        finally:
            if isinstance(reader, GroupConsumer):
                reader.close()


def _check_group_flags(group: str, begin: Start | None, partition: list[int] | None) -> None:
    if partition:
        raise UsageError("--partition and --group exclude each other: a group assigns partitions")
    if begin not in (None, BEGINNING, END):
        raise UsageError(
            "with --group, --from is beginning or end and counts only where nothing is "
            f"committed; `headrace group reset {group}` moves a group elsewhere"
        )


def _plain_reader(
    cluster: Cluster, topic: str, begin: Start, partition: list[int] | None, isolation: int
) -> Consumer:
    where = _partitions(cluster, topic, partition)
    positions = start_positions(cluster, where, begin.value, is_offset=begin.is_offset)
    if begin.is_offset:
        _note_moved_starts(positions, begin.value)
    # A first record may be deleted before it is read.
    return Consumer(cluster, positions, reset=EARLIEST_TIMESTAMP, isolation_level=isolation)


def _note_moved_starts(positions: dict[tuple[str, int], int], asked: int) -> None:
    for (topic, index), offset in positions.items():
        if offset > asked:
            say(f"{topic}-{index} begins at offset {offset}: what was before it is deleted")
        elif offset < asked:
            say(f"{topic}-{index} ends at offset {offset}, before {asked}: reading from its end")


def _group_reader(
    cluster: Cluster, group: str, topic: str, begin: Start | None, isolation: int
) -> GroupConsumer:
    where = _partitions(cluster, topic, None)
    if begin is not None and committed(cluster, group, where):
        word = "end" if begin == END else "beginning"
        say(
            f"group {group} goes on where it was: --from counts only where nothing is committed; "
            f"`headrace group reset {group} --topic {topic} --to {word}` moves it"
        )
    reset = (begin or BEGINNING).value
    return GroupConsumer(cluster, group, [topic], reset=reset, isolation_level=isolation)


def _partitions(cluster: Cluster, topic: str, wanted: list[int] | None) -> list[tuple[str, int]]:
    count = len(cluster.topic(topic).partitions)
    for index in wanted or ():
        if not 0 <= index < count:
            raise UsageError(f"topic {topic} has {count} partitions: there is no partition {index}")
    return [(topic, index) for index in wanted or range(count)]


def _ends(
    cluster: Cluster, topic: str, wanted: list[int] | None, isolation: int
) -> dict[tuple[str, int], int]:
    where = _partitions(cluster, topic, wanted)
    return list_offsets(cluster, where, LATEST_TIMESTAMP, isolation_level=isolation)


def _count_to(
    reader: Consumer | GroupConsumer, ends: dict[tuple[str, int], int] | None
) -> int | None:
    """How many offsets there are to read, where that is known before."""
    if ends is None or isinstance(reader, GroupConsumer):
        return None
    return sum(end - min(end, reader.positions[where]) for where, end in ends.items())


def _taken(
    reader: Consumer | GroupConsumer,
    maximum: int | None,
    timeout_s: float | None,
    ends: dict[tuple[str, int], int] | None,
) -> Iterator[ConsumedRecord]:
    """Records until the maximum, the end or the time-out, whichever comes first."""
    count = 0
    last_s = time.monotonic()
    while maximum is None or count < maximum:
        if ends is not None and reader.at_end(ends):
            return
        wait_ms = POLL_MS
        if timeout_s is not None:
            left_ms = int((last_s + timeout_s - time.monotonic()) * 1000)
            if left_ms <= 0:
                if maximum is not None:
                    say(f"nothing came for {timeout_s:g} s: {count} of {maximum} record(s)")
                return
            wait_ms = min(wait_ms, left_ms)
        for record in reader.poll(wait_ms):
            if ends is not None and record.offset >= ends.get((record.topic, record.partition), 0):
                continue
            last_s = time.monotonic()
            yield record
            count += 1
            if count == maximum:
                return
        sys.stdout.flush()


def _print_records(
    records: Iterator[ConsumedRecord], shown: Progress, *, as_json: bool, separator: str | None
) -> None:
    out = sys.stdout.buffer
    joint = None if separator is None else separator.encode("utf-8")
    for record in records:
        if as_json:
            line = json.dumps(record_to_json(record), ensure_ascii=False).encode("utf-8")
        elif joint is None:
            line = record.value or b""
        else:
            line = (record.key or b"") + joint + (record.value or b"")
        out.write(line + b"\n")
        shown.advance()
    out.flush()
