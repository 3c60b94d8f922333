"""A range of one partition as fetched buffers, in order, or the reason why it is not there.

Owns: the way to the leader and back to it after a change, the size of each fetch, and the rules
that tell waiting from loss. Must not know: records, Arrow, threads (`read_ahead` has those).

Never skips silently. Offsets [start, end) were in the log when the range was planned, so:
- before the log's start: retention passed them, lost;
- behind the log's end for longer than a change of leader takes: truncated, lost;
- another topic id under the same name: the topic is another one, lost; no topic: lost;
- a hole between batches: compaction's on a compacted topic, lost on any other.
With `is_loss_fatal=False` it goes on behind what is lost and says so in the log.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.base.ids import NO_TOPIC_ID, uuid_bytes, uuid_text
from headrace.client.admin import describe_configs
from headrace.client.cluster import CONNECT_TIMEOUT_MS, Topic, UnknownTopic
from headrace.client.errors import ServerError, Unreachable
from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, list_offsets
from headrace.client.raw_fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchConnection,
    FetchTarget,
    RawAnswer,
    ReceiveBuffer,
)
from headrace.client.retry import Deadline
from headrace.pipeline.decode.walk import InvalidBatch, Walked, walk
from headrace.pipeline.errors import CorruptRecords, DataLost
from headrace.pipeline.options import LogOptions
from headrace.pipeline.ranges import OffsetRange
from headrace.wire.kafka.errors import ErrorCode

TOPIC_RESOURCE = 2
FETCH_BYTES_MIN = 256 * 1024
FIRST_FETCH_BYTES_MIN = 1024 * 1024
RECORD_BYTES_GUESS = 1100
MISSING_PATIENCE_MS = 3_000
"""How long a topic may be missing, or its end before the offset: a broker may just have started."""
EMPTY_ANSWERS_MAX = 3
CUT_ANSWERS_MAX = 3
"""A first batch that does not fit is asked for again with room for it: once is enough."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A buffer's batches, walked. `records` is a view of `buffer`."""

    buffer: ReceiveBuffer
    records: memoryview
    walked: Walked
    start: int


class PartitionFetch:
    """Fetches `wanted` from its leader; one thread uses it at a time, another may interrupt it."""

    def __init__(
        self, options: LogOptions, wanted: OffsetRange, *, is_loss_fatal: bool = True
    ) -> None:
        self._options = options
        self._wanted = wanted
        self._is_loss_fatal = is_loss_fatal
        self._cluster = options.cluster()
        self._connection: FetchConnection | None = None
        self._topic_id = uuid_bytes(wanted.topic_id) if wanted.topic_id else NO_TOPIC_ID
        self._missing: Deadline | None = None
        self._is_closed = False
        self.position = wanted.start
        self._bytes_max = _first_size(options, wanted)
        self._bytes_seen = 0

    def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            self._connection.interrupt()
            self._connection.close()
        self._cluster.close()

    def interrupt(self) -> None:
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    @property
    def is_done(self) -> bool:
        return self.position >= self._wanted.end or self._is_closed

    def next_into(self, buffer: ReceiveBuffer) -> Fetched | None:
        """The next batches, received into `buffer`; None when there are no more."""
        cut = 0
        for answer in self._answers(buffer):
            if not len(answer.records):
                continue
            walked = self._walk(answer)
            if walked.next_offset < 0:
                cut += 1
                if cut >= CUT_ANSWERS_MAX:
                    raise self._corrupt(self.position, "it is always sent cut short")
                self._bytes_max = max(self._bytes_max, walked.wanted_bytes)
                continue
            if walked.gap_at >= 0:
                self._on_gap(walked.gap_at, min(walked.gap_end, self._wanted.end))
            start, self.position = self.position, max(self.position, walked.next_offset)
            self._learn_size(walked)
            return Fetched(buffer, answer.records, walked, start)
        return None

    def _answers(self, buffer: ReceiveBuffer) -> Iterator[RawAnswer]:
        """Answers without errors, until the range's end; loss ends it by an exception."""
        empty = 0
        shrunk: Deadline | None = None
        while not self.is_done:
            answer = self._cluster.retry(lambda _: self._attempt(buffer))
            if answer is None:
                continue
            yield answer
            if len(answer.records):
                continue
            stable = answer.high_watermark
            if self._options.is_read_committed and answer.last_stable_offset >= 0:
                stable = answer.last_stable_offset
            if stable < self._wanted.end:
                shrunk = shrunk or Deadline(self._options.retry_timeout_ms)
                if shrunk.passed:
                    self._on_end(stable, "the log ends before the range: it was truncated")
                continue
            empty += 1
            if empty >= EMPTY_ANSWERS_MAX:
                self._on_gap(self.position, self._wanted.end)
                self.position = self._wanted.end

    def _attempt(self, buffer: ReceiveBuffer) -> RawAnswer | None:
        """One Fetch; None if the position was moved behind what is lost."""
        if self._is_closed:
            raise CancelledFetch
        if self.is_done:
            return None
        try:
            connection = self._leader()
            answer = connection.fetch(self._target(), buffer)
        except UnknownTopic as error:
            self._on_missing("the topic is no longer there", -1)
            raise ServerError(str(error), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from error
        except Unreachable:
            self._cluster.topics.clear()
            raise
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range()
            return None
        if answer.error_code != 0:
            self._cluster.topics.pop(self._wanted.topic, None)
            raise ServerError(f"fetch of {self._name} at {self.position}", answer.error_code)
        self._missing = None
        return answer

    def _target(self) -> FetchTarget:
        options = self._options
        return FetchTarget(
            topic=self._wanted.topic,
            topic_id=self._topic_id,
            partition=self._wanted.partition,
            offset=self.position,
            isolation_level=READ_COMMITTED if options.is_read_committed else READ_UNCOMMITTED,
            bytes_max=self._bytes_max,
            wait_ms=options.fetch_wait_ms,
        )

    @property
    def _name(self) -> str:
        return f"{self._wanted.topic}-{self._wanted.partition}"

    def _leader(self) -> FetchConnection:
        topic = self._cluster.topic(self._wanted.topic)
        self._check_identity(topic)
        leader = self._cluster.leader_id(self._wanted.topic, self._wanted.partition)
        if leader < 0:
            if self._wanted.partition >= len(topic.partitions):
                self._on_missing(f"the topic has {len(topic.partitions)} partitions", -1)
            self._cluster.topics.clear()
            raise ServerError(f"leader of {self._name}", ErrorCode.LEADER_NOT_AVAILABLE)
        broker = self._cluster.brokers.get(leader)
        if broker is None:
            self._cluster.topics.clear()
            raise Unreachable(f"broker {leader} is not in the cluster's metadata now")
        current = self._connection
        if current is not None and not current.closed:
            if (current.host, current.port) == (broker.host, broker.port):
                return current
            current.close()
        self._connection = FetchConnection(
            broker.host,
            broker.port,
            client_id=self._options.client_id,
            timeout_ms=self._options.request_timeout_ms,
            connect_timeout_ms=min(self._options.request_timeout_ms, CONNECT_TIMEOUT_MS),
        )
        return self._connection

    def _check_identity(self, topic: Topic) -> None:
        if topic.topic_id == self._topic_id:
            return
        if self._topic_id == NO_TOPIC_ID:
            self._topic_id = topic.topic_id
            return
        self._on_end(
            -1,
            "the topic was deleted and created anew "
            f"(its id was {uuid_text(self._topic_id)}, now {uuid_text(topic.topic_id)})",
        )
        raise ServerError(f"fetch of {self._name}", ErrorCode.UNKNOWN_TOPIC_ID)

    def _walk(self, answer: RawAnswer) -> Walked:
        try:
            return walk(answer.records, self.position, self._wanted.end, answer.aborted)
        except InvalidBatch as error:
            raise self._corrupt(error.offset, error.reason) from error

    def _corrupt(self, offset: int, reason: str) -> CorruptRecords:
        return CorruptRecords(self._wanted.topic, self._wanted.partition, offset, reason)

    def _learn_size(self, walked: Walked) -> None:
        """Ask for little more than the rest of the range: what is behind it is not ours."""
        covered = max(1, self.position - self._wanted.start)
        self._bytes_seen += walked.size_bytes
        rest = (self._wanted.end - self.position) * self._bytes_seen // covered
        wanted = max(FETCH_BYTES_MIN, rest + rest // 16)
        self._bytes_max = min(self._options.fetch_bytes_max, wanted)

    def _on_missing(self, reason: str, available: int) -> None:
        """Loss, once it has been so for longer than a broker's start takes."""
        if self._missing is None:
            self._missing = Deadline(MISSING_PATIENCE_MS)
        if self._missing.passed:
            self._on_end(available, reason)

    def _on_out_of_range(self) -> None:
        where = self._wanted.where
        earliest = list_offsets(self._cluster, [where], EARLIEST_TIMESTAMP)[where]
        latest = list_offsets(self._cluster, [where], LATEST_TIMESTAMP)[where]
        if self.position < earliest:
            self._on_loss(earliest, f"the log begins at {earliest} now: it was deleted before")
            self.position = min(earliest, self._wanted.end)
            return
        if self.position > latest:
            self._on_missing(f"the log ends at {latest}: it was truncated", latest)
        # Asked again after a pause: by now it may be there, or another may lead.
        raise ServerError(f"fetch of {self._name}", ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _on_gap(self, start: int, end: int) -> None:
        if not self._is_compacted():
            self._on_loss(end, f"offsets {start} to {end - 1} are not in the log")

    def _is_compacted(self) -> bool:
        entries = describe_configs(self._cluster, TOPIC_RESOURCE, self._wanted.topic)
        return any(
            entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries
        )

    def _on_end(self, available: int, reason: str) -> None:
        self._on_loss(available, reason)
        self.position = self._wanted.end

    def _on_loss(self, available: int, reason: str) -> None:
        error = self._lost(available, reason)
        if self._is_loss_fatal:
            raise error
        logger.warning("%s; failOnDataLoss is false: going on", error)

    def _lost(self, available: int, reason: str) -> DataLost:
        where = self._wanted
        return DataLost(where.topic, where.partition, self.position, available, reason)


class CancelledFetch(Exception):
    """The reader was closed while it fetched."""


def _first_size(options: LogOptions, wanted: OffsetRange) -> int:
    guess = max(FIRST_FETCH_BYTES_MIN, wanted.count * RECORD_BYTES_GUESS)
    return min(options.fetch_bytes_max, guess)
