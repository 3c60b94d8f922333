"""Any sequence of joins, heartbeats, lost answers, leaves, silence, new and dropped topics, crashes
and changes of protocol keeps the promises.

L18: a partition has one owner, and no client owns what the coordinator does not say. Epochs never
go back for whoever was told. A reload makes the same group. Left alone, the group comes to rest
with every partition owned by exactly one member, evenly.
"""

from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.broker.groups.consumer.clients import ClassicConsumer, Consumer, settle
from tests.unit.broker.groups.stage import Stage, image_of, topic_image
from tests.unit.broker.groups.test_groups_stateful import CrashingLog

from headrace.broker.groups.commits import Committer
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import TopicIdPartition
from headrace.broker.groups.group import Group
from headrace.wire.kafka.errors import ErrorCode

NEW = ("ann", "bob", "cid", "dan")
CLASSIC = ("eve", "fay")
SUBSCRIPTIONS = (frozenset(("t",)), frozenset(("t", "u")), frozenset(("u", "later")))


class ConsumerGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = CrashingLog()
        image = image_of(topic_image("t", 5), topic_image("u", 3))
        self.stage = Stage(log=self.log, image=image)
        self.stage.coordinator.start()
        self.incarnation = 0
        self.consumers = {name: self._consumer(name) for name in NEW}
        self.classics = {
            name: ClassicConsumer(self.stage, name, is_cooperative=name == "fay")
            for name in CLASSIC
        }
        self.group_epoch = 0
        self.expired: set[str] = set()

    def _consumer(self, name: str) -> Consumer:
        self.incarnation += 1
        return Consumer(
            self.stage,
            f"{name}-{self.incarnation}",
            instance_id=name if name in ("ann", "bob") else None,
        )

    # What clients do

    @rule(name=st.sampled_from(NEW), is_answer_lost=st.booleans())
    def heartbeat(self, name: str, is_answer_lost: bool) -> None:
        self.consumers[name].heartbeat(is_answer_lost=is_answer_lost)
        self.stage.settle()

    @rule(name=st.sampled_from(NEW), topics=st.sampled_from(SUBSCRIPTIONS))
    def subscribe(self, name: str, topics: frozenset[str]) -> None:
        consumer = self.consumers[name]
        consumer.topics, consumer.regex, consumer.is_in_doubt = topics, "", True
        consumer.heartbeat()
        self.stage.settle()

    @rule(name=st.sampled_from(NEW), regex=st.sampled_from(["t|u", "later.*", "[tu]"]))
    def subscribe_to_pattern(self, name: str, regex: str) -> None:
        consumer = self.consumers[name]
        consumer.topics, consumer.regex, consumer.is_in_doubt = frozenset(), regex, True
        consumer.heartbeat()
        self.stage.settle()

    @rule(name=st.sampled_from(NEW), assignor=st.sampled_from([None, "uniform", "range"]))
    def prefer(self, name: str, assignor: str | None) -> None:
        self.consumers[name].assignor = assignor

    @rule(name=st.sampled_from(NEW))
    def leave(self, name: str) -> None:
        consumer = self.consumers[name]
        consumer.leave(-2 if consumer.instance_id else -1)

    @rule(name=st.sampled_from(NEW))
    def restart_client(self, name: str) -> None:
        self.consumers[name] = self._consumer(name)

    @rule(name=st.sampled_from(CLASSIC))
    def live_classic(self, name: str) -> None:
        self.classics[name].live()
        self.stage.settle()

    @rule(name=st.sampled_from(CLASSIC))
    def leave_classic(self, name: str) -> None:
        if self.classics[name].member_id:
            self.classics[name].leave()
        self.stage.settle()

    @rule()
    def settle_new(self) -> None:
        self.confirm_all()
        settle(self.stage, *self.consumers.values(), rounds=3)

    @rule()
    def settle_all(self) -> None:
        self.confirm_all()
        settle(self.stage, *self.consumers.values(), *self.classics.values(), rounds=3)

    @initialize(has_classic=st.booleans())
    def begin(self, has_classic: bool) -> None:
        if has_classic:
            settle(self.stage, *self.classics.values(), rounds=4)
        settle(self.stage, *self.consumers.values(), rounds=2)

    @rule(name=st.sampled_from(NEW))
    def commit(self, name: str) -> None:
        """Who is not a member of the group at its epoch does not commit."""
        consumer = self.consumers[name]
        topic = self.stage.image.topics_by_name["t"]
        is_owner = (topic.topic_id, 0) in consumer.owned and consumer.epoch > 0
        group = self.stage.coordinator.group("g")
        if not isinstance(group, ConsumerGroup) or not group.members:
            return
        answer = self.stage.commit(
            {("t", 0): 5},
            committer=Committer(consumer.member_id, None, consumer.epoch),
            topic_id=topic.topic_id,
        )
        member = group.members.get(consumer.member_id)
        if answer.settled and answer.value()["t", 0] is ErrorCode.NONE:
            assert member is not None
            assert consumer.epoch == member.member_epoch or is_owner

    # What time, administrators and the power do

    @rule(delta_ms=st.sampled_from([0, 1, 3_000, 11_000, 46_000, 61_000]))
    def pass_time(self, delta_ms: int) -> None:
        self.stage.pass_ms(delta_ms)
        self._note_expired()

    def _note_expired(self) -> None:
        """Who was silent for too long is gone, and does not know it yet."""
        group = self.stage.coordinator.group("g")
        members = group.members if isinstance(group, ConsumerGroup) else {}
        self.expired |= {each.member_id for each in self.consumers.values()} - members.keys()

    @rule(name=st.sampled_from(("t", "u", "later")))
    def grow(self, name: str) -> None:
        image = self.stage.image
        known = image.topics_by_name.get(name)
        topic = topic_image(name, 1 if known is None else min(len(known.partitions) + 1, 7))
        image.topics_by_name[name] = topic
        image.topics_by_id[topic.topic_id] = topic
        image.last_offset += 1
        self.stage.coordinator.on_topics_changed([name])

    @rule()
    def drop_topic(self) -> None:
        image = self.stage.image
        topic = image.topics_by_name.pop("later", None)
        if topic is not None:
            del image.topics_by_id[topic.topic_id]
            image.last_offset += 1
            self.stage.coordinator.on_topics_changed(["later"])

    @rule()
    def hold(self) -> None:
        self.log.is_holding = True

    @rule()
    def confirm_one(self) -> None:
        if self.log.unconfirmed:
            self.log.confirm_one()

    @rule()
    def confirm_all(self) -> None:
        self.log.is_holding = False
        self.log.confirm_all()

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.log.crash(data.draw(st.integers(0, len(self.log.unconfirmed))))
        self._restart()

    @rule(name=st.sampled_from(("cid", "dan")))
    def crash_while_joining(self, name: str) -> None:
        """The story that an answer given too early would not survive."""
        self.confirm_all()
        self.hold()
        self.restart_client(name)
        self.heartbeat(name, is_answer_lost=False)
        self.log.crash(0)
        self._restart()
        self.log.is_holding = False

    @rule()
    def restart_cleanly(self) -> None:
        self.log.confirm_all()
        before = self._portrait()
        self._restart()
        assert self._portrait() == before

    def _restart(self) -> None:
        self.stage.restart()
        self.group_epoch = 0
        for classic in self.classics.values():
            classic.joining = classic.syncing = classic.joined = None

    def _portrait(self) -> object:
        group = self.stage.coordinator.group("g")
        if not isinstance(group, ConsumerGroup):
            return None
        return (
            (group.group_epoch, group.metadata_hash),
            (group.assignment_epoch, group.assignment_timestamp_ms),
            dict(group.members),
            dict(group.static_member_ids),
            dict(group.target),
            dict(group.owners),
            dict(group.regexes),
        )

    # What always holds

    @invariant()
    def the_group_is_sound(self) -> None:
        event(f"{type(self.stage.coordinator.group('g')).__name__} {self.stage.state()}")
        group = self.stage.coordinator.group("g")
        if not isinstance(group, ConsumerGroup):
            self.group_epoch = 0
            return
        owners: dict[TopicIdPartition, str] = {}
        for member_id, member in group.members.items():
            assert member.member_id == member_id
            assert member.assigned.keys().isdisjoint(member.pending_revocation)
            for partition in (*member.assigned, *member.pending_revocation):
                assert owners.setdefault(partition, member_id) == member_id, "L18: double owner"
        assert owners == group.owners
        assert set(group.static_member_ids.values()) == {
            member.member_id for member in group.members.values() if member.instance_id
        }
        assert group.assignment_epoch <= group.group_epoch
        assert group.group_epoch >= self.group_epoch, "the group's epoch went back"
        self.group_epoch = group.group_epoch
        targets = [partition for target in group.target.values() for partition in target]
        assert len(targets) == len(set(targets)), "a partition has two targets"
        if group.members and not group.is_dead:
            assert group.next_deadline_ms is not None
            assert group.deadlines.session.keys() == group.members.keys()

    @invariant()
    def clients_own_what_the_coordinator_says(self) -> None:
        group = self.stage.coordinator.group("g")
        members = group.members if isinstance(group, ConsumerGroup) else {}
        for consumer in self.consumers.values():
            member = members.get(consumer.member_id)
            if member is not None:
                self.expired.discard(consumer.member_id)
            if consumer.epoch == 0 or consumer.member_id in self.expired:
                continue
            assert member is not None, "a member that was told of its place has lost it"
            assert member.member_epoch >= consumer.epoch, "a member's epoch went back"
            known = member.assigned.keys() | member.pending_revocation.keys()
            gone = {part for part in consumer.owned if part[0] not in self.stage.image.topics_by_id}
            if consumer.epoch in (member.member_epoch, member.previous_member_epoch):
                assert consumer.owned - gone <= known, "a client owns what is not its own"

    def teardown(self) -> None:
        """With the log well and everybody alive, the group comes to rest; silent, it empties."""
        self.log.is_holding = False
        self.log.confirm_all()
        self.stage.pass_ms(200_000)
        for consumer in self.consumers.values():
            consumer.topics, consumer.regex = frozenset(("t", "u")), ""
            consumer.assignor = "uniform"
            consumer.is_in_doubt = True
        self._comes_to_rest()
        self.grow("t")
        self._comes_to_rest()
        self.stage.pass_ms(10 * 60_000)
        assert self.stage.state() in ("Empty", "GROUP_ID_NOT_FOUND")

    def _comes_to_rest(self) -> None:
        settle(self.stage, *self.consumers.values(), rounds=10)
        group = self.stage.coordinator.group("g")
        assert isinstance(group, ConsumerGroup), self._last_words()
        assert group.state.value == "Stable"
        assert set(group.members) == {each.member_id for each in self.consumers.values()}
        parts = [consumer.owned for consumer in self.consumers.values()]
        sizes = [len(part) for part in parts]
        image = self.stage.image
        total = sum(len(image.topics_by_name[name].partitions) for name in ("t", "u"))
        assert sum(sizes) == len(set().union(*parts)) == total
        assert max(sizes) - min(sizes) <= 1
        for consumer in self.consumers.values():
            assert consumer.owned == group.target[consumer.member_id]

    def _last_words(self) -> str:
        answers = [consumer.heartbeat() for consumer in self.consumers.values()]
        return f"{self.stage.state()}: {[a.value() if a.settled else None for a in answers]}"


def test_the_machine_covers_both_kinds() -> None:
    """What the rules rely on: classic groups convert up and down in them."""
    machine = ConsumerGroups()
    machine.begin(has_classic=True)
    group = machine.stage.coordinator.group("g")
    assert isinstance(group, ConsumerGroup)
    assert {member.classic is None for member in group.members.values()} == {True, False}
    for consumer in machine.consumers.values():
        consumer.leave()
    assert isinstance(machine.stage.coordinator.group("g"), Group)


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
