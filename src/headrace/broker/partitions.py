"""The partitions that this broker hosts, kept in step with the committed metadata.

Owns: which partitions are open, the upkeep of their logs (retention, flushes, checkpoints).
Must not know: requests, connections, where logs live (`homes`).

A commit costs what it changes: its own partitions are looked at, never all. A partition has no
folder until its first use (`log.unmade_log`): a new one costs an object and no system call.
What has a folder when it is first heard of is opened at once, so that recovery is at the start.

Invariants: `by_name` and `by_id` hold the same partitions; a partition is here if and only if
the committed image has it and names this node as a replica; a failed directory takes its own
partitions out of service and no others; upkeep walks over made logs only.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, DiskFullError, StorageError
from headrace.base.events import EventLog
from headrace.base.topic_config import TopicConfig
from headrace.broker.damage import Damage
from headrace.broker.homes import Homes
from headrace.broker.new_folders import NewFolders, OnDone
from headrace.broker.partition import Partition
from headrace.broker.topic_configs import TopicConfigs
from headrace.cluster.image import RESOURCE_TOPIC, ClusterImage, PartitionImage, TopicImage
from headrace.cluster.registrations import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_LEADER
from headrace.log.directory import LogDirectory
from headrace.log.partition_log import PartitionLog
from headrace.log.unmade_log import UnmadeLog
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
)

TopicKey = str | bytes


class Roles(Protocol):
    """Who makes leaders and followers of partitions."""

    def on_described(self, partition: Partition, described: PartitionImage) -> None: ...

    def on_gone(self, partition: Partition) -> None: ...


class Moves(Protocol):
    """Replicas on their way to another directory."""

    def take_preferred(self, topic: str, index: int) -> LogDirectory | None: ...

    def on_opened(self, partition: Partition, source: PartitionLog) -> None: ...

    def on_caught_up(self) -> None: ...

    def cancel(self, partition: Partition) -> None: ...

    def on_directory_failed(self, directory: LogDirectory) -> None: ...

    def close(self) -> None: ...


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
        self.homes = Homes(directories)
        self._configs = TopicConfigs(config)
        self._clock = clock
        self._log = log
        self._image: ClusterImage | None = None
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self._made: dict[Partition, PartitionLog] = {}
        """Those that have a folder."""
        self._new_folders = NewFolders(self.homes.directories)
        self._damage = Damage()
        self._has_caught_up = False
        """Until `on_caught_up` all that is followed is history, which comes in pieces."""
        self.roles: Roles | None = None
        """Told of every partition that is new, changed or gone, from `begin_roles` on."""
        self._has_roles = False
        self.assign: Callable[[tuple[bytes, int], bytes], None] | None = None
        """Tells the controller in which directory a replica lies."""
        self.moves: Moves | None = None
        self.storage_error_count = 0
        for directory in self.homes.directories:
            directory.on_failure = partial(self._on_directory_failure, directory)
            directory.on_full = partial(self._on_directory_full, directory)

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

    def made_logs(self) -> list[PartitionLog]:
        """Of partitions that have a folder."""
        return list(self._made.values())

    def missing(self, topic: TopicKey, index: int) -> ErrorCode:
        """Why `find` found nothing: there and damaged, on another broker, or unknown."""
        if self._damage.has(topic, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        image = self._image
        if isinstance(topic, bytes):
            described = None if image is None else image.topics_by_id.get(topic)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            described = None if image is None else image.topics_by_name.get(topic)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if described is None:
            return unknown
        if 0 <= index < len(described.partitions):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def directory_paths(self) -> list[str]:
        return [directory.path for directory in self.homes.directories]

    def cordon(self, paths: frozenset[str]) -> None:
        """These directories get no new partitions."""
        self.homes.cordoned = paths

    def directory_id(self, path: str) -> bytes:
        return next(d.directory_id for d in self.homes.directories if d.path == path)

    @property
    def directory_ids(self) -> list[bytes]:
        """What to register."""
        return self.homes.directory_ids

    @property
    def offline_directory_ids(self) -> list[bytes]:
        """What a heartbeat reports: directories that were registered and have failed since."""
        known = self.homes.directory_ids
        return [d.directory_id for d in self.homes.failed() if d.directory_id in known]

    def in_directory(self, path: str) -> list[Partition]:
        return self.homes.in_directory(path)

    def is_offline(self, path: str) -> bool:
        return path in self.offline_paths()

    def offline_paths(self) -> list[str]:
        return [directory.path for directory in self.homes.failed()]

    def offline_names(self) -> list[str]:
        """Partitions out of service: damaged ones, and those of failed directories."""
        failed = [partition.name for partition in self.all() if partition.error]
        return failed + self._damage.names()

    # -- following the metadata --------------------------------------------------------

    def follow(self, image: ClusterImage, records: Sequence[Any]) -> set[str]:
        """Open, change and delete what committed records ask for. Names of topics gone."""
        # Another image, not the same changed: nobody tells which configs went meanwhile.
        reconfigured: set[str] = set(self.by_name) if image is not self._image else set()
        self._image = image
        changed: dict[bytes, set[int]] = {}
        gone: set[str] = set()
        for record in records:
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                changed.setdefault(record.topic_id, set()).add(record.partition_id)
            elif isinstance(record, ClearElrRecord):
                for topic_id, indexes in self._cleared(image, record.topic_name):
                    changed.setdefault(topic_id, set()).update(indexes)
            elif isinstance(record, RemoveTopicRecord):
                changed.pop(record.topic_id, None)
                gone |= self._delete(record.topic_id)
            elif isinstance(record, ConfigRecord) and record.resource_type == RESOURCE_TOPIC:
                reconfigured.add(record.resource_name)
            elif isinstance(record, RegisterBrokerRecord) and record.broker_id == self._node_id:
                self._on_registered(image)
        for topic_id, indexes in changed.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                self._follow_topic(image, topic, sorted(indexes))
        for name in reconfigured:
            self._reconfigure(image, name)
        self._settle()
        self._damage.tell(self._log)
        return gone

    def _cleared(self, image: ClusterImage, name: str) -> Iterator[tuple[bytes, set[int]]]:
        """Partitions that have a new partition epoch, perhaps."""
        for topic in [image.topics_by_name.get(name)] if name else image.topics_by_name.values():
            if topic is not None and topic.topic_id in self.by_id:
                yield topic.topic_id, set(self.by_id[topic.topic_id])

    def on_caught_up(self) -> None:
        """History was followed to its present end: whatever comes now is new, and can't have
        been in a directory that is lost."""
        if not self._has_caught_up:
            self._has_caught_up = True
            self.homes.on_caught_up()
            if self.moves is not None:
                self.moves.on_caught_up()

    def begin_roles(self) -> None:
        """This process is registered, and its metadata followed up to that: what is led or followed
        now is no history. Once."""
        image = self._image
        if self._has_roles or self.roles is None or image is None:
            return
        self._has_roles = True
        for topic_id, partitions in list(self.by_id.items()):
            described = image.topics_by_id[topic_id].partitions
            for index, partition in partitions.items():
                self.roles.on_described(partition, described[index])
                self._maybe_assign(partition, described[index])
        for topic_id, indexes in self._damage.all():
            self._follow_topic(image, image.topics_by_id[topic_id], sorted(indexes))

    # -- copies that can't be read -----------------------------------------------------

    def _may_refill(
        self, topic_id: bytes, described: PartitionImage, partition: Partition | None
    ) -> bool:
        """Whether a copy that is damaged or missing is to be made anew: another replica leads, and
        nobody counts on ours."""
        index = described.index
        is_unread = self._damage.has(topic_id, index) if partition is None else partition.error
        if not is_unread or not self._has_roles or described.leader in (NO_LEADER, self._node_id):
            return False
        if self._node_id in described.isr + described.eligible_leader_replicas:
            return False
        return partition is None or self.homes.of(partition).failure is None

    def _set_aside(self, topic: TopicImage, index: int, partition: Partition | None) -> None:
        self._log.warning("replica_made_anew", partition=f"{topic.name}-{index}")
        if partition is not None:
            self._drop([partition])
        elif self._damage.forget_one(topic.topic_id, index):
            self._delete_damaged(topic.name, index)

    def _maybe_give_up(self, topic_id: bytes, described: PartitionImage) -> None:
        """Others count on a copy that we can't read: the controller is told that it is lost.

        Not where there is no other replica: what is damaged may still be saved by hand."""
        if self.assign is None or not self._has_roles or len(described.replicas) == 1:
            return
        candidates = (described.leader, *described.isr, *described.eligible_leader_replicas)
        if self._node_id in candidates:
            self.assign((topic_id, described.index), DIRECTORY_LOST)

    def _maybe_assign(self, partition: Partition, described: PartitionImage) -> None:
        """The controller must know which replicas a directory takes along when it fails. With one
        directory the broker goes with it: then only a copy that was made anew is told of."""
        assigned = described.directory_of(self._node_id)
        here = self.homes.of(partition).directory_id
        if self.assign is None or partition.error or assigned == here:
            return
        if assigned != DIRECTORY_UNASSIGNED or self.homes.are_several:
            self.assign((partition.topic_id, partition.index), here)

    def _follow_topic(self, image: ClusterImage, topic: TopicImage, indexes: Iterable[int]) -> None:
        config = self._configs.of(image, topic.name)
        opened = self.by_id.get(topic.topic_id, {})
        for index in indexes:
            described = topic.partitions[index]
            partition = opened.get(index)
            if self._node_id not in described.replicas:
                if partition is not None:
                    self._drop([partition])
                elif self._damage.forget_one(topic.topic_id, index):
                    self._delete_damaged(topic.name, index)
                continue
            if self._may_refill(topic.topic_id, described, partition):
                self._set_aside(topic, index, partition)
                partition = None
            if partition is None and not self._damage.has(topic.topic_id, index):
                # A damaged one was tried once; the next start tries again.
                partition = self._open(topic, described, config)
            if partition is not None and self.roles is not None and self._has_roles:
                self.roles.on_described(partition, described)
                self._maybe_assign(partition, described)
            elif partition is not None:
                partition.leader_epoch = described.leader_epoch
            if partition is None or partition.error:
                self._maybe_give_up(topic.topic_id, described)

    def refresh_configs(self, image: ClusterImage) -> None:
        """A broker default changed: every topic may have a new effective configuration."""
        self._configs.on_defaults_changed()
        for name in self.by_name:
            self._reconfigure(image, name)

    def _reconfigure(self, image: ClusterImage, name: str) -> None:
        partitions = self.by_name.get(name)
        if not partitions:
            return
        config = self._configs.of(image, name)
        for partition in partitions.values():
            if partition.config is not config and partition.config != config:
                partition.config = config
                partition.log.set_config(self._configs.log_config(config))
                # A smaller `min.insync.replicas` may let go what waited for it.
                partition.advance_high_watermark()

    def _on_registered(self, image: ClusterImage) -> None:
        """A registration of this node, an earlier process's or this one's.

        History may come in pieces: one that names a directory which is not here may come behind
        partitions that were thought to be unused.
        """
        registered = image.brokers.get(self._node_id)
        if registered is None:
            return
        if self._has_caught_up:
            return
        self.homes.on_registered(registered.log_dirs)
        if not self.homes.lost:
            return
        for partition in [partition for partition in self.all() if partition not in self._made]:
            self._miss_unmade(image, partition)

    def _miss_unmade(self, image: ClusterImage, partition: Partition) -> None:
        topic = image.topics_by_id.get(partition.topic_id)
        if topic is None or partition.index >= len(topic.partitions):
            return
        if self.homes.may_be_lost(topic.partitions[partition.index].directory_of(self._node_id)):
            if self.roles is not None:
                self.roles.on_gone(partition)
            self.homes.leave(partition)
            del self.by_id[topic.topic_id][partition.index]
            del self.by_name[topic.name][partition.index]
            partition.take_out(ErrorCode.KAFKA_STORAGE_ERROR)
            self._damage.add_missed(topic.name, topic.topic_id, partition.index)

    # -- opening -----------------------------------------------------------------------

    def _open(
        self, topic: TopicImage, described: PartitionImage, config: TopicConfig
    ) -> Partition | None:
        index = described.index
        try:
            directory = self.homes.holding(topic.name, index, topic.topic_id)
        except StorageError as error:
            self._on_unopened(topic, index, error)
            return None
        if directory is None:
            assigned = described.directory_of(self._node_id)
            if not self._has_caught_up and self.homes.may_be_lost(assigned):
                self._damage.add_missed(topic.name, topic.topic_id, index)
                return None
            if not self._has_caught_up:
                self._report_misses(topic.name, index)
            directory = self._preferred(topic.name, index) or self.homes.choose(assigned)
            if not self.homes.lost:
                return self._add_unmade(topic, described, config, directory)
        try:
            log = directory.open_partition(
                topic.name, index, topic.topic_id, self._configs.log_config(config)
            )
        except StorageError as error:
            self._on_unopened(topic, index, error)
            return None
        partition = Partition(
            topic.name, index, topic.topic_id, log, config, described.leader_epoch
        )
        if len(described.replicas) > 1:
            # What others have is not known yet: the last checkpoint is.
            told = directory.high_watermarks.get((topic.name, index), log.log_start_offset)
            partition.high_watermark = min(told, log.log_end_offset)
        self._made[partition] = log
        self._new_folders.add(partition, log, directory)
        self._add(partition, directory)
        self._report_recovery(partition.name, log)
        if self.moves is not None and not self._has_caught_up:
            self.moves.on_opened(partition, log)
        return partition

    def _preferred(self, topic: str, index: int) -> LogDirectory | None:
        found = None if self.moves is None else self.moves.take_preferred(topic, index)
        return None if found is None or found.failure is not None else found

    def _on_unopened(self, topic: TopicImage, index: int, error: StorageError) -> None:
        self._damage.add(topic.name, topic.topic_id, index)
        self._on_storage_error(f"{topic.name}-{index}", error)

    def _add(self, partition: Partition, directory: LogDirectory) -> None:
        partition.on_failure = partial(self._on_partition_failure, partition)
        self.by_name.setdefault(partition.topic, {})[partition.index] = partition
        self.by_id.setdefault(partition.topic_id, {})[partition.index] = partition
        self.homes.settle(partition, directory)

    def _add_unmade(
        self,
        topic: TopicImage,
        described: PartitionImage,
        config: TopicConfig,
        directory: LogDirectory,
    ) -> Partition:
        partition: Partition

        def make() -> PartitionLog:
            return self._make(partition)

        def settle_later(on_done: OnDone) -> None:
            self._new_folders.settle_later(partition, on_done)

        partition = Partition(
            topic.name,
            described.index,
            topic.topic_id,
            UnmadeLog(make, self._new_folders.settle, settle_later),
            config,
            described.leader_epoch,
        )
        self._add(partition, directory)
        return partition

    def _make(self, partition: Partition) -> PartitionLog:
        """The first use of a partition: its folder."""
        directory = self.homes.of(partition)
        log = directory.open_partition(
            partition.topic,
            partition.index,
            partition.topic_id,
            self._configs.log_config(partition.config),
        )
        self._made[partition] = log
        self._new_folders.add(partition, log, directory)
        return log

    def _settle(self) -> None:
        try:
            self._new_folders.settle()
        except StorageError as error:
            self._on_storage_error(error.path, error)

    def _report_misses(self, topic: str, index: int) -> None:
        for directory in self.homes.directories:
            end_offset = directory.misses(topic, index)
            if end_offset:
                self._report_shortened(f"{topic}-{index}", 0, end_offset)

    def _report_shortened(self, name: str, log_end_offset: int, missing_up_to: int) -> None:
        self._log.warning(
            "log_shortened",
            partition=name,
            log_end_offset=log_end_offset,
            missing_up_to=missing_up_to,
        )

    def _report_recovery(self, name: str, log: PartitionLog) -> None:
        recovered = log.recovered
        if recovered.missing_up_to:
            self._report_shortened(name, recovered.log_end_offset, recovered.missing_up_to)
        if recovered.cut_bytes or recovered.dropped_segments:
            self._log.warning(
                "log_recovered",
                partition=name,
                cut_bytes=recovered.cut_bytes,
                dropped_segments=recovered.dropped_segments,
                log_end_offset=recovered.log_end_offset,
            )

    # -- moving between directories ----------------------------------------------------

    def made_log(self, partition: Partition) -> PartitionLog | None:
        """Its log, once it has a folder."""
        return self._made.get(partition)

    def settle_unmade(self, partition: Partition, directory: LogDirectory) -> None:
        """It has no folder yet: it will have it there."""
        self.homes.settle(partition, directory)
        self._tell_home(partition)

    def take_place(self, partition: Partition, directory: LogDirectory, copy: PartitionLog) -> None:
        """The copy there is the partition's log from now on; the old folder goes.

        The new name first: a crash between finds two whole folders, never none.
        """
        old, home = self._made[partition], self.homes.of(partition)
        log = directory.promote_future(copy, old.log_start_offset)
        waiting = old.flusher.take_waiting()
        self._made[partition] = partition.log = log
        self.homes.settle(partition, directory)
        self._safely(home, partial(home.delete_partitions, [old]))
        for on_done in waiting:
            log.flush(on_done)
        self._tell_home(partition)

    def _tell_home(self, partition: Partition) -> None:
        described = self._described(partition)
        if described is not None and self._has_roles:
            self._maybe_assign(partition, described)

    # -- deleting ----------------------------------------------------------------------

    def _delete(self, topic_id: bytes) -> set[str]:
        partitions = list(self.by_id.get(topic_id, {}).values())
        gone = {partition.topic for partition in partitions}
        self._drop(partitions)
        self.by_id.pop(topic_id, None)
        for name, index in self._damage.forget(topic_id):
            gone.add(name)
            self._delete_damaged(name, index)
        for topic in gone:
            self.by_name.pop(topic, None)
        return gone

    def _delete_damaged(self, name: str, index: int) -> None:
        for directory in self.homes.directories:
            self._safely(directory, partial(directory.delete_damaged, name, index))

    def _drop(self, partitions: Iterable[Partition]) -> None:
        """Deleted, or moved to other brokers: forget them, and their files."""
        doomed: dict[str, list[PartitionLog]] = {}
        for partition in partitions:
            if self.roles is not None:
                self.roles.on_gone(partition)
            del self.by_id[partition.topic_id][partition.index]
            self.by_name.get(partition.topic, {}).pop(partition.index, None)
            partition.take_out(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if self.moves is not None:
                self.moves.cancel(partition)
            directory = self.homes.leave(partition)
            log = self._made.pop(partition, None)
            if log is not None and directory is not None:
                doomed.setdefault(directory.path, []).append(log)
        for directory in self.homes.directories:
            if directory.path in doomed:
                self._safely(
                    directory, partial(directory.delete_partitions, doomed[directory.path])
                )

    # -- failing -----------------------------------------------------------------------

    def _on_directory_failure(self, directory: LogDirectory, error: StorageError) -> None:
        self._on_storage_error(directory.path, error)
        if self.moves is not None:
            self.moves.on_directory_failed(directory)
        for partition in self.homes.in_directory(directory.path):
            if partition.error:
                continue
            described = self._described(partition)
            if described is None or not self._moves_out(partition, described):
                partition.take_out(ErrorCode.KAFKA_STORAGE_ERROR)
                self._maybe_tell_lost(partition, described, directory)

    def _on_directory_full(self, directory: LogDirectory, error: DiskFullError) -> None:
        self._log.error("log_dir_full", path=directory.path, error=str(error.cause))

    def full_paths(self) -> list[str]:
        return [directory.path for directory in self.homes.directories if directory.full]

    def look_for_room(self) -> None:
        """Directories that were full and have room again take records at once."""
        for directory in self.homes.directories:
            if directory.look_for_room():
                self._log.info("log_dir_has_room", path=directory.path)
                for partition in self.homes.in_directory(directory.path):
                    partition.on_room()

    def _described(self, partition: Partition) -> PartitionImage | None:
        topic = None if self._image is None else self._image.topics_by_id.get(partition.topic_id)
        if topic is None or partition.index >= len(topic.partitions):
            return None
        return topic.partitions[partition.index]

    def _moves_out(self, partition: Partition, described: PartitionImage) -> bool:
        """True if it had nothing there: another will do, and is told before a heartbeat tells of
        the failed one."""
        if partition in self._made:
            return False
        other = self.homes.choose()
        self.homes.settle(partition, other)
        if other.failure is None and self._has_roles:
            self._maybe_assign(partition, described)
        return other.failure is None

    def _maybe_tell_lost(
        self, partition: Partition, described: PartitionImage | None, directory: LogDirectory
    ) -> None:
        """A heartbeat tells of the directory. If the controller does not know yet that the replica
        is there (it is new), it is told that the replica is lost."""
        if described is None or described.directory_of(self._node_id) == directory.directory_id:
            return
        self._maybe_give_up(partition.topic_id, described)

    def _on_partition_failure(self, partition: Partition, error: StorageError) -> None:
        if not isinstance(error, CorruptionError):  # it is its directory's to tell
            return
        self._on_storage_error(partition.name, error)
        described = self._described(partition)
        if described is not None:
            self._maybe_give_up(partition.topic_id, described)

    def _on_storage_error(self, name: str, error: StorageError) -> None:
        self.storage_error_count += 1
        self._log.error("storage_failed", what=name, path=error.path, error=str(error.cause))

    def _safely(self, directory: LogDirectory, action: Callable[[], object]) -> None:
        """A refusal of the disk is told; it is the directory's, which has seen to the rest."""
        try:
            action()
        except StorageError as error:
            self._on_storage_error(directory.path, error)

    # -- upkeep ------------------------------------------------------------------------

    def in_service(self) -> Iterable[Partition]:
        return [partition for partition in self.all() if not partition.error]

    def in_use(self) -> list[Partition]:
        """Those in service that have a folder."""
        return [partition for partition, _ in self._kept_up()]

    def _kept_up(self) -> list[tuple[Partition, PartitionLog]]:
        return [(partition, log) for partition, log in self._made.items() if not partition.error]

    def compacted(self) -> list[tuple[Partition, PartitionLog]]:
        """Those in service whose logs are to be compacted."""
        return [each for each in self._kept_up() if each[1].config.compact]

    def checkpoint_clean_offset(self, partition: Partition) -> None:
        """A cleaning of the partition is durable, and is to be known at the next start."""
        if partition in self._made:
            self.homes.of(partition).checkpoint_clean_offsets()

    def retain(self) -> None:
        """Delete what retention says, roll what is due, forget expired producers."""
        now_ms = self._clock.now_ms()
        for partition, log in self._kept_up():
            try:
                if log.full is None:
                    log.maybe_roll(now_ms)
                log.retain(now_ms, partition.high_watermark)
                log.expire_producers(now_ms)
            except StorageError as error:
                partition.fail(error)

    def flush_due(self) -> None:
        now_ms = self._clock.now_ms()
        for _, log in self._kept_up():
            log.maybe_flush(now_ms)

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks of every directory."""
        high_watermarks: dict[str, dict[tuple[str, int], int]] = {}
        for partition in self._made:
            of_directory = high_watermarks.setdefault(self.homes.of(partition).path, {})
            of_directory[partition.topic, partition.index] = partition.high_watermark
        for directory in self.homes.directories:
            if directory.failure is None:
                offsets = high_watermarks.get(directory.path, {})
                self._safely(directory, partial(directory.checkpoint, offsets))

    def checkpoint_log_start(self, partition: Partition) -> None:
        """DeleteRecords is answered only once the new start survives a restart."""
        if partition in self._made:
            self.homes.of(partition).checkpoint_log_starts()

    def close(self, broker_epoch: int) -> bool:
        """Flush and checkpoint everything; False if a directory could not be marked clean."""
        for partition, _ in self._kept_up():
            partition.commit_staged_first()
        self._settle()
        if self.moves is not None:
            self.moves.close()
        self.checkpoint()
        marked = [directory.close(broker_epoch) for directory in self.homes.directories]
        return all(marked)

    def sweep(self) -> None:
        """Remove files that were renamed `.deleted` long enough ago."""
        now_ms = self._clock.now_ms()
        for directory in self.homes.directories:
            if directory.failure is None:
                self._safely(directory, partial(directory.sweep, now_ms))
