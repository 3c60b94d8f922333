"""Committing, reading and forgetting the offsets of hosted groups.

Owns: who may change which offsets, and that memory follows the log: an offset is seen once
the log has kept it, and a deletion likewise. Must not know: versions, the wire.
Spec: Kafka's OffsetMetadataManager; KIP-211 (expiry), KIP-496 (OffsetDelete), KIP-229
(DeleteGroups).

A deletion in flight, as a story: 1. the tombstones are appended and the group is Dead; 2. a
member or a commit that comes now is told to try again, so nothing can slip behind the
tombstones; 3. the log keeps them: the group is gone, or refuses: the group is Empty again.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from headrace.base.promise import Promise
from headrace.broker.groups import session
from headrace.broker.groups.consumer.commit_checks import commit_errors, fetch_error
from headrace.broker.groups.consumer.conversion import tombstones
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.records import encode
from headrace.broker.groups.group import Group, GroupState
from headrace.broker.groups.offsets import (
    CommittedOffset,
    OffsetTable,
    TopicPartition,
    expired_offsets,
    expiry_of,
)
from headrace.broker.groups.shards import HostedGroup, Shard, Shards
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.store import (
    commit_error,
    group_error,
    group_tombstone,
    offset_record,
)
from headrace.broker.internal_log import KeyValue
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode

TOMBSTONES_PER_BATCH_MAX = 1_000

Outcomes = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits; without member and generation an administrator or a lone consumer."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    """Of a classic group; in a consumer group the member's epoch."""
    knows_epochs: bool = True
    """False for versions from before consumer groups."""


@dataclass(frozen=True, slots=True)
class Deletion:
    error: ErrorCode
    outcomes: Outcomes


class Commits:
    def __init__(self, shards: Shards, image_source: Callable[[], ClusterImage]) -> None:
        self._shards = shards
        self._image_source = image_source

    # Committing

    def commit(
        self,
        group_id: str,
        committer: Committer,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        unknown_group_error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND,
    ) -> Promise[Outcomes]:
        """An outcome for each offset, once the log has kept what it should keep."""
        hosted = self._host_of(group_id, committer, unknown_group_error)
        if isinstance(hosted, ErrorCode):
            return Promise.resolved(dict.fromkeys(offsets, hosted))
        errors = self._errors(hosted, committer, offsets)
        if errors and len(errors) == len(offsets):
            self._shards.forget_if_unused(hosted)
            return Promise.resolved(errors)
        self._shards.arm(hosted)
        return self._write(hosted, _without(offsets, errors)).map(lambda kept: {**kept, **errors})

    def _errors(
        self,
        hosted: HostedGroup,
        committer: Committer,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        is_transactional: bool = False,
    ) -> Outcomes:
        """Of those offsets that these may not commit now."""
        group = hosted.group
        if isinstance(group, ConsumerGroup):
            errors = commit_errors(
                group,
                committer.member_id,
                committer.group_instance_id,
                committer.generation_id,
                {key: (committed.topic_id, key[1]) for key, committed in offsets.items()},
                is_transactional=is_transactional,
                knows_epochs=committer.knows_epochs,
            )
            return dict.fromkeys(offsets, errors) if isinstance(errors, ErrorCode) else errors
        if isinstance(group, ShareGroup):
            return dict.fromkeys(offsets, ErrorCode.GROUP_ID_NOT_FOUND)
        error = session.commit_error(
            group,
            committer.member_id,
            committer.group_instance_id,
            committer.generation_id,
            self._shards.now(),
            is_transactional=is_transactional,
        )
        return {} if error is ErrorCode.NONE else dict.fromkeys(offsets, error)

    def _host_of(
        self, group_id: str, committer: Committer, unknown_group_error: ErrorCode
    ) -> HostedGroup | ErrorCode:
        if committer.generation_id < 0:
            return self._shards.find_or_create(group_id)
        hosted = self._shards.find(group_id)
        return unknown_group_error if hosted is ErrorCode.GROUP_ID_NOT_FOUND else hosted

    def _write(
        self, hosted: HostedGroup, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Promise[Outcomes]:
        outcomes, changes = self._admit(offsets)
        if not changes:
            self._shards.forget_if_unused(hosted)
            return Promise.resolved(outcomes)

        def told(append_error: int) -> Outcomes:
            if append_error:
                outcomes.update(dict.fromkeys(changes, commit_error(append_error)))
            return outcomes

        return self._change(hosted, changes).map(told)

    def _admit(
        self, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> tuple[Outcomes, dict[TopicPartition, CommittedOffset]]:
        """What may be written, and the outcome of each if the log keeps that."""
        metadata_max = self._shards.settings.offset_metadata_bytes_max
        outcomes = dict.fromkeys(offsets, ErrorCode.NONE)
        kept: dict[TopicPartition, CommittedOffset] = {}
        for key, committed in offsets.items():
            if len(committed.metadata) > metadata_max:
                outcomes[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                kept[key] = committed
        return outcomes, kept

    # Committing inside a transaction

    def commit_in_transaction(
        self,
        group_id: str,
        committer: Committer,
        producer: tuple[int, int],
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> Promise[Outcomes]:
        """The same for a transaction: kept by the log, seen once its marker says so."""
        hosted = self._host_of(group_id, committer, ErrorCode.ILLEGAL_GENERATION)
        if isinstance(hosted, ErrorCode):
            return Promise.resolved(dict.fromkeys(offsets, hosted))
        errors = self._errors(hosted, committer, offsets, is_transactional=True)
        outcomes, kept = self._admit(_without(offsets, errors))
        outcomes.update(errors)
        if not kept:
            self._shards.forget_if_unused(hosted)
            return Promise.resolved(outcomes)
        # Pending from the append on, so that a marker right behind it finds it.
        producer_id, shard = producer[0], hosted.shard
        ticket = hosted.offsets.add_pending(producer_id, kept)
        shard.open_transactions.setdefault(producer_id, set()).add(group_id)

        def told(append_error: int) -> Outcomes:
            if append_error:
                hosted.offsets.drop_pending(producer_id, ticket)
                outcomes.update(dict.fromkeys(kept, commit_error(append_error)))
                self._shards.forget_if_unused(hosted)
            return outcomes

        records = [offset_record(group_id, *key, committed) for key, committed in kept.items()]
        return self._shards.append(shard, records, producer).map(told)

    def is_ready(self, partition: int) -> bool:
        """Whether what is pending in a partition of the offsets topic is known here."""
        return self._shards.at(partition) is not None

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker is in the log: its producer's offsets count from here on, or never did."""
        shard = self._shards.at(partition)
        if shard is None:
            return  # whoever loads it next reads the marker
        for group_id in shard.open_transactions.pop(producer_id, ()):
            hosted = shard.groups.get(group_id)
            if hosted is not None:
                hosted.offsets.end_transaction(producer_id, is_commit=is_commit)
                self._shards.forget_if_unused(hosted)

    # Reading

    def fetch(
        self, group_id: str, member_id: str | None = None, member_epoch: int = -1
    ) -> "CommittedView | ErrorCode":
        """What a group has committed; GROUP_ID_NOT_FOUND, or why nobody could know here.

        A member of a consumer group that tells its epoch is told when that is stale."""
        hosted = self._shards.find(group_id)
        if isinstance(hosted, ErrorCode):
            return hosted
        if isinstance(hosted.group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(hosted.group, ConsumerGroup):
            error = fetch_error(hosted.group, member_id, member_epoch)
            if error is not ErrorCode.NONE:
                return error
        return CommittedView(hosted.offsets, self._image_source())

    # Forgetting

    def delete_offsets(self, group_id: str, keys: Collection[TopicPartition]) -> Promise[Deletion]:
        hosted = self._shards.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        error = hosted if isinstance(hosted, ErrorCode) else _offset_delete_error(hosted)
        if error is not ErrorCode.NONE or isinstance(hosted, ErrorCode):
            return Promise.resolved(Deletion(error, {}))
        outcomes = dict.fromkeys(keys, ErrorCode.NONE)
        changes: dict[TopicPartition, CommittedOffset | None] = {}
        for key in keys:
            topic, partition = key
            if _is_subscribed(hosted, topic):
                outcomes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif (
                hosted.offsets.get(topic, partition)
                or hosted.offsets.has_in_flight(*key)
                or hosted.offsets.has_pending(*key)
            ):
                changes[key] = None
        return self._change(hosted, changes).map(
            lambda append_error: Deletion(group_error(append_error), outcomes)
        )

    def delete_group(self, group_id: str) -> Promise[ErrorCode]:
        hosted = self._shards.find(group_id)
        if isinstance(hosted, ErrorCode):
            return Promise.resolved(hosted)
        if hosted.group.is_dead:
            return Promise.resolved(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(hosted.group, ShareGroup):
            return Promise.resolved(ErrorCode.GROUP_ID_NOT_FOUND)  # it has no offsets here
        if not _is_empty(hosted.group):
            return Promise.resolved(ErrorCode.NON_EMPTY_GROUP)
        return self._bury(hosted)

    def expire(self) -> Promise[int]:
        """Forget offsets past their retention, and groups that have nothing left.

        A promise of how many offsets were expired.
        """
        now = self._shards.now()
        retention_ms = self._shards.settings.offsets_retention_ms
        deletions: list[Promise[int]] = []
        for hosted in self._shards.hosted():
            group, table = hosted.group, hosted.offsets
            if isinstance(group, ShareGroup):
                continue  # it lives until somebody deletes it
            expiry = expiry_of(group, retention_ms)
            if expiry is None or group.is_dead:
                continue
            keys = expired_offsets(table, expiry, now.wall_ms)
            is_idle = (
                _is_empty(group)
                and not (isinstance(group, Group) and group.pending_members)
                and not table.has_any_pending
            )
            if is_idle and len(keys) == len(table) and not table.has_any_in_flight:
                count = len(keys)
                deletions.append(self._bury(hosted).map(_counted(count)))
            elif keys:
                deletions.append(self.forget(hosted, keys))
        return sum_of(deletions)

    def forget(self, hosted: HostedGroup, keys: list[TopicPartition]) -> Promise[int]:
        """Whatever their age; a promise of how many."""
        changes: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(keys)
        count = len(keys)
        return self._change(hosted, changes).map(lambda error: 0 if error else count)

    # Writing

    def _change(
        self, hosted: HostedGroup, changes: Mapping[TopicPartition, CommittedOffset | None]
    ) -> Promise[int]:
        """Append, then follow the log; the append's error code."""
        if not changes:
            return Promise.resolved(0)
        group_id = hosted.group.group_id
        records = [
            offset_record(group_id, topic, partition, committed)
            for (topic, partition), committed in changes.items()
        ]
        is_commit = any(committed is not None for committed in changes.values())
        ticket = hosted.offsets.begin(changes)

        def applied(append_error: int) -> int:
            hosted.offsets.end(ticket, changes, is_kept=not append_error)
            if append_error:
                self._shards.forget_if_unused(hosted)
            return append_error

        if is_commit:
            # One batch: a commit is kept whole or not at all.
            return self._shards.append(hosted.shard, records).map(applied)
        return self._append_in_batches(hosted.shard, records).map(applied)

    def _bury(self, hosted: HostedGroup) -> Promise[ErrorCode]:
        group, table = hosted.group, hosted.offsets
        assert not isinstance(group, ShareGroup)
        changes: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(table.keys())
        records = [offset_record(group.group_id, *key, None) for key in changes]
        revive = _begin_deletion(group, self._shards)
        if isinstance(group, ConsumerGroup):
            records += [encode(record) for record in tombstones(group)]
        else:
            records.append(group_tombstone(group.group_id))
        ticket = table.begin(changes)

        def applied(append_error: int) -> ErrorCode:
            table.end(ticket, changes, is_kept=not append_error)
            if not append_error:
                self._shards.forget(hosted)
            elif self._shards.is_current(hosted.shard):
                revive()
            return group_error(append_error)

        return self._append_in_batches(hosted.shard, records).map(applied)

    def _append_in_batches(self, shard: Shard, records: list[KeyValue]) -> Promise[int]:
        """The first error of any batch: what is forgotten piecemeal can be forgotten again."""
        outcome: Promise[int] = Promise()
        size = TOMBSTONES_PER_BATCH_MAX
        batches = [records[start : start + size] for start in range(0, len(records), size)]
        errors: list[int] = []

        def on_appended(appended: Promise[int]) -> None:
            errors.append(appended.value())
            if len(errors) == len(batches):
                outcome.resolve(next(filter(None, errors), 0))

        for batch in batches:
            self._shards.append(shard, batch).then(on_appended)
        return outcome


class CommittedView:
    """A group's committed offsets as a client may see them now.

    An offset that belongs to an earlier topic of the same name is none.
    """

    __slots__ = ("_image", "_table")

    def __init__(self, table: OffsetTable, image: ClusterImage) -> None:
        self._table = table
        self._image = image

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        committed = self._table.get(topic, partition)
        return committed if committed and self._is_of_today(topic, committed) else None

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change what `get` says."""
        return self._table.has_pending(topic, partition)

    def by_topic(self) -> dict[str, list[int]]:
        """Every topic and partition with a committed offset."""
        found: dict[str, list[int]] = {}
        for (topic, partition), committed in self._table:
            if self._is_of_today(topic, committed):
                found.setdefault(topic, []).append(partition)
        return found

    def _is_of_today(self, topic: str, committed: CommittedOffset) -> bool:
        image = self._image.topics_by_name.get(topic)
        return image is None or not any(committed.topic_id) or committed.topic_id == image.topic_id


def _is_empty(group: Group | ConsumerGroup) -> bool:
    if isinstance(group, ConsumerGroup):
        return not group.members
    return group.state is GroupState.EMPTY


def _begin_deletion(group: Group | ConsumerGroup, shards: Shards) -> Callable[[], None]:
    """Make a group Dead; what brings it back if the log refuses."""
    if isinstance(group, ConsumerGroup):
        group.is_dead = True

        def revive_consumer(group: ConsumerGroup = group) -> None:
            group.is_dead = False

        return revive_consumer
    empty_since_ms = group.state_since_ms
    group.transition(GroupState.DEAD, shards.now().wall_ms)

    def revive(group: Group = group) -> None:
        group.transition(GroupState.EMPTY, shards.now().wall_ms)
        group.state_since_ms = empty_since_ms

    return revive


def _without(
    offsets: Mapping[TopicPartition, CommittedOffset], errors: Outcomes
) -> Mapping[TopicPartition, CommittedOffset]:
    if not errors:
        return offsets
    return {key: committed for key, committed in offsets.items() if key not in errors}


def _offset_delete_error(hosted: HostedGroup) -> ErrorCode:
    group = hosted.group
    if group.is_dead or isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    if group.state is not GroupState.EMPTY and not group.is_consumer_group:
        # Which topics the members read only they know.
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _is_subscribed(hosted: HostedGroup, topic: str) -> bool:
    group = hosted.group
    assert not isinstance(group, ShareGroup)
    if isinstance(group, ConsumerGroup):
        return group.is_subscribed_to(topic)
    if group.subscribed_topics is None:
        return group.is_consumer_group
    return topic in group.subscribed_topics


def _counted(count: int) -> Callable[[ErrorCode], int]:
    return lambda error: count if error is ErrorCode.NONE else 0


def sum_of(parts: list[Promise[int]]) -> Promise[int]:
    total: Promise[int] = Promise()
    values: list[int] = []

    def on_part(part: Promise[int]) -> None:
        values.append(part.value())
        if len(values) == len(parts):
            total.resolve(sum(values))

    if not parts:
        return Promise.resolved(0)
    for part in parts:
        part.then(on_part)
    return total
