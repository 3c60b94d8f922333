"""Controllers killed and stopped under a load of topic creations.

Nothing acknowledged is lost, nothing is created twice, whoever led before is refused, and another
leads within two seconds. A run whose fault did not fire (nobody led, nobody else was elected)
fails. Each run prints one line of counts.
"""

import time
from collections.abc import Iterator

import pytest
from tests.faults.topic_load import (
    TopicLoad,
    check,
    creation,
    open_connection,
    topics_at,
)

from headrace.client.connection import Connection
from headrace.client.errors import ClientError
from headrace.testing.local_cluster import LocalCluster
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import decode_response
from headrace.wire.kafka.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)

FAILOVER_S_MAX = 2.0
TOPICS_PER_ROUND = 12
WAIT_S = 30.0
CONTROLLERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, controllers=3) as running:
        yield running


def leader_as_told_by(address: str) -> int:
    """-1 where it does not answer or knows of none."""
    try:
        connection = open_connection(address, timeout_ms=1_000)
    except ClientError:
        return -1
    try:
        asked = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        return connection.call(asked, DescribeClusterResponse).controller_id
    except ClientError:
        return -1
    finally:
        connection.close()


def active_controller(cluster: LocalCluster) -> str:
    """Once all controllers that run agree on it."""
    addresses = [
        str(node["listen"])
        for node in cluster.described["nodes"]
        if node["role"] == "controller" and node["pid"] is not None
    ]
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        told = {leader_as_told_by(address) for address in addresses}
        if len(told) == 1 and told != {-1}:
            return cluster.name_of(told.pop())
        time.sleep(0.01)
    raise AssertionError(f"no active controller within {WAIT_S:g} s")


def await_other_leader(cluster: LocalCluster, before: str) -> tuple[str, float]:
    """Who leads instead, as one of the others tells, and how long that took."""
    others = {
        str(node["name"]): str(node["listen"])
        for node in cluster.described["nodes"]
        if node["role"] == "controller" and node["name"] != before
    }
    was = int(cluster.node(before)["id"])
    started_s = time.monotonic()
    while time.monotonic() - started_s < WAIT_S:
        for address in others.values():
            told = leader_as_told_by(address)
            if told not in (-1, was):
                return cluster.name_of(told), time.monotonic() - started_s
        time.sleep(0.005)
    raise AssertionError(f"nobody leads instead of {before} within {WAIT_S:g} s")


def kill_rounds(cluster: LocalCluster, rounds: int, prefix: str) -> str:
    load = TopicLoad(cluster.bootstrap_servers, prefix)
    load.start()
    failovers_s: list[float] = []
    stalls_s: list[float] = []
    for _ in range(rounds):
        load.wait_for(TOPICS_PER_ROUND)
        victim = active_controller(cluster)
        cluster.kill(victim)
        _, failover_s = await_other_leader(cluster, victim)
        failovers_s.append(failover_s)
        stalls_s.append(load.wait_for(TOPICS_PER_ROUND))
        cluster.start_node(victim)
    load.stop()
    check(load.outcomes, cluster.bootstrap_servers.split(","), prefix)
    outcomes = load.outcomes
    assert max(failovers_s) <= FAILOVER_S_MAX, f"another leads after {max(failovers_s):.2f} s"
    return (
        f"{rounds} kills of the active controller: {len(outcomes.granted)} topics granted, "
        f"{len(outcomes.found)} found on asking again, {outcomes.repeated} attempts repeated, "
        f"0 lost, 0 doubled; another led after {_middle(failovers_s):.2f} s in the median, "
        f"{max(failovers_s):.2f} s at worst; creations went on after {max(stalls_s):.2f} s at worst"
    )


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def test_kills_of_the_active_controller(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    line = kill_rounds(cluster, 2, "killed")
    with capsys.disabled():
        print(f"\n{line}")


@pytest.mark.long
def test_fifty_kills_of_the_active_controller(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    line = kill_rounds(cluster, 50, "fifty")
    with capsys.disabled():
        print(f"\n{line}")


def stop_rounds(cluster: LocalCluster, rounds: int, prefix: str) -> str:
    """SIGSTOP, another leads, SIGCONT: what the old one is asked for meanwhile is refused."""
    load = TopicLoad(cluster.bootstrap_servers, prefix)
    load.start()
    refused = 0
    failovers_s: list[float] = []
    for number in range(rounds):
        load.wait_for(TOPICS_PER_ROUND)
        victim = active_controller(cluster)
        # Connected while it led: the request waits in its socket until it wakes up.
        connection = open_connection(str(cluster.node(victim)["listen"]), timeout_ms=20_000)
        cluster.pause(victim)
        try:
            send(connection, f"stale-{prefix}-{number}")
            _, failover_s = await_other_leader(cluster, victim)
            failovers_s.append(failover_s)
            load.wait_for(TOPICS_PER_ROUND)
        finally:
            cluster.resume(victim)
        result = receive(connection).topics[0]
        connection.close()
        assert result.error_code == ErrorCode.NOT_CONTROLLER, result
        refused += 1
        load.wait_for(TOPICS_PER_ROUND)
    load.stop()
    brokers = cluster.bootstrap_servers.split(",")
    check(load.outcomes, brokers, prefix)
    stale = [name for name in topics_at(brokers[0]) if name.startswith(f"stale-{prefix}")]
    assert stale == [], "a controller that was deposed has written"
    assert refused == rounds
    return (
        f"{rounds} stops of the active controller: {len(load.outcomes.granted)} topics granted, "
        f"{len(load.outcomes.found)} found on asking again, {refused} late writes refused, "
        f"0 lost, 0 doubled; another led after {max(failovers_s):.2f} s at worst"
    )


def send(connection: Connection, name: str) -> None:
    connection.tell(creation(name))


def receive(connection: Connection) -> CreateTopicsResponse:
    frame = connection._receive(20_000)
    version = connection.version_of(CreateTopicsRequest)
    return decode_response(CreateTopicsResponse, frame, version)[1]


def test_a_stopped_controller_is_refused_when_it_wakes(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    line = stop_rounds(cluster, 1, "stopped")
    with capsys.disabled():
        print(f"\n{line}")


@pytest.mark.long
def test_fifty_stops_of_the_active_controller(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    line = stop_rounds(cluster, 50, "fifty-stops")
    with capsys.disabled():
        print(f"\n{line}")


def lose_all_rounds(cluster: LocalCluster, rounds: int, prefix: str) -> str:
    """Kill all three, restart two: they serve. Then the third, which comes along."""
    load = TopicLoad(cluster.bootstrap_servers, prefix)
    load.start()
    slowest_s = 0.0
    for number in range(rounds):
        load.wait_for(TOPICS_PER_ROUND)
        names = cluster.names("controller")
        for name in names:
            cluster.kill(name)
        absent = names[number % len(names)]
        returning = [name for name in names if name != absent]
        started = [cluster.launch_node(name) for name in returning]
        slowest_s = max(slowest_s, load.wait_for(TOPICS_PER_ROUND))
        for process in started:
            assert process.wait(WAIT_S) == 0
        cluster.start_node(absent)
    load.stop()
    check(load.outcomes, cluster.bootstrap_servers.split(","), prefix)
    return (
        f"{rounds} times all controllers killed, two restarted: {len(load.outcomes.granted)} "
        f"topics granted, {len(load.outcomes.found)} found on asking again, 0 lost, 0 doubled; "
        f"creations went on after {slowest_s:.2f} s at worst"
    )


def test_two_of_three_serve_after_all_were_killed(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    line = lose_all_rounds(cluster, 1, "lost-all")
    with capsys.disabled():
        print(f"\n{line}")


@pytest.mark.long
def test_fifty_times_all_controllers_are_killed(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    line = lose_all_rounds(cluster, 50, "fifty-all")
    with capsys.disabled():
        print(f"\n{line}")
