"""Any sequence of joins, syncs, commits, silence, restarts and lost power keeps the promises.

L17: memory is the fold of what the log confirmed, and an offset is readable once its commit was
answered. L18: in one generation a partition has one owner. Besides: every question is answered,
and a group left alone ends Empty.
"""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.broker.groups.stage import DAY_MS, Actor, MemoryOffsetsLog, Stage

from headrace.base.promise import Promise
from headrace.broker.groups.commits import Outcomes
from headrace.broker.groups.group import Group, GroupState
from headrace.broker.groups.member import JoinAnswer, SyncAnswer
from headrace.broker.groups.store import OffsetEntry, read_entry
from headrace.wire.kafka.errors import ErrorCode

PARTITIONS = range(6)
NAMES = ("ann", "bob", "cid", "dan")


@dataclass
class Held:
    partition: int
    start: int
    promise: Promise[int]


class CrashingLog(MemoryOffsetsLog):
    """Confirms in order, one append at a time; a crash keeps any prefix of the unconfirmed."""

    def __init__(self) -> None:
        super().__init__(2)
        self.unconfirmed: list[Held] = []

    def append(self, partition: int, records: list[tuple[bytes, bytes | None]]) -> Promise[int]:
        held = Held(partition, len(self.partitions[partition]), Promise())
        self.partitions[partition].extend(records)
        self.unconfirmed.append(held)
        if not self.is_holding:
            self.confirm_all()
        return held.promise

    def confirm_one(self) -> None:
        self.unconfirmed.pop(0).promise.resolve(0)

    def confirm_all(self) -> None:
        while self.unconfirmed:
            self.confirm_one()

    def crash(self, kept_count: int) -> None:
        lost, self.unconfirmed = self.unconfirmed[kept_count:], []
        for held in reversed(lost):
            del self.partitions[held.partition][held.start :]

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The fold of what is confirmed."""
        ends = [len(records) for records in self.partitions]
        for held in reversed(self.unconfirmed):
            ends[held.partition] = held.start
        found: dict[tuple[str, int], int] = {}
        for records, end in zip(self.partitions, ends, strict=True):
            for key, value in records[:end]:
                match read_entry(key, value):
                    case OffsetEntry(group, topic, partition, committed) if group == group_id:
                        if committed is None:
                            found.pop((topic, partition), None)
                        else:
                            found[topic, partition] = committed.offset
        return found


@dataclass
class Player:
    actor: Actor
    members: tuple[str, ...] = ()
    is_leader: bool = False
    asked: list[Promise[JoinAnswer] | Promise[SyncAnswer]] = field(default_factory=list)


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = CrashingLog()
        self.stage = Stage(log=self.log)
        self.stage.coordinator.start()
        self.players = {name: self._player(name) for name in NAMES}
        self.owners: dict[tuple[int, int], str] = {}
        self.next_offset = 0

    def _player(self, name: str) -> Player:
        is_static = name in ("ann", "bob")
        actor = self.stage.actor(name, group_instance_id=name if is_static else None)
        return Player(actor)

    # What clients do

    @rule(name=st.sampled_from(NAMES), topics=st.sampled_from([("t",), ("t", "u")]))
    def join(self, name: str, topics: tuple[str, ...]) -> None:
        player = self.players[name]
        player.actor.topics = topics
        answer = player.actor.enter()
        player.asked.append(answer)
        answer.then(lambda promise: self._on_joined(player, promise.value()))

    def _on_joined(self, player: Player, answer: JoinAnswer) -> None:
        if answer.error is ErrorCode.NONE:
            player.is_leader = answer.leader == answer.member_id and not answer.skip_assignment
            player.members = tuple(member.member_id for member in answer.members)
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            player.actor.member_id = ""

    @rule(name=st.sampled_from(NAMES), shift=st.integers(0, 5))
    def sync(self, name: str, shift: int) -> None:
        player = self.players[name]
        plan: dict[str, bytes] = {}
        if player.is_leader and player.members:
            for partition in PARTITIONS:
                member_id = player.members[(partition + shift) % len(player.members)]
                plan[member_id] = plan.get(member_id, b"") + bytes([partition])
        generation_id = player.actor.generation_id
        owner = player.actor.group_instance_id or player.actor.member_id
        answer = player.actor.sync(plan)
        player.asked.append(answer)
        answer.then(lambda promise: self._on_synced(owner, generation_id, promise.value()))

    def _on_synced(self, owner: str, generation_id: int, answer: SyncAnswer) -> None:
        if answer.error is ErrorCode.NONE:
            for partition in answer.assignment:
                known = self.owners.setdefault((generation_id, partition), owner)
                assert known == owner, "L18: double owner"

    @rule(name=st.sampled_from(NAMES))
    def heartbeat(self, name: str) -> None:
        actor = self.players[name].actor
        if actor.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID:
            actor.member_id = ""

    @rule(name=st.sampled_from(NAMES))
    def leave(self, name: str) -> None:
        self.players[name].actor.leave()

    @rule(name=st.sampled_from(NAMES))
    def restart_client(self, name: str) -> None:
        """It forgets who it was; a static one comes back under its instance id."""
        self.players[name].actor.member_id = ""
        self.players[name].actor.generation_id = -1
        self.players[name].is_leader = False

    @rule(name=st.sampled_from((*NAMES, "lone")), partition=st.integers(0, 2))
    def commit(self, name: str, partition: int) -> None:
        self.next_offset += 1
        offset = self.next_offset
        key = ("t", partition)
        if name == "lone":
            answer = self.stage.commit({key: offset})
        else:
            answer = self.players[name].actor.commit({key: offset})
        answer.then(lambda promise: self._on_committed(key, offset, promise.value()))

    def _on_committed(self, key: tuple[str, int], offset: int, outcomes: Outcomes) -> None:
        if outcomes[key] is ErrorCode.NONE and self.stage.state() != "GROUP_ID_NOT_FOUND":
            assert self.stage.committed(*key) == offset, "L17: an answered commit is not read"

    @rule(shift=st.integers(0, 5))
    def gather(self, shift: int) -> None:
        """All join and wait for each other, as healthy clients do. Some come late."""
        for name in NAMES[shift % 3 :]:
            self.join(name, ("t",))
        for name in NAMES[shift % 3 :]:
            answer = self.players[name].asked[-1]
            if answer.settled and answer.value().error is not ErrorCode.NONE:
                self.join(name, ("t",))
        self.stage.settle()

    @rule(shift=st.integers(0, 5))
    def sync_all(self, shift: int) -> None:
        for name in NAMES:
            self.sync(name, shift)

    @initialize(shift=st.integers(0, 5))
    def begin(self, shift: int) -> None:
        self.stabilise(shift)

    @rule(shift=st.integers(0, 5))
    def stabilise(self, shift: int) -> None:
        """What clients and a log that are well come to, from wherever they are."""
        self.confirm_all()
        for _ in range(3):
            self.gather(0)
        self.sync_all(shift)

    # What administrators and time do

    @rule()
    def delete_group(self) -> None:
        deleted = self.stage.coordinator.commits.delete_group("g")
        deleted.then(lambda promise: self._on_deleted(promise.value()))

    def _on_deleted(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.owners.clear()  # the next group of that name counts generations from 1

    @rule(delta_ms=st.sampled_from([0, 1, 3_000, 11_000, 61_000]))
    def pass_time(self, delta_ms: int) -> None:
        self.stage.pass_ms(delta_ms)

    @rule()
    def grow_old(self) -> None:
        self.stage.clock.jump_wall(8 * DAY_MS)
        self.stage.coordinator.commits.expire().then(lambda _: self._on_expired())

    def _on_expired(self) -> None:
        if self.stage.state() == "GROUP_ID_NOT_FOUND":
            self.owners.clear()

    # What the log and the power do

    @rule()
    def hold(self) -> None:
        self.log.is_holding = True

    @rule(shift=st.integers(0, 5))
    def crash_while_assigning(self, shift: int) -> None:
        """The story that a generation handed out too early would not survive."""
        self.confirm_all()
        for _ in range(3):
            self.gather(0)
        self.hold()
        self.sync_all(shift)
        self.log.crash(0)
        self._restart()
        self.stabilise((shift + 1) % 6)

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

    @rule()
    def restart_cleanly(self) -> None:
        self.log.confirm_all()
        before = self._portrait()
        self._restart()
        if before is not None:
            assert self._portrait() == before

    def _restart(self) -> None:
        self.stage.restart()
        if self.stage.state() == "GROUP_ID_NOT_FOUND":
            self.owners.clear()
        for player in self.players.values():
            player.asked.clear()  # nobody is there to answer to: connections went with the node

    def _portrait(self) -> object:
        """What a restart must not change: all of a stable group."""
        group = self.stage.coordinator.group("g")
        if isinstance(group, ErrorCode) or group.state is not GroupState.STABLE:
            return None
        members = {
            member.member_id: (
                member.assignment,
                member.group_instance_id,
                member.session_timeout_ms,
                member.metadata_for(group.protocol_name),
            )
            for member in group.members.values()
        }
        facts = (group.generation_id, group.leader_id, group.protocol_name, group.protocol_type)
        return facts, group.subscribed_topics, members

    # What always holds

    @invariant()
    def memory_is_the_fold_of_the_log(self) -> None:
        view = self.stage.coordinator.commits.fetch("g")
        found = {}
        if not isinstance(view, ErrorCode):
            for topic, partitions in view.by_topic().items():
                for partition in partitions:
                    committed = view.get(topic, partition)
                    assert committed is not None
                    found[topic, partition] = committed.offset
        assert found == self.log.offsets("g")

    @invariant()
    def the_group_is_sound(self) -> None:
        event(self.stage.state())
        group = self.stage.coordinator.group("g")
        if not isinstance(group, ErrorCode):
            check_group(group)
            deadlines = [
                member.session_deadline_ms
                for member in group.members.values()
                if member.is_expirable
            ]
            if deadlines:
                assert group.next_deadline_ms is not None
                assert group.next_deadline_ms <= min(deadlines)
                assert self.stage.timers.pending_count > 0

    def teardown(self) -> None:
        """With the log well again and everybody silent, all are answered and the group empties."""
        self.log.is_holding = False
        self.log.confirm_all()
        self.stage.pass_ms(10 * 60_000)
        for player in self.players.values():
            assert all(promise.settled for promise in player.asked)
        assert self.stage.state() in ("Empty", "GROUP_ID_NOT_FOUND")


def check_group(group: Group) -> None:
    members = group.members
    assert group.joining_count == sum(m.joining is not None for m in members.values())
    assert all(member_id == member.member_id for member_id, member in members.items())
    assert (group.leader_id in members) if members else group.leader_id is None
    assert group.static_member_ids == {
        m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id
    }
    assert not set(group.pending_members) & set(members)
    assert group.pending_sync <= set(members) or group.state is GroupState.PREPARING_REBALANCE
    waits_for_join = any(member.joining is not None for member in members.values())
    waits_for_sync = any(member.syncing is not None for member in members.values())
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            assert not members
        case GroupState.STABLE:
            assert members
            assert not waits_for_join
            assert not waits_for_sync
            assert group.protocol_name == group.select_protocol()
        case GroupState.COMPLETING_REBALANCE:
            assert members
            assert not waits_for_join
            assert group.sync_deadline_ms is not None or not group.pending_sync
        case GroupState.PREPARING_REBALANCE:
            assert not waits_for_sync
            assert group.join_deadline_ms is not None


TestGroups = Groups.TestCase
TestGroups.settings = settings(
    max_examples=60,
    report_multiple_bugs=False,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
