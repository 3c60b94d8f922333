"""Where decisions on the members of share groups meet the log and the persister.

Owns: the way of a heartbeat, silent members, and topics that come and go. Must not know: versions,
the wire, how decisions are made.
Spec: KIP-932; Kafka's GroupCoordinatorService.

A heartbeat that finds partitions without a state has them initialised, and waits for that for a
moment: so a member is told its partitions with its first answer, not an interval later. What takes
longer it is told by a later heartbeat.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from headrace.base.promise import Promise
from headrace.broker.groups.shards import HostedGroup, Shards
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.heartbeat import (
    ShareDecision,
    heartbeat,
    removal_records,
    request_refusal,
    unknown_member,
)
from headrace.broker.groups.share.hosting import ShareHosting
from headrace.broker.groups.share.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    HeartbeatAnswer,
    Refused,
    ShareQuestion,
)
from headrace.broker.groups.share.offset_requests import ShareOffsets
from headrace.broker.groups.share.states import ShareStates
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode

RETRY_MS = 1_000
"""A member that could not be removed because the log refused is looked at again after this."""
PATIENCE_MS = 1_500
"""How long a heartbeat waits for states to be initialised."""


class ShareGroups:
    def __init__(
        self,
        shards: Shards,
        image_source: Callable[[], ClusterImage],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._shards = shards
        self._call_later = call_later
        self._hosting = ShareHosting(shards, image_source)
        self.world = self._hosting.world
        self.states = ShareStates(self._hosting)
        self.offsets = ShareOffsets(self._hosting, self.states)
        self.on_left: Callable[[str, str], None] = _nobody_asks
        """Told the group and member that left, or was silent for too long."""
        shards.wake_share = self._on_deadline
        shards.on_share_loaded = self._on_loaded

    def heartbeat(self, group_id: str, question: ShareQuestion) -> Promise[HeartbeatAnswer]:
        refused = request_refusal(question, group_id)
        if refused is not None:
            return _refuse(refused)
        if question.member_epoch == LEAVE_EPOCH:
            return self._leave(group_id, question.member_id)
        answer: Promise[HeartbeatAnswer] = Promise()

        def on_decided(settled: Promise[tuple[HeartbeatAnswer, Promise[bool] | None]]) -> None:
            first, initialized = settled.value()
            if initialized is None:
                answer.resolve(first)
                return
            again = replace(question, member_epoch=first.member_epoch)
            _first_of(initialized, PATIENCE_MS, self._call_later).then(
                lambda waited: on_initialized(first, again, waited.value())
            )

        def on_initialized(
            first: HeartbeatAnswer, question: ShareQuestion, is_initialized: bool
        ) -> None:
            if not is_initialized:
                answer.resolve(first)
                return
            self._heartbeat(group_id, question).then(
                lambda settled: answer.resolve(
                    settled.value()[0] if not settled.value()[0].error else first
                )
            )

        self._heartbeat(group_id, question).then(on_decided)
        return answer

    def _heartbeat(
        self, group_id: str, question: ShareQuestion
    ) -> Promise[tuple[HeartbeatAnswer, Promise[bool] | None]]:
        """The answer, and whether states are being initialised."""
        is_joining = question.member_epoch == JOIN_EPOCH
        now, world = self._shards.now(), self.world(group_id)
        hosted: HostedGroup | None = None
        try:
            hosted, group = self._hosting.group_of(group_id, is_joining=is_joining)
            decision = heartbeat(group, question, world, now)
        except Refused as refused:
            if hosted is not None:
                self._shards.forget_if_unused(hosted)
            error = refused.error
            if error is ErrorCode.GROUP_ID_NOT_FOUND and not is_joining:
                # As in consumer groups: it joins anew, where Kafka's answer makes it give up.
                error = ErrorCode.UNKNOWN_MEMBER_ID
            return Promise.resolved((HeartbeatAnswer(error, refused.message), None))
        place = hosted

        def on_accepted() -> None:
            timeout_ms = world.settings.session_timeout_ms
            group.expect_heartbeat(question.member_id, now, timeout_ms)

        def told(error: ErrorCode) -> tuple[HeartbeatAnswer, Promise[bool] | None]:
            if error:
                return HeartbeatAnswer(error), None
            if decision.beginning is None:
                return decision.answer, None
            done = self.states.initialize(place, group, decision.beginning)
            return decision.answer, done.map(lambda outcomes: not any(outcomes.values()))

        return self._hosting.accept(hosted, group, decision, on_accepted).map(told)

    def _leave(self, group_id: str, member_id: str) -> Promise[HeartbeatAnswer]:
        world = self.world(group_id)
        try:
            hosted, group = self._hosting.group_of(group_id)
            if member_id not in group.members:
                raise unknown_member(group, member_id)
        except Refused as refused:
            return _refuse(refused)
        answer = HeartbeatAnswer(ErrorCode.NONE, member_id=member_id, member_epoch=LEAVE_EPOCH)
        decision = ShareDecision(None, removal_records(group, [member_id], world))

        def told(error: ErrorCode) -> HeartbeatAnswer:
            if error:
                return HeartbeatAnswer(error)
            self.on_left(group_id, member_id)
            return answer

        return self._hosting.accept(hosted, group, decision).map(told)

    # Time and topics

    def _on_loaded(self, hosted: HostedGroup) -> None:
        group = hosted.group
        assert isinstance(group, ShareGroup)
        settings = self.world(group.group_id).settings
        group.start_sessions(self._shards.now(), settings.session_timeout_ms)

    def _on_deadline(self, hosted: HostedGroup) -> None:
        group, now = hosted.group, self._shards.now()
        assert isinstance(group, ShareGroup)
        late = group.silent_members(now)
        if late and not group.is_dead:
            records = removal_records(group, late, self.world(group.group_id))
            self._hosting.accept(hosted, group, ShareDecision(None, records))
            for member_id in late:
                if member_id in group.members:
                    group.expect_heartbeat(member_id, now, RETRY_MS)
                else:
                    self.on_left(group.group_id, member_id)
        group.find_next_deadline()

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Topics came, went or grew: who reads them looks again."""
        changed = frozenset(names)
        for hosted in self._shards.hosted():
            group = hosted.group
            if isinstance(group, ShareGroup) and not changed.isdisjoint(group.subscribed_topics()):
                group.is_refresh_due = True

    def forget_topics(self, among: Iterable[HostedGroup], topic_ids: Collection[bytes]) -> None:
        """The share coordinator forgets their states by itself."""
        for hosted in among:
            group = hosted.group
            if not isinstance(group, ShareGroup) or group.is_dead:
                continue
            states = group.states.without_topics(topic_ids)
            if states != group.states:
                self._hosting.accept_states(hosted, group, states)


def _nobody_asks(_group_id: str, _member_id: str) -> None:
    """Where nobody hands out records."""


def _refuse(refused: Refused) -> Promise[HeartbeatAnswer]:
    return Promise.resolved(HeartbeatAnswer(refused.error, refused.message))


def _first_of(
    promise: Promise[bool],
    timeout_ms: int,
    call_later: Callable[[float, Callable[[], None]], object],
) -> Promise[bool]:
    """Its value, or False when that takes too long."""
    if promise.settled:
        return promise
    first: Promise[bool] = Promise()

    def settle(value: bool) -> None:
        if not first.settled:
            first.resolve(value)

    promise.then(lambda settled: settle(settled.value()))
    call_later(timeout_ms, lambda: settle(False))
    return first
