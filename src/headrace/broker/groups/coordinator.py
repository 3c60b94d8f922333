"""The group coordinator: what API handlers ask, answered by the groups hosted here.

Owns: the way from a group id to its group, and what is asked of groups that don't exist,
are being loaded, or live elsewhere. Must not know: versions, the wire.
Spec: Kafka's GroupCoordinatorService.

Offsets are `commits`; members of classic groups are `joining` and `session`, those of consumer
groups are `consumer`, those of share groups `share`; this is the door to all.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.broker.groups import joining, session
from headrace.broker.groups.commits import Commits
from headrace.broker.groups.consumer.coordination import ConsumerGroups
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.deleted_topics import DeletedTopics
from headrace.broker.groups.group import Group
from headrace.broker.groups.lag import FindPartition, GroupLag, GroupLags
from headrace.broker.groups.member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinQuestion,
    MemberIdentity,
    SyncAnswer,
    SyncQuestion,
)
from headrace.broker.groups.settings import Config, GroupSettings
from headrace.broker.groups.shards import AnyGroup, Shards
from headrace.broker.groups.share.coordination import ShareGroups
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.store import OffsetsLog
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


@dataclass(frozen=True, slots=True)
class GroupCounts:
    by_state: dict[str, int]
    by_type_and_state: dict[tuple[str, str], int]
    members: int
    offsets: int


class GroupCoordinator:
    def __init__(
        self,
        config: Config,
        offsets_log: OffsetsLog,
        clock: Clock,
        timers: Timers,
        random: Random,
        image_source: Callable[[], ClusterImage],
    ) -> None:
        self.settings = GroupSettings.from_config(config)
        self._log = offsets_log
        self._timers = timers
        self._shards = Shards(self.settings, offsets_log, clock, timers, random)
        self.commits = Commits(self._shards, image_source)
        self.consumer = ConsumerGroups(self._shards, image_source)
        self.share = ShareGroups(self._shards, image_source, timers.call_later)
        self.deleted_topics = DeletedTopics(self._shards, self.commits, self.share, image_source)
        self._lags = GroupLags(self._shards, self.share.offsets)
        self._retention_timer: Timer | None = None

    # Life

    def start(self) -> None:
        """Load what this broker leads and begin to look for offsets to forget."""
        self._shards.load_local()
        self._schedule_retention()

    def load(self, partition: int) -> Promise[int]:
        """This broker leads the partition now; a promise of the number of records read."""
        self._schedule_retention()
        return self._shards.load(partition)

    def unload(self, partition: int) -> None:
        self._shards.unload(partition)

    def shutdown(self) -> None:
        """Send everybody who waits to look for another coordinator."""
        if self._retention_timer is not None:
            self._retention_timer.cancel()
            self._retention_timer = None
        self._shards.close()

    def _schedule_retention(self) -> None:
        if self._retention_timer is not None or self._shards.is_closed:
            return
        self._retention_timer = self._timers.call_later(
            self.settings.offsets_retention_check_interval_ms, self._on_retention_check
        )

    def _on_retention_check(self) -> None:
        self._retention_timer = None
        self.commits.expire()
        self.deleted_topics.look()
        self._schedule_retention()

    # Where groups live

    def ensure_topic(self) -> Promise[int]:
        """See that `__consumer_offsets` exists; an error code."""
        self._schedule_retention()
        return self._log.ensure_exists()

    def partition_for(self, group_id: str) -> int:
        return self._shards.partition_for(group_id)

    # Members

    def join(self, group_id: str, question: JoinQuestion) -> Promise[JoinAnswer]:
        settings = self.settings
        if not group_id:
            return _refuse_join(question, ErrorCode.INVALID_GROUP_ID)
        if not (
            settings.session_timeout_ms_min
            <= question.session_timeout_ms
            <= settings.session_timeout_ms_max
        ):
            return _refuse_join(question, ErrorCode.INVALID_SESSION_TIMEOUT)
        if question.member_id == UNKNOWN_MEMBER_ID:
            hosted = self._shards.find_or_create(group_id)
        else:
            hosted = self._shards.find(group_id)
        if isinstance(hosted, ErrorCode):
            return _refuse_join(question, _unknown_member(hosted))
        if isinstance(hosted.group, ConsumerGroup):
            if hosted.group.is_dead:
                return _refuse_join(question, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if hosted.group.members:
                return self.consumer.join(hosted, question)
            error = self.consumer.make_classic(hosted)
            if error is not ErrorCode.NONE:
                return _refuse_join(question, error)
        if isinstance(hosted.group, ShareGroup):
            return _refuse_join(question, ErrorCode.UNKNOWN_MEMBER_ID)
        assert isinstance(hosted.group, Group)
        answer = joining.join(hosted.group, question, self._shards.now())
        self._shards.arm(hosted)
        self._shards.forget_if_unused(hosted)
        return answer

    def sync(self, group_id: str, question: SyncQuestion) -> Promise[SyncAnswer]:
        hosted = self._shards.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(hosted, ErrorCode):
            if hosted is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Older clients don't know that code in SyncGroup; they rejoin on this one.
                hosted = ErrorCode.REBALANCE_IN_PROGRESS
            return Promise.resolved(SyncAnswer(_unknown_member(hosted)))
        if isinstance(hosted.group, ConsumerGroup):
            return self.consumer.sync(hosted, question)
        if isinstance(hosted.group, ShareGroup):
            return Promise.resolved(SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        answer = session.sync(hosted.group, question, self._shards.now())
        self._shards.arm(hosted)
        return answer

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        hosted = self._shards.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(hosted, ErrorCode):
            if hosted is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Sessions start anew after loading: the member has lost nothing yet.
                return ErrorCode.NONE
            return _unknown_member(hosted)
        if isinstance(hosted.group, ConsumerGroup):
            return self.consumer.classic_heartbeat(
                hosted, member_id, group_instance_id, generation_id
            )
        if isinstance(hosted.group, ShareGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = session.heartbeat(
            hosted.group, member_id, group_instance_id, generation_id, self._shards.now()
        )
        self._shards.arm(hosted)
        return error

    def leave(
        self, group_id: str, identities: Sequence[MemberIdentity]
    ) -> ErrorCode | list[ErrorCode]:
        """An outcome for each identity, or one error for the whole request."""
        hosted = self._shards.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if hosted is ErrorCode.GROUP_ID_NOT_FOUND:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities)
        if isinstance(hosted, ErrorCode):
            return hosted
        if isinstance(hosted.group, ConsumerGroup):
            return self.consumer.classic_leave(hosted, identities)
        if isinstance(hosted.group, ShareGroup):
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities)
        outcomes = session.leave(hosted.group, identities, self._shards.now())
        self._shards.arm(hosted)
        self._shards.forget_if_unused(hosted)
        return outcomes

    # Deleting

    def delete_group(self, group_id: str) -> Promise[ErrorCode]:
        hosted = self._shards.find(group_id)
        if not isinstance(hosted, ErrorCode) and isinstance(hosted.group, ShareGroup):
            if hosted.group.is_dead:
                return Promise.resolved(ErrorCode.GROUP_ID_NOT_FOUND)
            return self.share.offsets.delete_group(hosted, hosted.group)
        return self.commits.delete_group(group_id)

    # Looking

    def group(self, group_id: str) -> AnyGroup | ErrorCode:
        """A group to be read, or why there is none to see."""
        hosted = self._shards.find(group_id)
        return hosted if isinstance(hosted, ErrorCode) else hosted.group

    def groups(self) -> list[AnyGroup] | ErrorCode:
        """All groups of the partitions that this broker leads."""
        if self._shards.is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._shards.load_local()
        if self._shards.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [hosted.group for hosted in self._shards.hosted()]

    def counts(self) -> GroupCounts:
        """For metrics."""
        by_state: Counter[str] = Counter()
        by_type_and_state: Counter[tuple[str, str]] = Counter()
        members = offsets = 0
        for hosted in self._shards.hosted():
            state = hosted.group.state.name.lower()
            by_state[state] += 1
            by_type_and_state[type_of(hosted.group), state] += 1
            members += len(hosted.group.members)
            offsets += len(hosted.offsets)
        return GroupCounts(dict(by_state), dict(by_type_and_state), members, offsets)

    def lags(self, partition_of: FindPartition, now_ms: int, limit: int) -> list[GroupLag]:
        """How far groups are behind; for metrics."""
        return self._lags.look(partition_of, now_ms, limit)

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Topics came, went or have more partitions: consumer groups that read them look again."""
        changed = list(names)
        self.consumer.on_topics_changed(changed)
        self.share.on_topics_changed(changed)

    def on_topics_deleted(
        self, names: Iterable[str], topic_ids: Collection[bytes] = ()
    ) -> Promise[int]:
        """Forget offsets of topics that are gone; a promise of how many there were at once."""
        self._shards.unload_lost()
        return self.deleted_topics.on_deleted(names, topic_ids)


def type_of(group: AnyGroup) -> str:
    """As ListGroups tells it."""
    if isinstance(group, ShareGroup):
        return SHARE
    return CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC


def _refuse_join(question: JoinQuestion, error: ErrorCode) -> Promise[JoinAnswer]:
    return Promise.resolved(JoinAnswer(error, question.member_id))


def _unknown_member(error: ErrorCode) -> ErrorCode:
    """Members are not told that a group is gone but that they are not in it."""
    return ErrorCode.UNKNOWN_MEMBER_ID if error is ErrorCode.GROUP_ID_NOT_FOUND else error
