"""What administrators ask of a share group: how far it is, where it begins, that it goes.

Owns: the steps of DescribeShareGroupOffsets, Alter-, DeleteShareGroupOffsets and of DeleteGroups.
Must not know: versions, the wire, how decisions are made (`offsets`).
Spec: KIP-932; Kafka's GroupCoordinatorService.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.base.promise import Promise
from headrace.broker.groups.shards import HostedGroup
from headrace.broker.groups.share import offsets
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.hosting import ShareHosting
from headrace.broker.groups.share.lag import EndOffsets
from headrace.broker.groups.share.member import Refused
from headrace.broker.groups.share.records import encode, group_tombstones
from headrace.broker.groups.share.states import Errors, ShareStates, gather
from headrace.broker.groups.store import group_error
from headrace.broker.share.persister import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    ReadSummary,
    SharePartitionKey,
    SummaryRead,
)
from headrace.wire.kafka.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """How far a group is in one partition."""

    topic: str
    topic_id: bytes
    partition: int
    start_offset: int = UNINITIALIZED_START_OFFSET
    leader_epoch: int = 0
    lag: int = -1
    error: ErrorCode = ErrorCode.NONE


class ShareOffsets:
    def __init__(self, hosting: ShareHosting, states: ShareStates) -> None:
        self._hosting = hosting
        self._shards = hosting.shards
        self._states = states
        self.ends: EndOffsets | None = None
        """Comes with the broker: it reaches other brokers."""

    def describe(
        self, group_id: str, partitions: Collection[tuple[str, int]] | None
    ) -> Promise[list[ShareOffset] | Refused]:
        """How far a group is; None: in everything that it has begun."""
        hosted = self._shards.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(hosted, ErrorCode) and hosted is not ErrorCode.GROUP_ID_NOT_FOUND:
            return Promise.resolved(Refused(hosted, hosted.message))
        image = self._hosting.image_source()
        wanted: list[ShareOffset] = []
        if partitions is not None:
            for name, index in partitions:
                topic = image.topics_by_name.get(name)
                topic_id = bytes(16) if topic is None else topic.topic_id
                wanted.append(ShareOffset(name, topic_id, index))
        elif isinstance(hosted, HostedGroup) and isinstance(hosted.group, ShareGroup):
            for topic_id, index in sorted(hosted.group.states.initialized_partitions()):
                topic = image.topics_by_id.get(topic_id)
                if topic is not None:
                    wanted.append(ShareOffset(topic.name, topic_id, index))
        return self._read(group_id, wanted)

    def _read(
        self, group_id: str, wanted: list[ShareOffset]
    ) -> Promise[list[ShareOffset] | Refused]:
        asked = {
            index: self._states.persister.read_summary(
                ReadSummary(SharePartitionKey(group_id, each.topic_id, each.partition))
            )
            for index, each in enumerate(wanted)
            if any(each.topic_id)
        }
        answer: Promise[list[ShareOffset] | Refused] = Promise()

        def on_read(settled: Promise[dict[int, SummaryRead]]) -> None:
            read = settled.value()
            behind = [
                (wanted[index].topic, wanted[index].partition)
                for index, summary in read.items()
                if _has_lag(summary)
            ]
            ends = self.ends
            assert ends is not None
            ends.latest(behind).then(
                lambda found: answer.resolve(
                    [
                        _offset(each, read.get(index), found.value())
                        for index, each in enumerate(wanted)
                    ]
                )
            )

        gather(asked).then(on_read)
        return answer

    def alter(
        self, group_id: str, wanted: Mapping[tuple[str, int], int]
    ) -> Promise[list[offsets.PartitionOutcome] | Refused]:
        hosted: HostedGroup | None = None
        try:
            if not group_id:
                raise Refused(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.message)
            hosted, group = self._hosting.group_of(group_id, is_joining=True)
            decision = offsets.alter(group, wanted, self._hosting.world(group_id).topics)
        except Refused as refused:
            if hosted is not None:
                self._shards.forget_if_unused(hosted)
            return Promise.resolved(refused)
        if not decision.records:
            self._shards.forget_if_unused(hosted)
            return Promise.resolved(decision.answer)
        answer: Promise[list[offsets.PartitionOutcome] | Refused] = Promise()
        place = hosted

        def on_kept(kept: Promise[ErrorCode]) -> None:
            if kept.value():
                answer.resolve(Refused(kept.value(), kept.value().message))
            elif decision.beginning is None:
                answer.resolve(decision.answer)
            else:
                self._states.initialize(place, group, decision.beginning).then(on_initialized)

        def on_initialized(settled: Promise[Errors]) -> None:
            for outcome in decision.answer:
                error = settled.value().get((outcome.topic_id, outcome.partition))
                if error and not outcome.error:
                    outcome.error, outcome.message = error, error.message
            answer.resolve(decision.answer)

        self._hosting.accept(hosted, group, decision).then(on_kept)
        return answer

    def delete(
        self, group_id: str, names: Sequence[str]
    ) -> Promise[list[offsets.TopicOutcome] | Refused]:
        try:
            if not group_id:
                raise Refused(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.message)
            hosted, group = self._hosting.group_of(group_id)
            decision = offsets.delete(group, list(names), self._hosting.world(group_id).topics)
        except Refused as refused:
            return Promise.resolved(refused)
        deletion = decision.answer
        answer: Promise[list[offsets.TopicOutcome] | Refused] = Promise()

        def on_kept(kept: Promise[ErrorCode]) -> None:
            if kept.value():
                answer.resolve(Refused(kept.value(), kept.value().message))
            else:
                self._states.delete(group, deletion.partitions).then(on_deleted)

        def on_deleted(settled: Promise[Errors]) -> None:
            failed = {id_: error for (id_, _), error in settled.value().items() if error}
            gone = []
            for outcome in deletion.topics:
                error = failed.get(outcome.topic_id)
                if error is not None:
                    outcome.error, outcome.message = error, error.message
                elif not outcome.error:
                    gone.append(outcome.topic_id)
            if gone and hosted.group is group and not group.is_dead:
                states = group.states.without_topics(gone)
                self._hosting.accept_states(hosted, group, states)
            answer.resolve(deletion.topics)

        self._hosting.accept(hosted, group, decision).then(on_kept)
        return answer

    def delete_group(self, hosted: HostedGroup, group: ShareGroup) -> Promise[ErrorCode]:
        """First the states, then the group: what fails in between can be deleted again."""
        try:
            decision = offsets.delete_all(group, self._hosting.world(group.group_id).topics)
        except Refused as refused:
            return Promise.resolved(refused.error)
        answer: Promise[ErrorCode] = Promise()

        def on_kept(kept: Promise[ErrorCode]) -> None:
            if kept.value():
                answer.resolve(kept.value())
            else:
                self._states.delete(group, decision.answer).then(on_deleted)

        def on_deleted(settled: Promise[Errors]) -> None:
            error = next(filter(None, settled.value().values()), ErrorCode.NONE)
            if error:
                answer.resolve(error)
            elif hosted.group is not group or group.is_dead:
                answer.resolve(ErrorCode.NOT_COORDINATOR)
            elif group.members:
                answer.resolve(ErrorCode.NON_EMPTY_GROUP)
            else:
                self._bury(hosted, group).then(lambda buried: answer.resolve(buried.value()))

        self._hosting.accept(hosted, group, decision).then(on_kept)
        return answer

    def _bury(self, hosted: HostedGroup, group: ShareGroup) -> Promise[ErrorCode]:
        group.is_dead = True
        records = [encode(record) for record in group_tombstones(group.group_id)]

        def applied(append_error: int) -> ErrorCode:
            if not append_error:
                self._shards.forget(hosted)
            elif self._shards.is_current(hosted.shard):
                group.is_dead = False
            return group_error(append_error)

        return self._shards.append(hosted.shard, records).map(applied)


def _has_lag(summary: SummaryRead) -> bool:
    return (
        not summary.error
        and summary.start_offset != UNINITIALIZED_START_OFFSET
        and summary.delivery_complete_count != UNKNOWN_COUNT
    )


def _offset(
    wanted: ShareOffset, read: SummaryRead | None, ends: Mapping[tuple[str, int], int | ErrorCode]
) -> ShareOffset:
    """Without a state there is nothing to tell, which is no error."""
    if read is None or read.error:
        return wanted
    if not _has_lag(read):
        return replace(wanted, start_offset=read.start_offset, leader_epoch=read.leader_epoch)
    end = ends.get((wanted.topic, wanted.partition), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(end, ErrorCode):
        return replace(wanted, error=end)
    lag = end - read.start_offset - read.delivery_complete_count
    return replace(
        wanted, start_offset=read.start_offset, leader_epoch=read.leader_epoch, lag=max(lag, 0)
    )
