"""A pipeline looked at from outside: verify and status by its settings, without Spark.

Owns: the opening of log and files for it. Must not know: what is compared or computed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pyarrow as pa

from headrace.pipeline import preflight
from headrace.pipeline.batches import Batches
from headrace.pipeline.compact import Compacted, Compaction
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.plan import Positions, TopicPartition
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.settings import Settings
from headrace.pipeline.status import Status, status_of
from headrace.pipeline.target_files import HdfsFiles
from headrace.pipeline.verify import Report, Verifier


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[HdfsFiles, Batches, LogClient]]:
    """The target's files, the batches and the log, once they answer."""
    for url in sorted({settings.target_url, settings.checkpoint_url}):
        preflight.check_file_system(url)
    preflight.check_broker(settings)
    with (
        closing(HdfsFiles(settings.checkpoint_url)) as checkpoint,
        closing(HdfsFiles(settings.target_url)) as files,
        LogClient(settings.log) as log,
    ):
        yield files, Batches(checkpoint, settings.rooms, "reader"), log


def verify(settings: Settings) -> Report:
    from headrace.pipeline.log_reader import checksum, read_range

    with opened(settings) as (files, batches, log):

        def read_log(topic: str, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
            return read_range(settings.log, OffsetRange(topic, partition, start, end))

        verifier = Verifier(files, batches, settings.rooms, read_log, log.earliest, checksum)
        return verifier.verify()


def compact(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Compacted:
    from headrace.pipeline.log_reader import checksum

    preflight.check_file_system(settings.target_url)
    preflight.check_file_system(settings.checkpoint_url)
    with (
        closing(HdfsFiles(settings.checkpoint_url)) as checkpoint,
        closing(HdfsFiles(settings.target_url)) as files,
    ):
        batches = Batches(checkpoint, settings.rooms, "compaction")
        compaction = Compaction(files, batches, settings.rooms, checksum, settings.codec, say)
        return compaction.run(preflight.sized(settings).file_bytes)


def status(settings: Settings, *, as_checkpoint: bool = False) -> Status:
    """`as_checkpoint`: nobody said which topics; those of the committed batches count."""
    with opened(settings) as (_, batches, log):
        return status_of(
            settings.name,
            batches,
            log.latest,
            lambda where, start, end: oldest_ms(settings, where, start, end),
            int(time.time() * 1000),
            lambda positions: unflushed(
                replace(settings, topics=_topics(positions), topic_pattern=None)
                if as_checkpoint
                else settings,
                log,
                positions,
            ),
        )


def _topics(positions: Positions) -> tuple[str, ...]:
    return tuple(sorted({topic for topic, _ in positions}))


def unflushed(settings: Settings, log: LogClient, positions: Positions) -> Positions:
    """Where partitions begin that are to be flushed and are in no batch yet.

    A pipeline that starts at the end of the log owes nothing of what was there before.
    """
    if settings.starting != "earliest" or not (settings.topics or settings.topic_pattern):
        return {}
    names = log.topics_matching(settings.topics or None, settings.topic_pattern)
    every = [
        (name, partition.index)
        for name, topic in log.topics(names).items()
        for partition in topic.partitions
    ]
    return log.earliest([where for where in every if where not in positions])


def oldest_ms(settings: Settings, where: TopicPartition, start: int, end: int) -> int | None:
    """The timestamp of the first record from `start` on."""
    from headrace.pipeline.log_reader import read_range

    # A broker always sends one whole batch: more than that would be fetched for nothing.
    log = replace(settings.log, fetch_bytes_max=1)
    for batch in read_range(log, OffsetRange(*where, start, end), batch_rows=1):
        first = batch.column("timestamp")[0].value
        return int(first) // 1000
    return None
