"""Where decisions on consumer groups meet the log.

Owns: the way of a request to its group, which kind that group is, and that nobody is told what the
log has not kept. Must not know: versions, the wire, how decisions are made.
Spec: KIP-848; Kafka's GroupCoordinatorService.

A decision's records are appended and replayed at once, so that the next decision sees them; its
answer waits until they are kept. An answer without records waits for the group's last write: it may
tell of it. If the log refuses at once nothing has happened; if it fails later, what was decided in
between is wrong too, and the whole partition is read anew.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.base.promise import Promise
from headrace.broker.groups import session
from headrace.broker.groups.consumer import classic_members, conversion, expiry
from headrace.broker.groups.consumer.decision import Decision, World
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.heartbeat import (
    heartbeat,
    leave,
    leaving_member,
    removal_records,
    request_refusal,
)
from headrace.broker.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerMember,
    HeartbeatAnswer,
    HeartbeatQuestion,
    Refused,
)
from headrace.broker.groups.consumer.records import Record, encode
from headrace.broker.groups.consumer.regex import PatternError, TopicPattern, topic_pattern
from headrace.broker.groups.consumer.subscriptions import Resolution, refresh
from headrace.broker.groups.consumer.topics import ImageTopics
from headrace.broker.groups.group import Group
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinQuestion,
    MemberIdentity,
    SyncAnswer,
    SyncQuestion,
)
from headrace.broker.groups.rebalance import prepare_rebalance
from headrace.broker.groups.shards import HostedGroup, Shards
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.store import group_error, group_record
from headrace.cluster.image import INTERNAL_TOPICS, RESOURCE_GROUP, ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.coordinator_records import GroupMetadataKey

RESOLVE_STEP_COST_MAX = 100_000
"""Characters times states of a pattern: what is looked at before others have their turn."""
RETRY_MS = 1_000
"""A member that could not be removed because the log refused is looked at again after this."""

A = TypeVar("A")


class ConsumerGroups:
    def __init__(self, shards: Shards, image_source: Callable[[], ClusterImage]) -> None:
        self._shards = shards
        self._image_source = image_source
        self._refreshing: set[str] = set()
        shards.wake_consumer = self._on_deadline
        shards.on_loaded = self._on_loaded

    def world(self, group_id: str) -> World:
        image = self._image_source()
        settings = self._shards.settings.consumer
        overrides = image.configs.get((RESOURCE_GROUP, group_id))
        if overrides:
            settings = settings.of_group(overrides)
        return World(ImageTopics(image), settings, image.last_offset)

    # Members of the new protocol

    def heartbeat(
        self, group_id: str, question: HeartbeatQuestion, *, requires_member_id: bool
    ) -> Promise[HeartbeatAnswer]:
        world = self.world(group_id)
        refused = request_refusal(question, group_id, world, requires_member_id=requires_member_id)
        if refused is not None:
            return _refuse(refused)
        if question.member_epoch < 0:
            return self._leave(group_id, question)
        if not question.member_id:
            question = replace(question, member_id=self._shards.new_uuid())
        regex = question.subscribed_topic_regex
        if not regex or self._knows_regex(group_id, regex):
            return self._heartbeat(group_id, question, world, {})
        try:
            pattern = topic_pattern(regex)
        except PatternError as error:
            reason = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
            return _refuse(Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, reason))
        answer: Promise[HeartbeatAnswer] = Promise()

        def on_resolved(resolved: Promise[Resolution]) -> None:
            now_around = self.world(group_id)
            decided = self._heartbeat(group_id, question, now_around, resolved.value())
            decided.then(lambda settled: answer.resolve(settled.value()))

        self._resolve([pattern]).then(on_resolved)
        return answer

    def _knows_regex(self, group_id: str, regex: str) -> bool:
        hosted = self._shards.find(group_id)
        if isinstance(hosted, ErrorCode) or not isinstance(hosted.group, ConsumerGroup):
            return False
        return regex in hosted.group.regexes

    def _heartbeat(
        self, group_id: str, question: HeartbeatQuestion, world: World, resolution: Resolution
    ) -> Promise[HeartbeatAnswer]:
        is_joining = question.member_epoch == JOIN_EPOCH
        find = self._shards.find_or_create if is_joining else self._shards.find
        hosted = find(group_id)
        if isinstance(hosted, ErrorCode):
            return _refuse(_rejoin(_not_here(group_id, hosted)))
        now = self._shards.now()
        try:
            group, before = self._consumer_group(hosted, world, now, is_joining=is_joining)
            decision = heartbeat(group, question, world, now, resolution)
        except Refused as refused:
            self._shards.forget_if_unused(hosted)
            return _refuse(refused if is_joining else _rejoin(refused))
        member_id = decision.answer.member_id
        assert member_id is not None

        def on_accepted() -> None:
            group.expect_heartbeat(member_id, now, world.settings.session_timeout_ms)
            group.deadlines.join.pop(member_id, None)
            group.deadlines.sync.pop(member_id, None)

        return self._accept(hosted, group, decision, now, on_accepted, before).map(
            lambda error: _told(error, decision.answer)
        )

    def _consumer_group(
        self, hosted: HostedGroup, world: World, now: Instant, *, is_joining: bool
    ) -> tuple[ConsumerGroup, list[Record]]:
        """The consumer group that is there, or that a classic one becomes, with those records."""
        group = hosted.group
        if group.is_dead:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being deleted.")
        if isinstance(group, ConsumerGroup):
            return group, []
        if isinstance(group, ShareGroup):
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group."
            )
        if not is_joining:
            raise _not_here(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        tombstone: list[Record] = [(GroupMetadataKey(group=group.group_id), None)]
        if not group.members:
            # Its epochs go on where the generations were, so that none comes twice.
            consumer_group = ConsumerGroup(group.group_id)
            consumer_group.group_epoch = group.generation_id
            return consumer_group, tombstone if group.generation_id > 0 else []
        reason = conversion.upgrade_refusal(group, world.settings)
        if reason is not None:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group.group_id} is not a consumer group, and {reason}.",
            )
        consumer_group, records = conversion.upgraded(group, world.topics, now)
        return consumer_group, tombstone + records

    def _leave(self, group_id: str, question: HeartbeatQuestion) -> Promise[HeartbeatAnswer]:
        hosted = self._shards.find(group_id)
        if isinstance(hosted, ErrorCode):
            return _refuse(_not_here(group_id, hosted))
        world, now = self.world(group_id), self._shards.now()
        try:
            group, _ = self._consumer_group(hosted, world, now, is_joining=False)
            if question.member_epoch == LEAVE_EPOCH:
                member = leaving_member(group, question)
                answer = HeartbeatAnswer(
                    ErrorCode.NONE, member_id=member.member_id, member_epoch=LEAVE_EPOCH
                )
                removed = self._remove(hosted, group, [member.member_id], world, now)
                return removed.map(lambda error: _told(error, answer))
            decision = leave(group, question, world)
        except Refused as refused:
            return _refuse(refused)
        return self._accept(hosted, group, decision, now).map(
            lambda error: _told(error, decision.answer)
        )

    # Members of the classic protocol in a consumer group

    def join(self, hosted: HostedGroup, question: JoinQuestion) -> Promise[JoinAnswer]:
        group = hosted.group
        assert isinstance(group, ConsumerGroup)
        member_id = question.member_id
        if member_id == UNKNOWN_MEMBER_ID:
            member_id = f"{question.group_instance_id or question.client_id}-"
            member_id += self._shards.new_uuid()
        world, now = self.world(group.group_id), self._shards.now()
        is_nameless = question.member_id == UNKNOWN_MEMBER_ID and question.group_instance_id is None
        try:
            decision = classic_members.join(group, question, member_id, world, now)
        except Refused as refused:
            return Promise.resolved(JoinAnswer(refused.error, question.member_id))
        if is_nameless and question.requires_known_member_id:
            return Promise.resolved(JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        joined = decision.answer
        replaced_id = joined.replaced_id
        if replaced_id is not None and conversion.allows_downgrade(
            group, [replaced_id], world.settings, is_replacement=True
        ):
            return self._downgrade_to(hosted, group, joined, world, now)

        def on_accepted() -> None:
            group.expect_heartbeat(member_id, now, question.session_timeout_ms)
            expiry.expect_sync(group, joined.member, now)

        return self._accept(hosted, group, decision, now, on_accepted).map(
            lambda error: JoinAnswer(error, member_id) if error else joined.answer
        )

    def sync(self, hosted: HostedGroup, question: SyncQuestion) -> Promise[SyncAnswer]:
        group = hosted.group
        assert isinstance(group, ConsumerGroup)
        world, now = self.world(group.group_id), self._shards.now()
        try:
            answer = classic_members.sync(group, question, world)
        except Refused as refused:
            if refused.error is ErrorCode.REBALANCE_IN_PROGRESS:
                expiry.expect_join(group, group.members[question.member_id], now)
                self._shards.arm(hosted)
            return Promise.resolved(SyncAnswer(refused.error))
        self._renew_classic(hosted, group, question.member_id, now)
        group.deadlines.sync.pop(question.member_id, None)
        return hosted.last_write.map(
            lambda error: SyncAnswer(group_error(error)) if error else answer
        )

    def classic_heartbeat(
        self,
        hosted: HostedGroup,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
    ) -> ErrorCode:
        group, now = hosted.group, self._shards.now()
        assert isinstance(group, ConsumerGroup)
        try:
            error = classic_members.heartbeat_error(
                group, member_id, group_instance_id, generation_id
            )
        except Refused as refused:
            return refused.error
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            expiry.expect_join(group, group.members[member_id], now)
        self._renew_classic(hosted, group, member_id, now)
        return error

    def _renew_classic(
        self, hosted: HostedGroup, group: ConsumerGroup, member_id: str, now: Instant
    ) -> None:
        member = group.members[member_id]
        assert member.classic is not None
        group.expect_heartbeat(member_id, now, member.classic.session_timeout_ms)
        self._shards.arm(hosted)

    def classic_leave(
        self, hosted: HostedGroup, identities: Sequence[MemberIdentity]
    ) -> list[ErrorCode]:
        group, now = hosted.group, self._shards.now()
        assert isinstance(group, ConsumerGroup)
        outcomes, member_ids = classic_members.leaving(group, identities)
        if member_ids:
            self._remove(hosted, group, member_ids, self.world(group.group_id), now)
        return outcomes

    # From one kind to the other

    def make_classic(self, hosted: HostedGroup) -> ErrorCode:
        """An empty consumer group becomes an empty classic one: its offsets and epoch stay."""
        group = hosted.group
        assert isinstance(group, ConsumerGroup)
        assert not group.members
        records = [encode(record) for record in conversion.tombstones(group)]
        appended = self._shards.append(hosted.shard, records)
        if appended.settled and appended.value():
            return group_error(appended.value())
        group.is_dead = True
        classic = hosted.group = self._shards.new_classic(hosted)
        classic.generation_id = group.group_epoch
        self._reload_if_lost(hosted, appended)
        return ErrorCode.NONE

    def _downgrade(
        self,
        hosted: HostedGroup,
        group: ConsumerGroup,
        leaving_ids: list[str],
        world: World,
        now: Instant,
        joining: ConsumerMember | None = None,
    ) -> Promise[ErrorCode]:
        classic = self._shards.new_classic(hosted)
        conversion.fill_downgraded(classic, group, leaving_ids, world.topics, now, joining)
        assignments = {each.member_id: each.assignment for each in classic.members.values()}
        records = [encode(record) for record in conversion.tombstones(group)]
        records.append(group_record(classic, assignments))
        appended = self._shards.append(hosted.shard, records)
        if appended.settled and appended.value():
            return Promise.resolved(group_error(appended.value()))
        group.is_dead = True
        hosted.group = classic
        for member in classic.members.values():
            classic.expect_heartbeat(member, now)
        if joining is None:
            prepare_rebalance(classic, now)
        self._shards.arm(hosted)
        self._reload_if_lost(hosted, appended)
        return appended.map(group_error)

    def _downgrade_to(
        self,
        hosted: HostedGroup,
        group: ConsumerGroup,
        joined: classic_members.Joined,
        world: World,
        now: Instant,
    ) -> Promise[JoinAnswer]:
        """A static member of the classic protocol replaces the last one of the new."""
        assert joined.replaced_id is not None
        replaced = group.members[joined.replaced_id]
        written = self._downgrade(hosted, group, [joined.replaced_id], world, now, joined.member)
        classic = hosted.group
        answer = JoinAnswer(
            ErrorCode.NONE,
            joined.member.member_id,
            generation_id=group.group_epoch,
            protocol_type=joined.answer.protocol_type,
            protocol_name=classic.protocol_name if isinstance(classic, Group) else None,
        )
        if isinstance(classic, Group) and not joined.member.with_same_subscription(replaced):
            prepare_rebalance(classic, now)
            self._shards.arm(hosted)
        return written.map(
            lambda error: JoinAnswer(error, joined.member.member_id) if error else answer
        )

    # Time and topics

    def _on_loaded(self, hosted: HostedGroup) -> None:
        group = hosted.group
        assert isinstance(group, ConsumerGroup)
        expiry.start_sessions(group, self.world(group.group_id).settings, self._shards.now())
        if group.regexes:
            self._shards.call_soon(lambda: self._refresh_regexes(hosted))

    def _on_deadline(self, hosted: HostedGroup) -> None:
        group, now = hosted.group, self._shards.now()
        assert isinstance(group, ConsumerGroup)
        late = expiry.expired(group, now)
        if late and not group.is_dead:
            self._remove(hosted, group, late, self.world(group.group_id), now)
            for member_id in late:
                if member_id in group.members and not group.is_dead:
                    group.deadlines.forget(member_id)
                    group.expect_heartbeat(member_id, now, RETRY_MS)
        group.find_next_deadline()

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Topics came, went or grew: who reads them looks again."""
        changed = frozenset(names)
        for hosted in self._shards.hosted():
            group = hosted.group
            if not isinstance(group, ConsumerGroup) or not group.members:
                continue
            if group.regexes:
                self._refresh_regexes(hosted)
            if not group.is_refresh_due and not changed.isdisjoint(group.subscribed_topics()):
                group.is_refresh_due = True

    def _refresh_regexes(self, hosted: HostedGroup) -> None:
        group = hosted.group
        if not isinstance(group, ConsumerGroup) or group.is_dead:
            return
        if group.group_id in self._refreshing:
            return
        self._refreshing.add(group.group_id)
        version = self._image_source().last_offset

        def on_resolved(resolved: Promise[Resolution]) -> None:
            self._refreshing.discard(group.group_id)
            if hosted.group is not group or group.is_dead or not group.members:
                return
            now = self._shards.now()
            records = refresh(group, resolved.value(), self.world(group.group_id), now)
            self._accept(hosted, group, Decision(None, records), now)
            if self._image_source().last_offset != version:
                self._shards.call_soon(lambda: self._refresh_if_changed(hosted, version))

        self._resolve([topic_pattern(regex) for regex in group.regexes]).then(on_resolved)

    def _refresh_if_changed(self, hosted: HostedGroup, version: int) -> None:
        """Topics may have come while names were looked at."""
        if self._image_source().last_offset != version:
            self._refresh_regexes(hosted)

    def _resolve(self, patterns: list[TopicPattern]) -> Promise[Resolution]:
        """The topics that each pattern stands for, in bounded steps."""
        names = [
            name for name in self._image_source().topics_by_name if name not in INTERNAL_TOPICS
        ]
        found: dict[str, set[str]] = {pattern.pattern: set() for pattern in patterns}
        resolved: Promise[Resolution] = Promise()

        size = sum(pattern.size for pattern in patterns)

        def step(start: int) -> None:
            index, cost = start, 0
            while index < len(names) and cost < RESOLVE_STEP_COST_MAX:
                name = names[index]
                for pattern in patterns:
                    if pattern.matches(name):
                        found[pattern.pattern].add(name)
                cost += size * len(name)
                index += 1
            if index < len(names):
                self._shards.call_soon(lambda: step(index))
            else:
                resolved.resolve({regex: frozenset(topics) for regex, topics in found.items()})

        step(0)
        return resolved

    # Writing

    def _remove(
        self,
        hosted: HostedGroup,
        group: ConsumerGroup,
        member_ids: list[str],
        world: World,
        now: Instant,
    ) -> Promise[ErrorCode]:
        if conversion.allows_downgrade(group, member_ids, world.settings):
            return self._downgrade(hosted, group, member_ids, world, now)
        records = removal_records(group, member_ids, world)
        return self._accept(hosted, group, Decision(None, records), now)

    def _accept(
        self,
        hosted: HostedGroup,
        group: ConsumerGroup,
        decision: Decision[A],
        now: Instant,
        on_accepted: Callable[[], None] = lambda: None,
        before: Sequence[Record] = (),
    ) -> Promise[ErrorCode]:
        """Write a decision: from here on the group is what it says, and once kept it is told.

        `before` are records that made the group what was decided on; it has replayed them.
        """
        records = [*before, *decision.records]
        appended = hosted.last_write
        if records:
            appended = self._shards.append(hosted.shard, [encode(record) for record in records])
            if appended.settled and appended.value():
                self._shards.forget_if_unused(hosted)
                return Promise.resolved(group_error(appended.value()))
        for record in decision.records:
            group.replay(record)
        if hosted.group is not group:
            self._take_place(hosted, group, now)
        expiry.note_steps(group, decision.records, now)
        if decision.is_refreshed:
            group.is_refresh_due = False
        on_accepted()
        if records:
            hosted.last_write = appended
            self._reload_if_lost(hosted, appended)
        self._shards.arm(hosted)
        return appended.map(group_error)

    def _take_place(self, hosted: HostedGroup, group: ConsumerGroup, now: Instant) -> None:
        """A consumer group in the place of a classic one."""
        classic = hosted.group
        assert isinstance(classic, Group)
        hosted.group = group
        # Members that wait in a rebalance join again, and find what the group is now.
        session.abandon(classic, ErrorCode.REBALANCE_IN_PROGRESS, now)
        expiry.start_sessions(group, self.world(group.group_id).settings, now)

    def _reload_if_lost(self, hosted: HostedGroup, appended: Promise[int]) -> None:
        def on_appended(settled: Promise[int]) -> None:
            if settled.value():
                self._shards.reload(hosted.shard)

        appended.then(on_appended)


def _told(error: ErrorCode, answer: HeartbeatAnswer) -> HeartbeatAnswer:
    return HeartbeatAnswer(error) if error else answer


def _refuse(refused: Refused) -> Promise[HeartbeatAnswer]:
    return Promise.resolved(HeartbeatAnswer(refused.error, refused.message))


def _rejoin(refused: Refused) -> Refused:
    """A member whose group is gone is told that it is not in it: then it joins anew.

    Kafka says GROUP_ID_NOT_FOUND, at which consumers give up."""
    if refused.error is ErrorCode.GROUP_ID_NOT_FOUND:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, refused.message)
    return refused


def _not_here(group_id: str, error: ErrorCode) -> Refused:
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        return Refused(error, f"Consumer group {group_id} not found.")
    return Refused(error, error.message)
