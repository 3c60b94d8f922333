"""Plans carried out against a cluster of a few lines: batches, throttles, going on, ending."""

from collections.abc import Iterator

import pytest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.fake_cluster import TOPIC, FakeCluster

from headrace.client import cluster_changes
from headrace.client.cluster import Cluster
from headrace.client.cluster_state import ClusterState, describe_state
from headrace.client.errors import ClientError
from headrace.client.rebalance import Rebalance, cancel
from headrace.client.replica_plan import Plan, plan
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)

BROKER, TOPIC_CONFIG = 4, 2
RATES = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}


class Watching:
    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.told: list[tuple[int, int]] = []
        self.throttles: list[str] = []

    def on_begun(self, total_bytes: int, partitions: int) -> None:
        self.begun.append((total_bytes, partitions))

    def on_progress(self, done_bytes: int, partitions_left: int) -> None:
        self.told.append((done_bytes, partitions_left))

    def on_throttle_left(self) -> None:
        self.throttles.append("left")

    def on_throttle_found(self) -> None:
        self.throttles.append("found")


@pytest.fixture
def fake(broker: FakeBroker) -> FakeCluster:
    """Six partitions on two of three brokers."""
    return FakeCluster(broker, {index: [1, 2] for index in range(6)}, brokers=3)


@pytest.fixture
def cluster(broker: FakeBroker) -> Iterator[Cluster]:
    with Cluster(broker.address, retry_timeout_ms=2_000) as opened:
        yield opened


def planner(state: ClusterState) -> Plan:
    return plan(state.placed_brokers(), state.placed_partitions())


def carried_out(cluster: Cluster, **options: int) -> tuple[Rebalance, Watching]:
    watching = Watching()
    return Rebalance(cluster, watching, pause=lambda _s: None, **options), watching


def test_a_plan_is_carried_out_in_batches_and_leaders_are_elected(
    fake: FakeCluster, cluster: Cluster
) -> None:
    planned = planner(describe_state(cluster))
    run, watching = carried_out(cluster, moves_at_once=2)
    done = run.run(planner)
    assert done.moved == len(planned.moves)
    assert done.moved_bytes == planned.moved_bytes == 4_000
    assert {index: where[0] for index, where in fake.replicas.items()} == fake.leaders
    assert sorted(fake.leaders.values()) == [1, 1, 2, 2, 3, 3]
    asked = fake.broker.requests(AlterPartitionReassignmentsRequest)
    assert max(len(request.topics[0].partitions) for request in asked) == 2
    assert watching.begun == [(4_000, done.moved)]
    assert watching.told[-1] == (4_000, 0)
    assert [each for each, _ in watching.told] == sorted(each for each, _ in watching.told)
    assert fake.config_log == [], "nothing is throttled without being asked for"
    assert planner(describe_state(cluster)).moves == ()


def test_a_throttle_is_set_for_what_moves_and_taken_away_at_the_end(
    fake: FakeCluster, cluster: Cluster
) -> None:
    run, _ = carried_out(cluster, throttle_bytes=5_000_000)
    run.run(planner)
    rates = {
        (name, key, value)
        for kind, name, key, value in fake.config_log
        if kind == BROKER and value is not None
    }
    assert rates == {(str(each), key, "5000000") for each in (1, 2, 3) for key in RATES}
    named = {
        key: value
        for kind, _, key, value in fake.config_log
        if kind == TOPIC_CONFIG and value is not None
    }
    leading = named["leader.replication.throttled.replicas"].split(",")
    following = named["follower.replication.throttled.replicas"].split(",")
    assert len(leading) == 2 * len(following) == 8
    assert all(pair.endswith(":3") for pair in following)
    assert not any(fake.configs.values()), "all of it is gone"


class Stopped(BaseException):
    """As Ctrl-C, and not to be confused with one."""


def stop_at(fake: FakeCluster, run: Rebalance, *, ends_moves: bool) -> None:
    """Stop the run while it waits; the moves go on, or have just ended."""

    def stop(_s: float) -> None:
        if ends_moves:
            fake.replicas |= fake.moving
            fake.moving = {}
        raise Stopped

    fake.looks_per_move = 10**6
    run._pause = stop  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        run.run(planner)


def throttled(fake: FakeCluster) -> set[tuple[int, str]]:
    return {resource for resource, values in fake.configs.items() if values}


def test_a_throttle_stays_with_moves_that_go_on_and_the_next_run_lifts_it(
    fake: FakeCluster, cluster: Cluster
) -> None:
    run, watching = carried_out(cluster, throttle_bytes=5_000_000)
    stop_at(fake, run, ends_moves=False)
    assert watching.throttles == ["left"]
    assert throttled(fake) == {(TOPIC_CONFIG, TOPIC), *((BROKER, str(each)) for each in (1, 2, 3))}
    fake.looks_per_move = 2
    again, watching = carried_out(cluster)
    again.run(planner)
    assert watching.throttles == ["found"]
    assert throttled(fake) == set()
    third, watching = carried_out(cluster)
    third.run(planner)
    assert watching.throttles == []


def test_a_throttle_goes_with_a_run_that_ends_early_when_nothing_moves(
    fake: FakeCluster, cluster: Cluster
) -> None:
    run, watching = carried_out(cluster, throttle_bytes=5_000_000)
    stop_at(fake, run, ends_moves=True)
    assert throttled(fake) == set()
    assert watching.throttles == []


def test_an_error_lifts_the_throttle_too(fake: FakeCluster, cluster: Cluster) -> None:
    fake.looks_per_move = 10**6
    run, watching = carried_out(cluster, throttle_bytes=5_000_000)
    run._pause = lambda _s: fake.moving.clear()  # type: ignore[method-assign]
    with pytest.raises(ClientError, match="did not arrive"):
        run.run(planner)
    assert throttled(fake) == set()
    assert watching.throttles == []


def test_a_throttle_that_cannot_be_looked_at_is_told_as_left(
    fake: FakeCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, watching = carried_out(cluster, throttle_bytes=5_000_000)

    def unreachable(_cluster: Cluster) -> list[object]:
        raise ClientError("nobody answers")

    monkeypatch.setattr("headrace.client.rebalance.list_reassignments", unreachable)
    with pytest.raises(ClientError, match="nobody answers"):
        run.run(planner)
    assert watching.throttles == ["left"]
    assert fake.moving


def test_a_rule_that_somebody_set_stays(fake: FakeCluster, cluster: Cluster) -> None:
    rule = {"leader.replication.throttled.replicas": "*"}
    fake.configs[TOPIC_CONFIG, TOPIC] = dict(rule)
    fake.configs[BROKER, "1"] = {"leader.replication.throttled.rate": "1000"}
    run, watching = carried_out(cluster)
    run.run(planner)
    assert fake.configs[TOPIC_CONFIG, TOPIC] == rule
    assert fake.configs[BROKER, "1"] == {"leader.replication.throttled.rate": "1000"}
    assert watching.throttles == []


def test_cancelling_lifts_what_was_left_even_if_nothing_moves(
    fake: FakeCluster, cluster: Cluster
) -> None:
    run, _ = carried_out(cluster, throttle_bytes=5_000_000)
    stop_at(fake, run, ends_moves=False)
    fake.replicas |= fake.moving
    fake.moving = {}
    assert cancel(cluster) == []
    assert throttled(fake) == set()


def test_what_was_begun_is_waited_for_and_the_rest_is_done(
    fake: FakeCluster, cluster: Cluster
) -> None:
    fake.moving = {0: [3, 2], 1: [3, 1]}
    run, watching = carried_out(cluster)
    run.run(planner)
    assert watching.begun[0] == (2_000, 2)
    assert fake.replicas[0] in ([3, 2], [2, 3])
    assert len(watching.begun) == 2
    assert not fake.moving


def test_what_has_no_leader_is_left_where_it_is(fake: FakeCluster, cluster: Cluster) -> None:
    fake.leaders[0] = fake.leaders[5] = -1
    run, _ = carried_out(cluster)
    run.run(planner)
    assert fake.replicas[0] == fake.replicas[5] == [1, 2]
    assert 3 in fake.replicas[1] + fake.replicas[2] + fake.replicas[3] + fake.replicas[4]


def test_a_move_that_somebody_else_ended_is_told(fake: FakeCluster, cluster: Cluster) -> None:
    fake.looks_per_move = 10**6
    run, _ = carried_out(cluster)
    run._pause = lambda _s: fake.moving.clear()  # type: ignore[method-assign]
    with pytest.raises(ClientError, match="did not arrive"):
        run.run(planner)


def test_a_broker_that_is_behind_the_controller_is_asked_again(
    fake: FakeCluster, cluster: Cluster
) -> None:
    planned = planner(describe_state(cluster))
    fake.metadata_behind = 3
    run, _ = carried_out(cluster)
    done = run.run(planner)
    assert fake.metadata_behind == 0
    assert (done.moved, done.moved_bytes) == (len(planned.moves), planned.moved_bytes)


def test_moves_are_cancelled_with_their_throttles(fake: FakeCluster, cluster: Cluster) -> None:
    assert cancel(cluster) == []
    fake.moving = {0: [3, 2], 4: [1, 3]}
    fake.looks_per_move = 10**6
    assert sorted(cancel(cluster)) == [(TOPIC, 0), (TOPIC, 4)]
    assert not fake.moving
    assert {each[2] for each in fake.config_log if each[0] == BROKER} == RATES
    assert all(each[3] is None for each in fake.config_log)


def test_a_cordon_waits_until_it_is_heard_of(fake: FakeCluster, cluster: Cluster) -> None:
    assert cluster_changes.cordon(cluster, 2)
    assert fake.cordoned
    assert cluster_changes.uncordon(cluster, 2)
    assert not fake.cordoned
    fake.fenced = {2}
    assert not cluster_changes.cordon(cluster, 2), "noted, and not in effect"


def test_only_a_broker_that_is_stopped_and_empty_is_forgotten(
    fake: FakeCluster, cluster: Cluster
) -> None:
    with pytest.raises(ClientError, match="runs: stop it first"):
        cluster_changes.unregister(cluster, describe_state(cluster), 3, force=False)
    fake.fenced = {2, 3}
    with pytest.raises(ClientError, match="has 6 replicas"):
        cluster_changes.unregister(cluster, describe_state(cluster), 2, force=False)
    cluster_changes.unregister(cluster, describe_state(cluster), 3, force=False)
    cluster_changes.unregister(cluster, describe_state(cluster), 2, force=True)
    assert fake.ids == [1]
    with pytest.raises(ClientError, match="not registered; there are 1"):
        describe_state(cluster).broker(2)
