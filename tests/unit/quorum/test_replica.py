"""Drivers and hosts of a small quorum in good weather: who leads, is refused, catches up."""

from typing import Any

import pytest

from headrace.base.promise import Promise
from headrace.quorum.messages import vote_request
from headrace.quorum.state_machine import NotLeader
from headrace.testing.disk import Fault
from headrace.testing.quorum.hosted_node import TOPIC, Counted, Counter, HostedNode
from headrace.testing.quorum.hosted_world import HostedWorld
from headrace.testing.quorum.network import Weather
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.vote import VoteRequest

GOOD = Weather(delay_ms_max=2, refusing=1.0)


class Quorum:
    def __init__(self, voters: int = 3, observers: int = 0, snapshot_bytes: int = 1 << 20) -> None:
        self.world = HostedWorld(
            1,
            voter_count=voters,
            observer_count=observers,
            weather=GOOD,
            snapshot_bytes=snapshot_bytes,
        )
        self.nodes = self.world.nodes
        self._id = 0
        self.world.start_all()
        self.leader()

    def leader(self, limit_ms: int = 5_000) -> HostedNode:
        assert self.world.run_until(lambda: self.world.active() is not None, limit_ms)
        found = self.world.active()
        assert found is not None
        return found

    def decide(self, node: HostedNode) -> Promise[int]:
        self._id += 1
        decision_id = self._id

        def decide(state: Counter) -> tuple[list[Counted], int]:
            value = state.value + 1
            return [Counted(value, decision_id)], value

        promise = node.host.submit(decide)
        node.schedule_syncs()
        return promise

    def decided(self, node: HostedNode) -> int:
        promise = self.decide(node)
        assert self.world.run_until(lambda: promise.settled, 5_000)
        return promise.value()

    def agree(self) -> bool:
        """All that run come to the same state."""
        running = [node for node in self.nodes.values() if node.is_up]

        def is_same() -> bool:
            return len({tuple(node.host.committed.decision_ids) for node in running}) == 1

        return self.world.run_until(is_same, 20_000)


def test_a_decision_reaches_every_node() -> None:
    quorum = Quorum(observers=2)
    assert quorum.decided(quorum.leader()) == 1
    assert quorum.agree()
    assert all(node.host.committed.value == 1 for node in quorum.nodes.values())


def test_only_the_leader_decides() -> None:
    quorum = Quorum()
    leader = quorum.leader()
    for node in quorum.nodes.values():
        if node is not leader:
            error = quorum.decide(node).error
            assert isinstance(error, NotLeader)
            assert error.leader_id == leader.node_id
            assert error.epoch == leader.host.epoch


def test_a_dead_leader_is_replaced_before_a_time_out() -> None:
    quorum = Quorum()
    leader = quorum.leader()
    quorum.decided(leader)
    leader.stop(power_cut=False)
    died_ms = quorum.world.now_ms
    successor = quorum.leader(1_000)
    assert successor is not leader
    assert quorum.world.now_ms - died_ms < 1_000
    assert quorum.decided(successor) == 2


def test_a_leader_that_slept_refuses_at_once() -> None:
    """SIGSTOP and SIGCONT: the first thing it is asked after its sleep must not be believed."""
    quorum = Quorum()
    old = quorum.leader()
    quorum.decided(old)
    old.pause()
    new = quorum.leader(10_000)
    assert quorum.decided(new) == 2
    old.is_paused = False
    assert old.host.is_active, "it does not know yet"
    assert isinstance(quorum.decide(old).error, NotLeader)
    assert not old.host.is_active
    old.resume()
    assert quorum.agree()


def test_a_leader_that_heard_of_a_newer_epoch_answers_nothing_more() -> None:
    quorum = Quorum()
    leader = quorum.leader()
    quorum.decided(leader)
    other = next(node for node in quorum.nodes.values() if node is not leader)
    identity = other.replica.node.me
    request = vote_request(
        identity, leader.key, leader.host.epoch + 1, other.replica.node.log, pre_vote=False
    )
    vote = leader.replica.handle(request, 2)
    assert not vote.settled, "the epoch is not on disk yet"
    assert leader.host.is_active
    read = leader.host.submit(lambda state: ([], state.value))
    assert isinstance(read.error, NotLeader)
    assert isinstance(quorum.decide(leader).error, NotLeader)
    assert quorum.world.run_until(lambda: vote.settled, 1_000)
    assert not leader.host.is_active
    assert quorum.decided(quorum.leader()) == 2


def test_what_an_isolated_leader_decided_is_rejected_and_gone() -> None:
    quorum = Quorum()
    old = quorum.leader()
    quorum.world.network.isolate(old.node_id, list(quorum.nodes))
    lost = quorum.decide(old)
    assert quorum.world.run_until(lambda: lost.settled, 5_000)
    assert isinstance(lost.error, NotLeader)
    new = quorum.leader(10_000)
    assert new is not old
    assert quorum.decided(new) == 1
    quorum.world.network.heal()
    assert quorum.agree()
    assert old.host.committed.decision_ids == [2]


def test_a_leader_that_resigns_is_followed_by_another() -> None:
    quorum = Quorum()
    old = quorum.leader()
    quorum.decided(old)
    old.replica.resign()
    assert not old.host.is_active
    new = quorum.leader(2_000)
    assert new is not old
    assert quorum.decided(new) == 2


def test_a_node_that_lags_too_far_loads_a_snapshot() -> None:
    quorum = Quorum(snapshot_bytes=600)
    leader = quorum.leader()
    lagging = next(node for node in quorum.nodes.values() if node is not leader)
    lagging.stop(power_cut=False)
    for _ in range(60):
        quorum.decided(leader)
    quorum.world.run_until(lambda: False, 200)
    assert leader.replica.node.log.start_offset > 0
    installed = quorum.world.install_count
    lagging.start()
    assert quorum.agree()
    assert quorum.world.install_count == installed + 1
    assert lagging.host.committed.value == 60


def test_an_observer_finds_the_leader_through_any_bootstrap_server() -> None:
    quorum = Quorum(observers=1)
    observer = quorum.nodes[4]
    assert quorum.world.run_until(lambda: observer.replica.leader_id > 0, 5_000)
    leader = quorum.leader()
    assert observer.replica.leader_id == leader.node_id
    assert observer.replica.endpoint_of(leader.node_id) == (f"host{leader.node_id}", 9093)
    assert observer.replica.endpoint_of(77) is None


def test_kill_all_and_restart_two() -> None:
    quorum = Quorum()
    assert quorum.decided(quorum.leader()) == 1
    assert quorum.agree()
    for node in quorum.nodes.values():
        node.stop(power_cut=True)
    quorum.nodes[1].start()
    quorum.nodes[3].start()
    assert quorum.decided(quorum.leader(10_000)) == 2


def test_everybody_describes_the_quorum_but_only_the_leader_tells_all() -> None:
    quorum = Quorum(observers=1)
    leader = quorum.leader()
    quorum.decided(leader)
    quorum.world.run_until(lambda: False, 500)
    topic = TopicData(topic_name=TOPIC, partitions=[PartitionData(partition_index=0)])
    for node in quorum.nodes.values():
        promise = node.replica.handle(DescribeQuorumRequest(topics=[topic]), 2)
        answer: Any = promise.value()
        partition = answer.topics[0].partitions[0]
        if node is leader:
            assert [state.replica_id for state in partition.current_voters] == [1, 2, 3]
            assert [state.replica_id for state in partition.observers] == [4]
            states = [*partition.current_voters, *partition.observers]
            assert all(
                node.now_ms() - 1_000 <= s.last_fetch_timestamp <= node.now_ms() for s in states
            )
        else:
            assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert partition.leader_id == leader.node_id


def test_a_request_of_another_cluster_is_refused() -> None:
    quorum = Quorum()
    answer: Any = quorum.leader().replica.handle(VoteRequest(cluster_id="another"), 2).value()
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_failing_disk_stops_the_node_and_the_others_go_on() -> None:
    quorum = Quorum()
    leader = quorum.leader()
    failures: list[BaseException] = []
    leader.replica._on_fatal = failures.append
    leader.disk.plan(Fault("sync", path_part=".log"))
    promise = quorum.decide(leader)
    assert quorum.world.run_until(lambda: promise.settled, 5_000)
    assert failures == [promise.error]
    assert isinstance(quorum.decide(leader).error, type(failures[0]))
    leader.stop(power_cut=True)
    assert quorum.decided(quorum.leader(10_000)) >= 1


@pytest.mark.parametrize("voters", [1, 2, 5])
def test_quorums_of_any_size_decide(voters: int) -> None:
    quorum = Quorum(voters)
    assert [quorum.decided(quorum.leader()) for _ in range(3)] == [1, 2, 3]
    assert quorum.agree()
