"""The host over a quorum of one: order, group commit, what waits for what, and what survives."""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from headrace.base.errors import CorruptionError
from headrace.base.events import EventLog
from headrace.base.limits import METADATA_BATCH_BYTES_MAX, METADATA_WAITING_MAX
from headrace.base.promise import Promise
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.quorum.batches import control_batch
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.host import Host
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.peers import OnAnswer
from headrace.quorum.replica import Replica
from headrace.quorum.settings import Identity, QuorumSettings
from headrace.quorum.snapshot_files import SnapshotWriter
from headrace.quorum.snapshotting import SnapshotPolicy
from headrace.quorum.state_machine import HostOverloaded, NotLeader, RecordCodec
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.control_records import (
    ControlRecordType,
    decode_control_key,
    decode_control_value,
)
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.leader_change_message import LeaderChangeMessage
from headrace.wire.kafka.messages.leader_change_message import Voter as LeaderChangeVoter
from headrace.wire.kafka.records import build_batch, read_batches, read_records

FOLDER = "d/words-0"
LOG = f"{FOLDER}/00000000000000000000.log"


def describe_request(topic_name: str) -> DescribeQuorumRequest:
    partition = PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[TopicData(topic_name=topic_name, partitions=[partition])])


class Words:
    """A state machine that only collects."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.last_offset = -1

    def replay(self, record: str) -> None:
        assert record != "unplayable"
        self.words.append(record)

    def copy(self) -> "Words":
        copy = Words()
        copy.words = list(self.words)
        copy.last_offset = self.last_offset
        return copy

    def to_records(self) -> Iterator[str]:
        return iter(self.words)


class NoPeers:
    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:  # noqa: ARG002
        raise AssertionError(f"{type(request).__name__} to {target_id} from a quorum of one")


class Rig:
    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        policy: SnapshotPolicy | None = None,
        *,
        keeps_copy: bool = True,
    ) -> None:
        self.keeps_copy = keeps_copy
        self.disk = disk or SimulatedDisk(defer_syncs=True)
        self.clock = SimulatedClock()
        self.policy = policy
        self.failures: list[BaseException] = []
        self.committed: list[str] = []
        self.calls: list[tuple[list[str], int]] = []
        self.epochs: list[int] = []
        self.open()

    def open(self) -> None:
        self.committed.clear()
        self.timers = SimulatedTimers(self.clock)
        self.disk.make_directory("d")
        self.disk.sync_directory("/")
        log = PartitionLog.open(
            self.disk,
            FOLDER,
            "words",
            0,
            LogConfig(retention_ms=-1, delete=False),
            self.clock,
            topic_id=bytes(16),
            files=FileBudget(self.disk),
        )
        self.disk.sync_directory("d")
        endpoint = Endpoint("QUORUM", "four", 9093)
        identity = Identity("cluster", "words", bytes(16), 4, b"directory-of-4--")
        self.replica = Replica.open(
            identity=identity,
            settings=QuorumSettings(),
            log=log,
            storage=self.disk,
            clock=self.clock,
            timers=self.timers,
            random=Random(4),
            peers=NoPeers(),
            initial_voters=VoterSet([Voter(identity.key, (endpoint,))]),
            bootstrap_ids=(),
            listener=endpoint,
            events=EventLog(lambda _line: None, self.clock),
            on_fatal=self.failures.append,
        )
        self.host = Host(
            self.replica,
            Words,
            RecordCodec(str.encode, bytes.decode),
            self.clock,
            self.timers,
            self.policy,
            keeps_copy=self.keeps_copy,
        )
        self.host.on_committed = self._on_committed
        self.host.on_active = self.epochs.append
        self.host.start()
        self.settle()

    def _on_committed(self, records: Sequence[Any], last_offset: int) -> None:
        self.committed += records
        self.calls.append((list(records), last_offset))

    def turn(self) -> None:
        """The loop's next turn, in which no sync is done."""
        self.timers.run_due()

    def sync(self) -> None:
        """One sync is done."""
        self.turn()
        assert self.disk.complete_syncs(1) == 1
        self.turn()

    def settle(self) -> None:
        """Let syncs be done until nobody asks for one."""
        for _ in range(1000):
            if not self.timers.run_due() + self.disk.complete_syncs():
                return
        raise AssertionError("syncs without end")

    def say(self, *words: str) -> Promise[str]:
        return self.host.submit(lambda _state: (list(words), f"said {words[0]}"))

    def read(self) -> Promise[list[str]]:
        return self.host.submit(lambda state: ([], list(state.words)))


def test_an_answer_waits_for_the_sync() -> None:
    rig = Rig()
    promise = rig.say("a", "b")
    assert rig.host.state.words == ["a", "b"]
    assert not promise.settled
    assert rig.committed == []
    rig.settle()
    assert promise.value() == "said a"
    assert rig.committed == ["a", "b"]


def test_committed_images_know_before_the_asker_does() -> None:
    rig = Rig()
    seen: list[list[str]] = []
    rig.say("a").then(lambda _: seen.append(list(rig.committed)))
    rig.settle()
    assert seen == [["a"]]


def test_decisions_that_come_during_a_sync_share_the_next_one() -> None:
    rig = Rig()
    first = rig.say("first")
    rig.turn()
    rest = [rig.say(f"w{index}") for index in range(50)]
    before = len(rig.calls)
    rig.sync()
    assert first.settled
    assert not any(promise.settled for promise in rest)
    rig.sync()
    assert all(promise.settled for promise in rest)
    assert len(rig.calls) - before == 2
    assert rig.disk.complete_syncs() == 0


def test_a_held_decision_shares_the_sync_of_the_next() -> None:
    rig = Rig()
    held = rig.host.submit(lambda _state: (["a"], "held"), hold=True)
    rig.turn()
    assert rig.disk.complete_syncs() == 0
    assert not held.settled
    rig.say("b")
    rig.turn()
    assert rig.disk.complete_syncs() == 1
    assert held.value() == "held"
    assert rig.committed == ["a", "b"]


def test_answers_come_in_the_order_of_the_decisions() -> None:
    rig = Rig()
    order: list[int] = []
    for index in range(5):
        rig.say(str(index)).then(lambda _, index=index: order.append(index))  # type: ignore[misc]
    rig.settle()
    assert order == [0, 1, 2, 3, 4]


def test_a_read_of_durable_state_is_answered_at_once() -> None:
    rig = Rig()
    assert rig.read().value() == []
    rig.say("a")
    rig.settle()
    assert rig.read().value() == ["a"]


def test_a_read_that_saw_an_unsynced_record_waits_for_it() -> None:
    rig = Rig()
    rig.say("a")
    read = rig.read()
    assert not read.settled
    rig.settle()
    assert read.value() == ["a"]


def test_an_answered_asker_may_ask_again_at_once() -> None:
    rig = Rig()
    answers: list[Promise[str]] = []
    rig.say("a").then(lambda _: answers.append(rig.say("b")))
    rig.settle()
    assert answers[0].value() == "said b"
    assert rig.committed == ["a", "b"]


def test_a_decision_that_raises_changes_nothing() -> None:
    rig = Rig()

    def broken(_state: Words) -> tuple[list[str], str]:
        raise KeyError("a mistake")

    promise = rig.host.submit(broken)
    assert isinstance(promise.error, KeyError)
    assert rig.host.failure is None
    rig.say("fine")
    rig.settle()
    assert rig.committed == ["fine"]


def test_a_record_that_replay_refuses_stops_the_node() -> None:
    rig = Rig()
    promise = rig.say("unplayable")
    assert isinstance(promise.error, AssertionError)
    assert rig.failures == [promise.error]
    assert rig.say("more").error is promise.error
    assert rig.committed == []


def test_a_failed_sync_stops_the_node_and_answers_nobody_well() -> None:
    rig = Rig()
    rig.disk.plan(Fault("sync", path_part="words"))
    promises = [rig.say("a"), rig.say("b"), rig.read()]
    rig.settle()
    assert len(rig.failures) == 1
    assert all(promise.error is rig.failures[0] for promise in promises)
    assert rig.committed == []
    assert rig.say("c").error is rig.failures[0]


def test_a_failed_write_stops_the_node() -> None:
    rig = Rig()
    rig.disk.plan(Fault("write", path_part=".log"))
    promise = rig.say("a")
    rig.settle()
    assert promise.error is rig.failures[0]
    assert rig.committed == []


def test_a_failing_listener_stops_the_node() -> None:
    rig = Rig()
    rig.host.on_committed = lambda _records, _offset: 1 // 0
    promise = rig.say("a")
    rig.settle()
    assert isinstance(promise.error, ZeroDivisionError)
    assert isinstance(rig.failures[0], ZeroDivisionError)


def test_too_many_waiting_decisions_are_refused() -> None:
    rig = Rig()
    rig.say("a")
    rig.host._waiting.extend([rig.host._waiting[0]] * (METADATA_WAITING_MAX - 1))
    assert isinstance(rig.say("b").error, HostOverloaded)
    assert rig.host.state.words == ["a"]


def test_a_decision_that_is_too_large_is_refused_whole() -> None:
    rig = Rig()
    assert isinstance(rig.say("x" * METADATA_BATCH_BYTES_MAX).error, HostOverloaded)
    assert rig.host.state.words == []
    assert rig.host.failure is None


def test_a_restart_replays_everything_in_one_call_and_a_new_epoch_begins() -> None:
    rig = Rig()
    assert rig.epochs == [1]
    rig.say("a", "b")
    rig.say("c")
    rig.settle()
    rig.disk.kill()
    rig.calls.clear()
    rig.open()
    assert rig.host.state.words == ["a", "b", "c"]
    assert rig.calls == [(["a", "b", "c"], rig.replica.disk.log.log_end_offset - 1)]
    assert rig.epochs == [1, 2]
    assert rig.host.high_watermark == rig.replica.disk.log.log_end_offset


def test_each_epoch_begins_with_a_leader_change_record() -> None:
    rig = Rig()
    rig.say("a")
    rig.settle()
    content = rig.disk.read_file(LOG)
    (first, batch), (second, _) = read_batches(content)
    assert first.is_control
    assert not second.is_control
    assert second.partition_leader_epoch == 1
    record = next(iter(read_records(batch)))
    assert record.key is not None
    assert record.value is not None
    assert decode_control_key(record.key) is ControlRecordType.LEADER_CHANGE
    message = decode_control_value(ControlRecordType.LEADER_CHANGE, record.value)
    assert message.leader_id == 4  # type: ignore[attr-defined]


def test_a_flipped_bit_is_found_at_load() -> None:
    rig = Rig()
    rig.say("aaaa")
    rig.say("bbbb")
    rig.settle()
    rig.disk.kill()
    path = LOG
    content = bytearray(rig.disk.read_file(path))
    content[content.index(b"aaaa")] ^= 1
    rig.disk.overwrite(path, bytes(content))
    with pytest.raises(CorruptionError):
        rig.open()


@pytest.mark.parametrize("seed", range(40))
def test_what_was_answered_survives_any_crash(seed: int) -> None:
    """Power fails at random: every answered decision is there, none is there in part, in order."""
    random = Random(seed)
    rig = Rig()
    said: list[tuple[str, str]] = []
    answered = 0
    for _ in range(6):
        promises: list[Promise[str]] = []
        for _ in range(random.randrange(12)):
            pair = (f"{len(said)}a", f"{len(said)}b")
            said.append(pair)
            promises.append(rig.say(*pair))
            if random.random() < 0.3:
                rig.turn()
                rig.disk.complete_syncs(1)
        answered = len(said) - len(promises) + sum(promise.settled for promise in promises)
        committed_before = list(rig.committed)
        if random.random() < 0.7:
            rig.disk.crash(random)
        else:
            rig.disk.kill()
        rig.open()
        words = rig.host.state.words
        assert len(words) % 2 == 0
        kept = list(zip(words[::2], words[1::2], strict=True))
        assert kept == said[: len(kept)]
        assert len(kept) >= answered
        assert words[: len(committed_before)] == committed_before
        assert rig.committed == words
        said = kept


def test_snapshots_take_the_place_of_the_log() -> None:
    rig = Rig(policy=SnapshotPolicy(bytes_between=2_000))
    for index in range(100):
        rig.say(f"word {index}", "x" * 40)
        rig.settle()
    rig.timers.advance(1_000)
    rig.settle()
    names = [name for name in rig.disk.list(FOLDER) if name.endswith(".checkpoint")]
    assert len(names) == 2
    assert rig.replica.node.log.start_offset == int(names[0][:20])
    words = rig.host.committed.words
    assert len(words) == 200
    rig.disk.kill()
    rig.calls.clear()
    rig.open()
    assert rig.host.committed.words == words
    assert rig.host.state.words == words
    assert len(rig.calls) == 2
    assert rig.calls[0][1] == int(names[1][:20]) - 1


@pytest.mark.parametrize("seed", range(60))
def test_a_snapshot_survives_any_crash_around_it(seed: int) -> None:
    random = Random(seed)
    rig = Rig(policy=SnapshotPolicy(bytes_between=500))
    answered: list[str] = []

    def on_said(promise: Promise[str]) -> None:
        if promise.error is None:
            answered.append(promise.value().removeprefix("said "))

    for index in range(60):
        rig.say(f"{index}").then(on_said)
        for _ in range(random.randrange(4)):
            rig.timers.advance(random.randrange(3))
            rig.disk.complete_syncs(1)
        if random.random() < 0.1:
            rig.disk.crash(random)
            rig.open()
            kept = rig.host.committed.words
            assert [word for word in kept if word in answered] == answered
            assert rig.host.state.words == kept
    assert not rig.failures


def test_a_directory_from_before_elections_opens_unchanged() -> None:
    """A log that a quorum of one wrote by itself: leader changes without voters, no other file."""
    disk = SimulatedDisk(defer_syncs=True)
    clock = SimulatedClock()
    disk.make_directory("d")
    log = PartitionLog.open(
        disk,
        FOLDER,
        "words",
        0,
        LogConfig(retention_ms=-1),
        clock,
        topic_id=bytes(16),
        files=FileBudget(disk),
    )
    voters = [LeaderChangeVoter(voter_id=4)]
    change = LeaderChangeMessage(leader_id=4, voters=voters, granting_voters=voters)
    for epoch in (1, 2):
        log.append(control_batch([(ControlRecordType.LEADER_CHANGE, change, 0)], 0), epoch, 0)
        log.append(build_batch([(None, f"old {epoch}".encode(), (), 0)]), epoch, 0)
    before = disk.read_file(LOG)
    disk.kill()
    rig = Rig(disk)
    assert rig.host.state.words == ["old 1", "old 2"]
    assert rig.host.epoch == 3
    assert disk.read_file(LOG).startswith(before)
    promise = rig.say("new")
    rig.settle()
    assert promise.value() == "said new"
    assert rig.committed == ["old 1", "old 2", "new"]
    assert rig.replica.voters.keys == (ReplicaKey(4, b"directory-of-4--"),)
    assert rig.replica.node.voters.latest_offset == 4


def test_the_election_state_is_kafkas_file() -> None:
    rig = Rig()
    fields = json.loads(rig.disk.read_file(f"{FOLDER}/quorum-state"))
    assert fields == {
        "leaderId": 4,
        "leaderEpoch": 1,
        "votedId": 4,
        "votedDirectoryId": "ZGlyZWN0b3J5LW9mLTQtLQ",
        "data_version": 1,
    }


def test_a_closed_host_rejects_what_waits() -> None:
    rig = Rig()
    promise = rig.say("a")
    rig.host.close()
    assert isinstance(promise.error, NotLeader)
    assert isinstance(rig.say("b").error, NotLeader)


def test_describe_quorum_tells_wall_time() -> None:
    rig = Rig()
    promise = rig.replica.handle(describe_request("words"), 2)
    answer: Any = promise.value()
    (state,) = answer.topics[0].partitions[0].current_voters
    assert state.last_fetch_timestamp == rig.clock.now_ms()
    assert answer.nodes[0].listeners[0].port == 9093


def test_a_sole_voter_leads_without_waiting() -> None:
    rig = Rig()
    assert rig.clock.monotonic_ms() == 0
    rig.disk.kill()
    rig.open()
    assert rig.host.is_active
    assert rig.clock.monotonic_ms() == 0


def test_a_state_without_a_copy_is_one_object_and_snapshots_come_from_elsewhere() -> None:
    rig = Rig(policy=SnapshotPolicy(bytes_between=300), keeps_copy=False)
    due: list[tuple[SnapshotId, VoterSet]] = []
    rig.host.write_snapshots_elsewhere(lambda *asked: due.append(asked))
    for index in range(10):
        rig.say(f"word {index}")
        rig.settle()
    assert rig.host.state is rig.host.committed
    assert rig.committed == rig.host.committed.words
    ((snapshot_id, voters),) = due
    writer = SnapshotWriter(rig.disk, FOLDER, snapshot_id, voters, 0)
    held = snapshot_id.end_offset - 3  # behind the leader change and the voters
    writer.append([word.encode() for word in rig.host.committed.words[:held]])
    writer.finish()
    rig.host.adopt_snapshot(snapshot_id)
    rig.settle()
    assert rig.replica.snapshots.latest == snapshot_id
    words = rig.host.committed.words
    rig.disk.kill()
    rig.open()
    assert rig.host.committed.words == words


def test_a_state_without_a_copy_is_loaded_anew_when_leadership_is_lost() -> None:
    rig = Rig(keeps_copy=False)
    rig.say("kept")
    rig.settle()
    installed: list[list[str]] = []
    rig.host.on_installed = lambda: installed.append(list(rig.host.committed.words))
    lost = rig.say("lost")
    assert rig.host.committed.words == ["kept", "lost"]
    rig.host._deactivate(NotLeader(-1, 2))
    assert isinstance(lost.error, NotLeader)
    assert installed == [["kept"]]
