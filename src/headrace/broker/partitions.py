"""The partitions that this broker hosts, kept in step with the committed metadata.

Owns: which partitions are open, in which log directory each lives, the upkeep of their logs
(retention, flushes, checkpoints). Must not know: requests, connections.

Invariants: `by_name` and `by_id` hold the same partitions; a partition is here if and only if
the committed image has it and names this node as a replica; a failed directory takes its own
partitions out of service and no others.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, StorageError
from headrace.base.events import EventLog
from headrace.base.topic_config import TopicConfig
from headrace.broker.partition import Partition
from headrace.cluster.image import RESOURCE_TOPIC, ClusterImage, TopicImage
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

TopicKey = str | bytes


class Partitions:
    def __init__(
        self,
        node_id: int,
        directories: Sequence[LogDirectory],
        config: BrokerConfig,
        clock: Clock,
        log: EventLog,
    ) -> None:
        self._node_id = node_id
        self._directories = list(directories)
        self._config = config
        self._clock = clock
        self._log = log
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self._directory_of: dict[Partition, LogDirectory] = {}
        self._damaged: dict[tuple[TopicKey, int], str] = {}
        """Partitions whose log can't be opened, by id and by name, with the topic's name."""
        self._lost_directories: set[bytes] = set()
        """Only while the history is replayed: what was registered last and is not here."""
        self._missed_directories: set[bytes] = set()
        self._has_loaded = False
        self.storage_error_count = 0
        for directory in self._directories:
            directory.on_failure = partial(self._on_directory_failure, directory)

    # -- finding -----------------------------------------------------------------------

    def of_topic(self, topic: TopicKey) -> dict[int, Partition] | None:
        """By topic name, or by topic id where bytes are given."""
        return self.by_id.get(topic) if isinstance(topic, bytes) else self.by_name.get(topic)

    def find(self, topic: TopicKey, index: int) -> Partition | None:
        found = self.by_id.get(topic) if isinstance(topic, bytes) else self.by_name.get(topic)
        return None if found is None else found.get(index)

    def all(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    @property
    def directory_paths(self) -> list[str]:
        return [directory.path for directory in self._directories]

    def in_directory(self, path: str) -> list[Partition]:
        return [
            partition
            for partition, directory in self._directory_of.items()
            if directory.path == path
        ]

    def is_offline(self, path: str) -> bool:
        return path in self.offline_paths()

    def offline_paths(self) -> list[str]:
        return [d.path for d in self._directories if d.failure is not None]

    # -- following the metadata --------------------------------------------------------

    def follow(self, image: ClusterImage, records: Sequence[Any]) -> set[str]:
        """Open, change and delete what committed records ask for. Names of topics gone."""
        changed: set[bytes] = set()
        gone: set[str] = set()
        for record in records:
            if isinstance(record, TopicRecord | PartitionRecord | PartitionChangeRecord):
                changed.add(record.topic_id)
            elif isinstance(record, RemoveTopicRecord):
                changed.discard(record.topic_id)
                gone |= self._delete(record.topic_id)
            elif isinstance(record, ConfigRecord) and record.resource_type == RESOURCE_TOPIC:
                topic = image.topics_by_name.get(record.resource_name)
                if topic is not None:
                    changed.add(topic.topic_id)
        if not self._has_loaded:
            self._lost_directories = self._find_lost_directories(image)
        for topic_id in changed:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                self._follow_topic(image, topic)
        self._sync_new()
        self._has_loaded = True
        self._lost_directories = set()
        return gone

    def _find_lost_directories(self, image: ClusterImage) -> set[bytes]:
        """Directories that this node had when it registered last, and has no more.

        Their partitions must not come back as empty ones: a disk that is not mounted would
        lose its data without a word.
        """
        registered = image.brokers.get(self._node_id)
        if registered is None:
            return set()
        return set(registered.log_dirs) - {d.directory_id for d in self._directories}

    @property
    def directory_ids(self) -> list[bytes]:
        """What to register: the directories there are, and those whose partitions are missed."""
        ids = [
            directory.directory_id for directory in self._directories if any(directory.directory_id)
        ]
        return ids + sorted(self._missed_directories)

    def _sync_new(self) -> None:
        for directory in self._directories:
            try:
                directory.sync_new()
            except StorageError as error:
                self._on_storage_error(directory.path, error)

    def refresh_configs(self, image: ClusterImage) -> None:
        """A broker default changed: every topic may have a new effective configuration."""
        for topic in image.topics_by_name.values():
            self._follow_topic(image, topic)

    def _follow_topic(self, image: ClusterImage, topic: TopicImage) -> None:
        config = self._config.topic(image.topic_configs(topic.name))
        for described in topic.partitions:
            if self._node_id not in described.replicas:
                continue
            partition = self.find(topic.topic_id, described.index)
            if (topic.topic_id, described.index) in self._damaged:
                continue  # it was tried once; the next start tries again
            if partition is None:
                self._open(topic, described.index, described.leader_epoch, config)
                continue
            partition.leader_epoch = described.leader_epoch
            if partition.config != config:
                partition.config = config
                partition.log.set_config(self._log_config(config))

    def _open(self, topic: TopicImage, index: int, leader_epoch: int, config: TopicConfig) -> None:
        directory = self._directory_for(topic.name, index)
        if directory is None:
            self._missed_directories |= self._lost_directories
            self._on_damage(topic, index)
            self._log.error(
                "partition_missing",
                partition=f"{topic.name}-{index}",
                reason="a log directory of this node is gone, failed or empty",
            )
            return
        try:
            log = directory.open_partition(
                topic.name, index, topic.topic_id, self._log_config(config)
            )
        except StorageError as error:
            self._on_damage(topic, index)
            self._on_storage_error(f"{topic.name}-{index}", error)
            return
        partition = Partition(topic.name, index, topic.topic_id, log, config, leader_epoch)
        partition.on_failure = partial(self._on_partition_failure, partition.name)
        self.by_name.setdefault(topic.name, {})[index] = partition
        self.by_id.setdefault(topic.topic_id, {})[index] = partition
        self._directory_of[partition] = directory
        self._report_recovery(partition)

    def _on_damage(self, topic: TopicImage, index: int) -> None:
        self._damaged[topic.topic_id, index] = topic.name
        self._damaged[topic.name, index] = topic.name

    def _report_recovery(self, partition: Partition) -> None:
        recovered = partition.log.recovered
        if recovered.cut_bytes or recovered.dropped_segments:
            self._log.warning(
                "log_recovered",
                partition=partition.name,
                cut_bytes=recovered.cut_bytes,
                dropped_segments=recovered.dropped_segments,
                log_end_offset=recovered.log_end_offset,
            )

    def _directory_for(self, topic: str, index: int) -> LogDirectory | None:
        """Where it is already, else the directory in service with the fewest partitions.

        None where it may be in a directory that is not here.
        """
        for directory in self._directories:
            if directory.has_partition(topic, index):
                return directory
        if self._lost_directories:
            return None
        in_service = [d for d in self._directories if d.failure is None] or self._directories
        counts = {directory.path: 0 for directory in in_service}
        for directory in self._directory_of.values():
            if directory.path in counts:
                counts[directory.path] += 1
        return min(in_service, key=lambda directory: counts[directory.path])

    def _log_config(self, config: TopicConfig) -> LogConfig:
        return LogConfig(
            segment_bytes=config.segment_size_bytes,
            segment_ms=config.segment_ms,
            segment_jitter_ms=config.segment_jitter_ms,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
            file_delete_delay_ms=config.file_delete_delay_ms,
            flush_messages=config.flush_messages,
            flush_ms=config.flush_ms,
            preallocate=config.preallocate,
            log_append_time=config.log_append_time,
            delete=config.deleted,
            compact=config.compacted,
            producer_id_expiration_ms=int(self._config["producer.id.expiration.ms"]),
        )

    def _delete(self, topic_id: bytes) -> set[str]:
        gone = {name for (key, _), name in self._damaged.items() if key == topic_id}
        for partition in self.by_id.pop(topic_id, {}).values():
            gone.add(partition.topic)
            partition.take_out(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            directory = self._directory_of.pop(partition)
            try:
                directory.delete_partition(partition.log)
            except StorageError as error:
                self._on_storage_error(partition.name, error)
        for key, index in [where for where in self._damaged if where[0] == topic_id]:
            name = self._damaged.pop((key, index))
            del self._damaged[name, index]
            for directory in self._directories:
                try:
                    directory.delete_damaged(name, index)
                except StorageError as error:
                    self._on_storage_error(f"{name}-{index}", error)
        for topic in gone:
            self.by_name.pop(topic, None)
        return gone

    # -- failing -----------------------------------------------------------------------

    def offline_names(self) -> list[str]:
        """Partitions out of service: damaged ones, and those of failed directories."""
        failed = [partition.name for partition in self.all() if partition.error]
        damaged = [f"{key[0]}-{key[1]}" for key in self._damaged if isinstance(key[0], str)]
        return failed + damaged

    def missing(self, topic: TopicKey, index: int) -> ErrorCode:
        """Why `find` found nothing: unknown here, or there and damaged."""
        if (topic, index) in self._damaged:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(topic, bytes) and topic not in self.by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _on_directory_failure(self, directory: LogDirectory, error: StorageError) -> None:
        self._on_storage_error(directory.path, error)
        for partition in self.in_directory(directory.path):
            if not partition.error:
                partition.take_out(ErrorCode.KAFKA_STORAGE_ERROR)

    def _on_partition_failure(self, name: str, error: StorageError) -> None:
        if isinstance(error, CorruptionError):  # anything else is its directory's to tell
            self._on_storage_error(name, error)

    def _on_storage_error(self, name: str, error: StorageError) -> None:
        self.storage_error_count += 1
        self._log.error("storage_failed", what=name, path=error.path, error=str(error.cause))

    # -- upkeep ------------------------------------------------------------------------

    def in_service(self) -> Iterable[Partition]:
        return [partition for partition in self.all() if not partition.error]

    def retain(self) -> None:
        """Delete what retention says, roll what is due, forget expired producers."""
        now_ms = self._clock.now_ms()
        for partition in self.in_service():
            try:
                partition.log.maybe_roll(now_ms)
                partition.log.retain(now_ms, partition.high_watermark)
                partition.log.expire_producers(now_ms)
            except StorageError as error:
                partition.fail(error)

    def flush_due(self) -> None:
        now_ms = self._clock.now_ms()
        for partition in self.in_service():
            partition.log.maybe_flush(now_ms)

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks of every directory."""
        for directory in self._directories:
            self._checkpoint(directory)

    def checkpoint_log_start(self, partition: Partition) -> None:
        """DeleteRecords is answered only once the new start survives a restart."""
        directory = self._directory_of[partition]
        directory.checkpoint_log_starts()

    def _checkpoint(self, directory: LogDirectory) -> None:
        if directory.failure is not None:
            return
        try:
            directory.checkpoint(
                {
                    (partition.topic, partition.index): partition.high_watermark
                    for partition, home in self._directory_of.items()
                    if home is directory
                }
            )
        except StorageError as error:
            self._on_storage_error(directory.path, error)

    def close(self, broker_epoch: int) -> bool:
        """Flush and checkpoint everything; False if a directory could not be marked clean."""
        for partition in self.in_service():
            partition.commit_staged_first()
        self.checkpoint()
        marked = [directory.close(broker_epoch) for directory in self._directories]
        return all(marked)

    def sweep(self) -> None:
        """Remove files that were renamed `.deleted` long enough ago."""
        now_ms = self._clock.now_ms()
        for directory in self._directories:
            if directory.failure is None:
                try:
                    directory.sweep(now_ms)
                except StorageError as error:
                    self._on_storage_error(directory.path, error)
