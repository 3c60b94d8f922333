"""What the driver asks of a log: topics, their ids and partitions, where they begin and end.

Owns: those questions, each asked afresh, because a driver lives for months and the log moves on.
Must not know: Spark, what is done with the answers. Blocking; one thread uses it at a time.
Under read_committed the end of a partition is its last stable offset: behind it lie only records
of transactions that nobody has decided yet.
"""

import re
from collections.abc import Iterable, Mapping
from types import TracebackType

from headrace.base.errors import UsageError
from headrace.base.ids import uuid_text
from headrace.client import offsets as client_offsets
from headrace.client.cluster import Topic, UnknownTopic
from headrace.client.errors import ServerError, Unreachable, raise_for
from headrace.client.fetch import FetchedPartition, Position, fetch_from
from headrace.client.leader_epochs import epoch_end_offsets
from headrace.client.retry import Deadline
from headrace.pipeline.options import LogOptions
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import HEADER_BYTES, read_header

TopicPartition = tuple[str, int]

SAMPLE_BYTES = 64 * 1024
"""How much of a partition is fetched to judge the size of its records."""


class LogClient:
    """Asks the cluster of `options`; use it as a context manager, or `close` it."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self._cluster = options.cluster()

    def __enter__(self) -> "LogClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    def topics_matching(
        self, subscribe: Iterable[str] | None = None, pattern: str | None = None
    ) -> list[str]:
        """The names of `subscribe` that exist, or all that `pattern` matches whole; sorted.

        Internal topics only match by name.
        """
        if (subscribe is None) == (pattern is None):
            raise UsageError("name topics or give a pattern: one of the two")
        if subscribe is not None:
            return sorted(self.topics(set(subscribe)))
        assert pattern is not None
        try:
            matches = re.compile(pattern).fullmatch
        except re.error as error:
            raise UsageError(f"{pattern!r} is not a regular expression: {error}") from error
        found = self.topics(None)
        return sorted(
            name for name, topic in found.items() if not topic.is_internal and matches(name)
        )

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """What the cluster says of `names` (None: of all); those it does not have are left out."""
        wanted = None if names is None else sorted(names)
        if wanted is not None and not wanted:
            return {}

        def ask(_: Deadline) -> dict[str, Topic]:
            found: dict[str, Topic] = {}
            for answer in self._cluster.refresh(wanted):
                if answer.name is None:
                    continue
                if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                raise_for(answer.error_code, f"topic {answer.name}")
                found[answer.name] = self._cluster.topics[answer.name]
            return found

        return self._cluster.retry(ask)

    def topic_ids(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """The ids of those topics that exist, as Kafka prints them."""
        return {name: uuid_text(topic.topic_id) for name, topic in self.topics(names).items()}

    def partitions(self, topic: str) -> list[int]:
        """The partitions that the topic has now."""
        found = self.topics([topic])
        if topic not in found:
            raise UnknownTopic(topic)
        return [partition.index for partition in found[topic].partitions]

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each log still has."""
        return self._list(partitions, client_offsets.EARLIEST_TIMESTAMP)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each log ends: the last stable offset, or under read_uncommitted the high
        watermark."""
        return self._list(partitions, client_offsets.LATEST_TIMESTAMP)

    def latest_and_epochs(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """As `latest`, each with the epoch of the leader that said it; -1 if it did not."""
        found = self._listed(partitions, client_offsets.LATEST_TIMESTAMP)
        return {where: (each.offset, each.leader_epoch) for where, each in found.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where each leader epoch ended; -1 if the log knows only earlier ones."""
        return epoch_end_offsets(self._cluster, epochs)

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The first offset whose timestamp is at or after the given one; -1 where there is none."""
        by_time: dict[int, list[TopicPartition]] = {}
        for where, timestamp_ms in timestamps_ms.items():
            by_time.setdefault(timestamp_ms, []).append(where)
        found: dict[TopicPartition, int] = {}
        for timestamp_ms, partitions in by_time.items():
            found |= self._list(partitions, timestamp_ms)
        return found

    def size_hint(self, where: TopicPartition, start: int, end: int) -> int:
        """About how many bytes of the log lie in [start, end), as its producers compressed them."""
        return self.size_hints({where: (start, end)})[where]

    def size_hints(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int]:
        """As `size_hint`, of many partitions with one request a leader.

        Judged by the batches at the start of each range. A range whose start can't be read now
        is taken for empty: whoever reads it will say why.
        """
        hints = dict.fromkeys(ranges, 0)
        filled = {where: bounds for where, bounds in ranges.items() if bounds[0] < bounds[1]}
        for where, density in self._cluster.retry(lambda _: self._densities(filled)).items():
            start, end = ranges[where]
            hints[where] = int((end - start) * density)
        return hints

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit `offsets` for a group without members, so that its lag can be seen."""
        if offsets:
            client_offsets.commit(self._cluster, group, offsets)

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """Where the group stands."""
        return client_offsets.committed(self._cluster, group, partitions)

    def _list(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        return {where: each.offset for where, each in self._listed(partitions, timestamp).items()}

    def _listed(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, client_offsets.ListedOffset]:
        wanted = list(partitions)
        if not wanted:
            return {}
        level = (
            client_offsets.READ_COMMITTED
            if self.options.is_read_committed
            else client_offsets.READ_UNCOMMITTED
        )
        return client_offsets.list_offsets_and_epochs(
            self._cluster, wanted, timestamp, isolation_level=level
        )

    def _densities(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, float]:
        by_leader: dict[int, list[Position]] = {}
        for (topic, partition), (start, _) in ranges.items():
            leader = self._cluster.leader_id(topic, partition)
            if leader < 0:
                self._cluster.topics.pop(topic, None)
                raise ServerError(f"{topic}-{partition}", ErrorCode.LEADER_NOT_AVAILABLE)
            by_leader.setdefault(leader, []).append(Position(topic, partition, start))
        densities: dict[TopicPartition, float] = {}
        for leader, positions in by_leader.items():
            for answer in self._sample(leader, positions):
                if answer.error_code == 0:
                    where = (answer.topic, answer.partition)
                    densities[where] = bytes_per_offset(answer.records)
        return densities

    def _sample(self, leader: int, positions: list[Position]) -> list[FetchedPartition]:
        try:
            return fetch_from(
                self._cluster,
                self._cluster.connection_to_node(leader),
                positions,
                max_wait_ms=0,
                max_bytes=SAMPLE_BYTES * len(positions),
                partition_max_bytes=SAMPLE_BYTES,
            )
        except Unreachable:
            self._cluster.topics.clear()
            raise


def bytes_per_offset(records: memoryview) -> float:
    """By the headers of the batches in `records`, of which the last may be cut; 0 without any."""
    position = size = offsets = 0
    while len(records) - position >= HEADER_BYTES:
        header = read_header(records, position)
        if header.size_bytes < HEADER_BYTES:
            break
        size += header.size_bytes
        offsets += header.last_offset_delta + 1
        position += header.size_bytes
    return size / offsets if offsets else 0.0
