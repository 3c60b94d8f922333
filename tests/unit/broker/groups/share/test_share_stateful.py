"""Share groups under everything at once: members, silence, topics, slow states, restarts.

Invariants: a member reads only what is initialised and subscribed; when everybody has spoken all of
that is read; epochs never go back; a coordinator that is loaded anew knows the same group.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.broker.groups.share.share_stage import ShareStage
from tests.unit.broker.groups.stage import topic_image

from headrace.broker.groups.share.group import ShareGroup
from headrace.wire.kafka.errors import ErrorCode

MEMBERS = "abcd"
NAMES = ("t", "u")


class ShareMembership(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = ShareStage()
        self.counts = {"t": 2}
        self.set_topics()
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0

    def set_topics(self) -> None:
        topics = [topic_image(name, count) for name, count in self.counts.items()]
        self.stage.set_topics(*topics)

    @property
    def group(self) -> ShareGroup | None:
        found = self.stage.coordinator.group("g")
        return found if isinstance(found, ShareGroup) else None

    @rule(member_id=st.sampled_from(MEMBERS), names=st.sets(st.sampled_from(NAMES), min_size=1))
    def join(self, member_id: str, names: set[str]) -> None:
        answer = self.stage.ask(member_id, 0, *sorted(names))
        self.stage.pass_ms(2_000)
        assert answer.value().error is ErrorCode.NONE
        self.epochs[member_id] = answer.value().member_epoch

    @rule(member_id=st.sampled_from(MEMBERS))
    def beat(self, member_id: str) -> None:
        if member_id not in self.epochs:
            return
        answer = self.stage.ask(member_id, self.epochs[member_id])
        self.stage.pass_ms(2_000)
        told = answer.value()
        if self.group is None or member_id not in self.group.members:
            assert told.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
            del self.epochs[member_id]
            return
        assert told.error is ErrorCode.NONE
        assert told.member_epoch >= self.epochs[member_id]
        self.epochs[member_id] = told.member_epoch

    @rule(member_id=st.sampled_from(MEMBERS))
    def leave(self, member_id: str) -> None:
        if self.epochs.pop(member_id, None) is not None:
            error = self.stage.leave(member_id)
            assert error in (
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )

    @rule(delta_ms=st.sampled_from((1_000, 20_000, 46_000)))
    def pass_time(self, delta_ms: int) -> None:
        self.stage.pass_ms(delta_ms)

    @rule(name=st.sampled_from(NAMES))
    def grow(self, name: str) -> None:
        self.counts[name] = min(self.counts.get(name, 0) + 1, 5)
        self.set_topics()

    @rule()
    def restart(self) -> None:
        before = self.group
        self.stage.restart()
        after = self.group
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert before.members == after.members
            assert before.target == after.target
            assert before.states == after.states
            assert (before.group_epoch, before.assignment_epoch) == (
                after.group_epoch,
                after.assignment_epoch,
            )

    @rule(is_holding=st.booleans())
    def states_are_slow(self, is_holding: bool) -> None:
        if is_holding:
            self.stage.persister.is_holding = True
        else:
            self.stage.persister.release()

    @rule()
    def delete(self) -> None:
        error = self.stage.coordinator.delete_group("g").value()
        if error is ErrorCode.NONE:
            assert self.group is None
            self.group_epoch = 0

    @invariant()
    def what_is_read_is_ready(self) -> None:
        group = self.group
        if group is None:
            return
        assert group.assignment_epoch <= group.group_epoch
        assert group.group_epoch >= self.group_epoch
        self.group_epoch = group.group_epoch
        ready = group.states.initialized_partitions()
        for member in group.members.values():
            assert member.assigned <= ready
            assert member.member_epoch <= group.group_epoch

    def everybody_beats(self, group: ShareGroup) -> None:
        for member_id in list(group.members):
            answer = self.stage.ask(member_id, group.members[member_id].member_epoch)
            self.stage.pass_ms(1)
            assert answer.value().error is ErrorCode.NONE

    def teardown(self) -> None:
        """In the end everybody speaks, everything is read, and nothing is left to be written."""
        self.stage.persister.release()
        self.stage.pass_ms(31_000)
        group = self.group
        if group is None or not group.members:
            return
        for _ in range(3):
            self.everybody_beats(group)
        at_rest = self.stage.log.record_count, self.stage.states.log.kept_count
        self.everybody_beats(group)
        assert (self.stage.log.record_count, self.stage.states.log.kept_count) == at_rest
        names = group.subscribed_topics()
        wanted = {
            (topic.topic_id, index)
            for topic in self.stage.image.topics_by_name.values()
            if topic.name in names
            for index in range(len(topic.partitions))
        }
        read = {partition for member in group.members.values() for partition in member.assigned}
        assert read == wanted


TestShareMembership = ShareMembership.TestCase
TestShareMembership.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
