"""What is asked before Spark starts, so that what can't work is said within a second.

Owns: the questions and their order. Must not know: Spark. Nothing is written.
"""

import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from urllib.parse import urlsplit

from headrace.base.errors import HeadraceError, UsageError
from headrace.client.errors import ClientError
from headrace.client.hadoop_rpc import RpcConnectionError
from headrace.client.namenode import NameNodeClient
from headrace.pipeline.batches import Batches
from headrace.pipeline.errors import made_again, regrown
from headrace.pipeline.layout import parse_name, topic_folder
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.plan import Step, TopicPartition
from headrace.pipeline.settings import FILE_BYTES, FILE_BYTES_MIN, Settings
from headrace.pipeline.target_files import FilesError, HdfsFiles, TargetFiles
from headrace.pipeline.topics import TopicWatch, TopicWatchOptions
from headrace.wire.hadoop.exceptions import RemoteError

REACH_TIMEOUT_MS = 700
MASTER_TIMEOUT_S = 3.0
STANDALONE = "spark://"


EpochEnds = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
"""Where leader epochs ended; -1 for one that is not known."""


class CannotStart(HeadraceError):
    """Something outside is not as it must be; the message says what and where."""


def check_file_system(url: str) -> None:
    try:
        with NameNodeClient(url) as namenode:
            if namenode.safe_mode("get"):
                raise CannotStart(f"the file system {url} is in safe mode")
    except RpcConnectionError as error:
        raise CannotStart(f"the file system {url} does not answer: {error}") from None
    except RemoteError as error:
        raise CannotStart(f"the file system {url} refuses: {error}") from None


def check_broker(settings: Settings) -> None:
    try:
        with settings.log.cluster() as cluster:
            cluster.reach(timeout_ms=REACH_TIMEOUT_MS)
    except ClientError as error:
        raise CannotStart(f"no broker answers at {settings.bootstrap_servers}: {error}") from None


def check_master(master: str | None) -> None:
    """A standalone master answers: Spark would find out in a minute, with pages of traces."""
    if master is None or not master.startswith(STANDALONE):
        return
    refusals = []
    for address in master.removeprefix(STANDALONE).split(","):
        parts = urlsplit(f"//{address}")
        try:
            if not parts.hostname or not parts.port:
                raise UsageError(f"--master is {STANDALONE}HOST:PORT, not {master!r}")
            socket.create_connection((parts.hostname, parts.port), MASTER_TIMEOUT_S).close()
            return
        except ValueError:
            raise UsageError(f"--master is {STANDALONE}HOST:PORT, not {master!r}") from None
        except OSError as error:
            refusals.append(f"{address}: {error}")
    raise CannotStart(f"Spark's master does not answer: {'; '.join(refusals)}")


def check_log(settings: Settings) -> dict[str, str]:
    """The topics there are to follow, with their ids."""
    check_broker(settings)
    watch = TopicWatch(watch_options(settings))
    try:
        return watch.topic_ids()
    finally:
        watch.close()


def check_target(
    files: TargetFiles, batches: Batches, settings: Settings, topics: Iterable[str]
) -> None:
    """A target that has files of a topic that the checkpoint does not know: they would come a
    second time."""
    # A plan alone is enough: who died between the renames and the first commit left files too.
    last = batches.standing().last
    known = set() if last is None else {topic for topic, _ in last.positions}
    rooms = settings.rooms
    for topic in sorted(set(topics) - known):
        for entry in files.walk(rooms.published(topic_folder(topic))):
            if parse_name(entry.name) is not None:
                raise CannotStart(
                    f"{settings.target} already holds files of topic {topic} ({entry.name}), but "
                    f"the checkpoint {settings.checkpoint} knows of none: their records would be "
                    "written twice. Give that pipeline's --checkpoint, or another --target"
                )


def check_topics(batches: Batches, topic_ids: Mapping[str, str]) -> None:
    """Raises DataLost for a topic that is not the one that was flushed."""
    standing = batches.standing()
    if standing.last is None or standing.step is not Step.PLAN:
        # What was begun may be all written aside already: it is completed before the log is read.
        return
    for topic, known in standing.last.topic_ids.items():
        found = topic_ids.get(topic, known)
        if found != known:
            raise made_again(topic, known, found, standing.last.positions)


def check_epochs(batches: Batches, topics: Iterable[str], epoch_ends: EpochEnds) -> None:
    """Raises DataLost for a log that was cut below what was flushed, however far it reaches now."""
    standing = batches.standing()
    if standing.last is None or standing.step is Step.PUBLISH:
        # All of a batch with a manifest is written aside: it is completed before the log is read.
        return
    followed = set(topics)
    asked = {
        where: epoch for where, epoch in standing.last.leader_epochs.items() if where[0] in followed
    }
    for where, end in epoch_ends(asked).items():
        # A leader that does not know the epoch may be one of before: the watch asks again.
        if 0 <= end < standing.last.positions[where]:
            raise regrown(*where, standing.last.positions[where], asked[where], end)


def sized(settings: Settings) -> Settings:
    """The settings with a file size: unless given, that of the file system's blocks."""
    if settings.file_bytes:
        return settings
    try:
        with NameNodeClient(settings.target_url) as namenode:
            found = namenode.block_size()
    except RemoteError:
        found = 0
    except RpcConnectionError as error:
        raise CannotStart(f"the file system {settings.target_url}: {error}") from None
    return replace(settings, file_bytes=max(FILE_BYTES_MIN, found or FILE_BYTES))


def watch_options(settings: Settings) -> TopicWatchOptions:
    return TopicWatchOptions(
        log=settings.log,
        topics=settings.topics,
        pattern=settings.topic_pattern,
        starting=settings.starting,
        longest_wait_s=settings.trigger_s,
        file_bytes=settings.file_bytes or FILE_BYTES,
    )


def check(settings: Settings) -> list[str]:
    """All of it. Returns the topics."""
    check_master(settings.master)
    topic_ids = check_log(settings)
    for url in sorted({settings.target_url, settings.checkpoint_url}):
        check_file_system(url)
    with ExitStack() as opened:
        files = opened.enter_context(closing(HdfsFiles(settings.checkpoint_url)))
        target = files
        if settings.target_url != settings.checkpoint_url:
            target = opened.enter_context(closing(HdfsFiles(settings.target_url)))
        batches = Batches(files, settings.rooms, "preflight")
        try:
            check_topics(batches, topic_ids)
            check_target(target, batches, settings, topic_ids)
            with LogClient(settings.log) as log:
                check_epochs(batches, topic_ids, log.epoch_ends)
        except FilesError as error:
            raise CannotStart(str(error)) from None
    return sorted(topic_ids)
