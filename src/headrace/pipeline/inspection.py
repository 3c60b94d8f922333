"""A pipeline looked at from outside: verify and status by its settings, without Spark.

Owns: the opening of log and files for it. Must not know: what is compared or computed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from headrace.pipeline import preflight
from headrace.pipeline.batches import Batches
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import HdfsFiles
from headrace.pipeline.verify import Report, Verifier


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[HdfsFiles, Batches, LogClient]]:
    """The target's files, the batches and the log, once they answer."""
    for url in sorted({settings.target_url, settings.checkpoint_url}):
        preflight.check_file_system(url)
    preflight.check_broker(settings)
    checkpoint = HdfsFiles(settings.checkpoint_url)
    files = HdfsFiles(settings.target_url)
    with LogClient(settings.log) as log:
        yield files, Batches(checkpoint, settings.rooms, "reader"), log
    checkpoint.close()
    files.close()


def verify(settings: Settings) -> Report:
    from headrace.pipeline.log_reader import checksum, read_range

    with opened(settings) as (files, batches, log):

        def read_log(topic: str, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
            return read_range(settings.log, OffsetRange(topic, partition, start, end))

        verifier = Verifier(files, batches, settings.rooms, read_log, log.earliest, checksum)
        return verifier.verify()
