"""`headrace pipeline`: run, status, verify, compact, redrive."""

import signal
from importlib import import_module
from typing import Annotated, Any

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.base.sizes import size_bytes
from headrace.cli.app import BootstrapServers, Data, Json, group
from headrace.cli.fs_target import fs_url_of
from headrace.cli.output import print_json, print_table, say
from headrace.cli.target import bootstrap_of
from headrace.pipeline.settings import Settings, duration_s, make

commands = group("pipeline", "Flush topics into Parquet files on HDFS, exactly once.")

Config = Annotated[
    str | None,
    typer.Option("--config", "-c", metavar="FILE", help="A TOML file; flags win over it."),
]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="May be repeated.")
]
Pattern = Annotated[
    str | None,
    typer.Option("--topic-pattern", metavar="REGEX", help="All topics whose whole name fits."),
]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="hdfs://HOST:PORT/FOLDER", help="Where files go."),
]
Name = Annotated[
    str | None, typer.Option("--name", help="The pipeline's id. Default: from the target.")
]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="hdfs://…", help="Default: TARGET/_headrace/NAME."),
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands)


@commands.command("run")
def run(
    config: Config = None,
    bootstrap_servers: BootstrapServers = None,
    topic: Topics = None,
    topic_pattern: Pattern = None,
    target: Target = None,
    name: Name = None,
    checkpoint: Checkpoint = None,
    data: Data = None,
    available_now: Annotated[
        bool | None,
        typer.Option("--available-now", help="Flush what is there now, then end."),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option("--trigger", metavar="TIME", help="The longest wait. Default: 60s."),
    ] = None,
    file_size: Annotated[
        str | None, typer.Option("--file-size", metavar="SIZE", help="Default: the block size.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option("--codec", metavar="zstd|snappy", help="Default: zstd.")
    ] = None,
    starting: Annotated[
        str | None,
        typer.Option(
            "--starting",
            metavar="earliest|latest",
            help="Where a pipeline without a checkpoint begins. Default: earliest.",
        ),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="TEXT", help="A query over the view `events`, row by row."),
    ] = None,
    transform: Annotated[
        str | None,
        typer.Option("--transform", metavar="MODULE:FUNCTION", help="A function of a DataFrame."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="DDL|infer",
            help="Of JSON values: `id BIGINT, item STRING`, or `infer` from the first records.",
        ),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option("--event-time", metavar="COLUMN", help="Decides date and hour."),
    ] = None,
    late_after: Annotated[
        str | None,
        typer.Option(
            "--late-after",
            metavar="TIME",
            help="Late is an event time so much before the record's. Default: none is.",
        ),
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(
            "--late", metavar="keep|drop|dead-letter", help="What becomes of them. Default: keep."
        ),
    ] = None,
    dead_letter_topic: Annotated[
        str | None,
        typer.Option("--dead-letter-topic", metavar="TOPIC", help="For rows that do not fit."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Default: local[*,4].")
    ] = None,
    max_restarts: Annotated[
        int | None, typer.Option("--max-restarts", help="Of a failed query. Default: 10.")
    ] = None,
    compact_every: Annotated[
        str | None,
        typer.Option("--compact-every", metavar="TIME", help="Merge small files. Default: never."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", help="Of /metrics. Default: a free one; -1: none."),
    ] = None,
) -> None:
    """Flush topics into files, until it is stopped.

    \b
    Examples:
      headrace pipeline run -b 127.0.0.1:9092 -t orders --target hdfs://127.0.0.1:8020/lake
      headrace pipeline run --config pipeline.toml --available-now
      headrace pipeline run -d DIR -t orders --target /lake --trigger 1s --file-size 32MiB
    """
    given: dict[str, Any] = {
        "available_now": available_now,
        "trigger_s": None if trigger is None else duration_s(trigger),
        "file_bytes": None if file_size is None else size_bytes(file_size),
        "codec": codec,
        "starting": starting,
        "sql": sql,
        "transform": transform,
        "schema": schema,
        "event_time": event_time,
        "late_after_s": None if late_after is None else duration_s(late_after),
        "late": late,
        "dead_letter_topic": dead_letter_topic,
        "master": master,
        "restarts_max": max_restarts,
        "compact_every_s": None if compact_every is None else duration_s(compact_every),
        "metrics_port": metrics_port,
    }
    settings = _settings(
        config, bootstrap_servers, data, topic, topic_pattern, target, name, checkpoint, given
    )
    job = _module("headrace.pipeline.job").Pipeline(settings, say=say)
    signal.signal(signal.SIGTERM, lambda *_: job.stop())
    signal.signal(signal.SIGINT, lambda *_: job.stop())
    job.run()


@commands.command("status")
def status(
    config: Config = None,
    bootstrap_servers: BootstrapServers = None,
    topic: Topics = None,
    topic_pattern: Pattern = None,
    target: Target = None,
    name: Name = None,
    checkpoint: Checkpoint = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show the last batch, the rate, and the lag in records and in seconds.

    \b
    Examples:
      headrace pipeline status --config pipeline.toml
      headrace pipeline status -d DIR --target /lake --json | jq .lag_records
    """
    inspection = _module("headrace.pipeline.inspection")
    settings = _settings(
        config, bootstrap_servers, data, topic, topic_pattern, target, name, checkpoint
    )
    is_said = bool(config or topic or topic_pattern)
    found = inspection.status(settings, as_checkpoint=not is_said)
    if as_json:
        print_json(found.to_json())
        return
    if found.last is None:
        say(f"pipeline {settings.name} has committed no batch yet (state: {found.state})")
        return
    commit = found.last.commit
    print(
        f"pipeline {settings.name}  state {found.state}  batches {found.batches}  "
        f"lag {found.lag_records} records, {found.lag_seconds:.1f} s"
    )
    print(
        f"last batch {commit.number}: {commit.records} records in {commit.files} files, "
        f"{commit.size_bytes} bytes, {commit.duration_ms} ms; "
        f"{found.records_per_s:.0f} records/s, {found.bytes_per_s:.0f} bytes/s"
    )
    print_table(
        ("topic", "partition", "position", "end", "lag", "lag s"),
        [
            (each.topic, each.partition, each.position, each.end, each.records, each.seconds)
            for each in found.lags
        ],
    )


@commands.command("verify")
def verify(
    config: Config = None,
    bootstrap_servers: BootstrapServers = None,
    topic: Topics = None,
    topic_pattern: Pattern = None,
    target: Target = None,
    name: Name = None,
    checkpoint: Checkpoint = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Prove that every committed record is in exactly one file, and the same as in the log.

    \b
    Examples:
      headrace pipeline verify --config pipeline.toml
      headrace pipeline verify -d DIR --target /lake --json
    """
    inspection = _module("headrace.pipeline.inspection")
    settings = _settings(
        config, bootstrap_servers, data, topic, topic_pattern, target, name, checkpoint
    )
    report = inspection.verify(settings)
    if as_json:
        print_json(report.to_json())
    else:
        columns = ("topic", "partition", "from", "to", "files", "records", "in log", "left out", "")
        print_table(
            columns,
            [
                (
                    each.topic,
                    each.partition,
                    each.start,
                    each.end,
                    each.files,
                    each.records,
                    each.log_records,
                    each.filtered + each.dead,
                    "right" if each.is_right else "WRONG",
                )
                for each in report.partitions
            ],
        )
        for problem in report.all_problems:
            say(problem)
    if not report.is_right:
        raise HeadraceError(f"pipeline {settings.name}: the files are not the log")
    if not as_json:
        say(f"pipeline {settings.name}: every record below the checkpoint is in exactly one file")


@commands.command("compact")
def compact(
    config: Config = None,
    bootstrap_servers: BootstrapServers = None,
    topic: Topics = None,
    topic_pattern: Pattern = None,
    target: Target = None,
    name: Name = None,
    checkpoint: Checkpoint = None,
    data: Data = None,
    file_size: Annotated[
        str | None, typer.Option("--file-size", metavar="SIZE", help="Default: the block size.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge small files of committed batches, in one step for every reader.

    \b
    Examples:
      headrace pipeline compact --config pipeline.toml
      headrace pipeline compact -d DIR --target /lake --file-size 256MiB
    """
    inspection = _module("headrace.pipeline.inspection")
    given = {} if file_size is None else {"file_bytes": size_bytes(file_size)}
    settings = _settings(
        config,
        bootstrap_servers,
        data,
        topic,
        topic_pattern or (None if topic or config else ".*"),
        target,
        name,
        checkpoint,
        given,
    )
    done = inspection.compact(settings, say)
    if as_json:
        print_json(
            {
                "files_before": done.files_before,
                "files_after": done.files_after,
                "size_bytes": done.size_bytes,
            }
        )
    else:
        say(f"{done.files_before} files became {done.files_after} ({done.size_bytes} bytes read)")


@commands.command("redrive")
def redrive(
    config: Config = None,
    bootstrap_servers: BootstrapServers = None,
    topic: Topics = None,
    topic_pattern: Pattern = None,
    target: Target = None,
    name: Name = None,
    checkpoint: Checkpoint = None,
    data: Data = None,
    dead_letter_topic: Annotated[
        str | None, typer.Option("--dead-letter-topic", help="Default: NAME-dead-letters.")
    ] = None,
    origin: Annotated[
        str | None, typer.Option("--origin", metavar="TOPIC", help="Only those of this topic.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Of the origin.")] = None,
    first: Annotated[int | None, typer.Option("--from", help="First offset of the origin.")] = None,
    last: Annotated[int | None, typer.Option("--to", help="Last offset of the origin.")] = None,
    cause: Annotated[
        str | None, typer.Option("--cause", metavar="TEXT", help="Only those whose cause has it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show them.")] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters back to the topics they came from.

    \b
    Examples:
      headrace pipeline redrive --config pipeline.toml --dry-run
      headrace pipeline redrive -d DIR --target /lake --origin orders --partition 0 --from 100
    """
    dead_letters = _module("headrace.pipeline.dead_letters")
    preflight = _module("headrace.pipeline.preflight")
    settings = _settings(
        config,
        bootstrap_servers,
        data,
        topic,
        topic_pattern or (None if topic or config else ".*"),
        target,
        name,
        checkpoint,
        {"dead_letter_topic": dead_letter_topic},
    )
    preflight.check_broker(settings)
    chosen = [
        each
        for each in dead_letters.read(settings.log, settings.dead_letters)
        if each.pipeline == settings.name
        and origin in (None, each.topic)
        and partition in (None, each.partition)
        and (first is None or each.offset >= first)
        and (last is None or each.offset <= last)
        and (cause is None or cause in each.cause)
    ]
    if not dry_run:
        dead_letters.send_back(settings.log, chosen)
    rows = [(each.topic, each.partition, each.offset, each.cause) for each in chosen]
    columns = ("topic", "partition", "offset", "cause")
    if as_json:
        letters = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"dry_run": dry_run, "letters": letters})
        return
    print_table(columns, rows)
    say(f"{len(chosen)} dead letters {'found' if dry_run else 'sent back'}")


def _settings(
    config: str | None,
    bootstrap_servers: str | None,
    data: str | None,
    topic: list[str] | None,
    topic_pattern: str | None,
    target: str | None,
    name: str | None,
    checkpoint: str | None,
    given: dict[str, Any] | None = None,
) -> Settings:
    """Flags over the file; a target without its `hdfs://` is on the cluster of --data."""
    if config is None or data is not None:
        bootstrap_servers = bootstrap_of(bootstrap_servers, data)
    if target is not None and target.startswith("/"):
        target = fs_url_of(None, data) + target
    topics = tuple(topic) if topic else None
    if topics is None and topic_pattern is None and config is None and given is None:
        # Those who only look take the topics from the checkpoint.
        topic_pattern = ".*"
    return make(
        config,
        {
            "bootstrap_servers": bootstrap_servers,
            "topics": topics,
            "topic_pattern": topic_pattern,
            "target": target,
            "name": name,
            "checkpoint": checkpoint,
            **(given or {}),
        },
    )


def _module(name: str) -> Any:
    """A module that needs more than the core's packages."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"a pipeline needs more packages ({error.name}): `pip install headrace[pipeline]`"
        ) from None
