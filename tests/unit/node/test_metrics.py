"""`/metrics` and `/health` of a broker, read as Prometheus and people read them."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.sim.replication.scenario import Scenario
from tests.unit.broker.dialogue import Client, batch, dialogue
from tests.unit.broker.share.share_client import Stage, accept, reject, release
from tests.unit.broker.transactor import Transactor, transactional_broker

from headrace.node.metrics import LoopMetrics, MetricsPage
from headrace.runtime.buffers import BufferPool
from headrace.runtime.tcp import TcpCounters
from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


@dataclass
class Server:
    """As much of a listener as is counted."""

    counters: TcpCounters = field(default_factory=TcpCounters)
    connections: set[int] = field(default_factory=set)


def page_of(broker: SimulatedBroker, *servers: Any) -> MetricsPage:
    return MetricsPage(broker.node, servers, BufferPool(), LoopMetrics())


def samples(page: MetricsPage) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and by the values of labels, which the page sorts by their names."""
    answer = page.metrics()
    assert answer.status == 200
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def told_by(scenario: Scenario, node_id: int, *names: str) -> list[float]:
    """What the page of one node says of these, which have no labels."""
    page = MetricsPage(scenario.node(node_id).assembled, (), BufferPool(), LoopMetrics())
    found = samples(page)
    return [found[f"headrace_{name}", ()] for name in names]


def health(page: MetricsPage) -> tuple[int, dict[str, Any]]:
    answer = page.health()
    assert answer.content_type == "application/json"
    return answer.status, json.loads(answer.body)


def test_requests_and_offsets_are_counted() -> None:
    broker, client = dialogue("t", 2)
    for _ in range(3):
        client.produce("t", 1, batch("a", "b"))
    client.fetch("t", 1, 0)
    found = samples(page_of(broker))
    assert found["headrace_requests_total", ("Produce",)] == 3
    assert found["headrace_requests_total", ("Fetch",)] == 1
    assert found["headrace_log_end_offset", ("1", "t")] == 6
    assert ("headrace_log_end_offset", ("0", "t")) not in found, "never used: nothing to tell"
    assert found["headrace_log_size_bytes", ("1", "t")] == 3 * len(batch("a", "b"))
    assert found["headrace_topics", ()] == 1
    assert found["headrace_offline_partitions", ()] == 0


def test_listeners_are_added_up_and_scraped_again() -> None:
    broker, client = dialogue()
    first, second = Server(TcpCounters(accepted=2, bytes_sent=10), {1, 2}), Server()
    second.counters.accepted = 5
    page = page_of(broker, first, second)
    found = samples(page)
    assert found["headrace_connections_accepted_total", ()] == 7
    assert found["headrace_sent_bytes_total", ()] == 10
    assert found["headrace_connections", ()] == 2
    second.counters.accepted = 6
    client.produce("t", 0, batch("a"))
    again = samples(page)
    assert again["headrace_connections_accepted_total", ()] == 8
    assert again["headrace_log_end_offset", ("0", "t")] == 1


def test_health_is_200_while_all_is_in_service() -> None:
    broker, _ = dialogue()
    status, body = health(page_of(broker))
    assert (status, body["status"]) == (200, "ok")
    assert body["node_id"] == broker.broker.node_id
    assert body["cluster_id"] == broker.broker.cluster_id
    assert (body["offline_partitions"], body["offline_log_dirs"]) == ([], [])


def test_health_names_what_is_offline() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 4)
    client = Client(broker)
    for index in range(4):
        client.produce("t", index, batch("x"))
    broker.disk.plan(Fault("write", path_part="/b/t-", is_sticky=True))
    for index in range(4):
        client.produce("t", index, batch("x"))
    page = page_of(broker)
    status, body = health(page)
    assert (status, body["status"]) == (503, "degraded")
    assert body["offline_log_dirs"] == ["/b"]
    assert len(body["offline_partitions"]) == 2
    found = samples(page)
    assert found["headrace_offline_partitions", ()] == 2
    assert found["headrace_offline_log_dirs", ()] == 1
    assert found["headrace_storage_errors_total", ()] >= 1
    offline = body["offline_partitions"][0].removeprefix("t-")
    assert ("headrace_log_end_offset", (offline, "t")) not in found


def test_a_failed_directory_without_partitions_is_not_health() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.stop()
    broker.disk.plan(Fault("open", path_part="/b/", is_sticky=True))
    broker.start()
    status, body = health(page_of(broker))
    assert body["offline_log_dirs"] == ["/b"]
    assert status == 503


def test_stopping_is_told() -> None:
    broker, _ = dialogue()
    broker.broker.prepare_stop()
    assert health(page_of(broker))[1]["status"] == "stopping"
    assert health(page_of(broker))[0] == 503


@pytest.mark.parametrize("name", ['a"b', "back\\slash"])
def test_names_of_clients_making_never_break_the_page(name: str) -> None:
    """Topic names are checked; should one come through, the page is still readable."""
    broker, client = dialogue()
    client.produce("t", 0, batch("a"))
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    partition.topic = name
    assert ("headrace_log_end_offset", ("0", name)) in samples(page_of(broker))


def test_transactions_are_counted() -> None:
    broker = transactional_broker("t")
    one, other = Transactor(broker, "one"), Transactor(broker, "other")
    for who in (one, other):
        assert who.init() == 0
        assert who.write("t", 0, "a") == 0
    assert samples(page_of(broker))["headrace_open_transactions", ()] == 2
    assert one.end(commit=True) == 0
    found = samples(page_of(broker))
    assert found["headrace_open_transactions", ()] == 1
    assert found["headrace_transactional_ids", ("CompleteCommit",)] == 1
    assert found["headrace_transactional_ids", ("Ongoing",)] == 1
    assert found["headrace_transactions_ended_total", ("committed",)] == 1
    broker.advance(80_000)
    found = samples(page_of(broker))
    assert found["headrace_transactions_timed_out_total", ()] == 1
    assert found["headrace_transactions_ended_total", ("aborted",)] == 1
    assert found["headrace_open_transactions", ()] == 0


def test_deliveries_to_share_groups_are_counted() -> None:
    stage = Stage(group={"share.record.lock.duration.ms": "15000"})
    stage.produce(10)
    member = stage.member("m")
    assert member.take() == [(0, 9, 1)]
    assert member.acknowledge(accept(0, 3), reject(4, 5), release(6, 6)) == (0, 0)
    stage.broker.advance(15_000)
    found = samples(page_of(stage.broker))
    expected = {
        "share_acquired_records_total": 10,
        "share_accepted_records_total": 4,
        "share_rejected_records_total": 2,
        "share_released_records_total": 1,
        "share_lock_timeouts_total": 3,
        "share_archived_records_total": 0,
        "share_state_writes_total": 2,
        "share_state_write_failures_total": 0,
        "share_in_flight_records": 4,
        "share_sessions": 1,
        "share_partitions": 1,
        "share_waiting_fetches": 0,
    }
    assert {name: found[f"headrace_{name}", ()] for name in expected} == expected


def test_groups_are_told_with_their_lag() -> None:
    broker, client = dialogue("t", 2)
    now_ms = broker.broker.clock.now_ms()
    client.produce("t", 0, batch("a", "b", "c", timestamp_ms=now_ms - 60_000))
    client.produce("t", 1, batch("a", timestamp_ms=now_ms))
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"]), 4)
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in (0, 1)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    committed = client.ask(OffsetCommitRequest(group_id="readers", topics=topics), 9)
    assert [part.error_code for part in committed.topics[0].partitions] == [0, 0]
    found = samples(page_of(broker))
    assert found["headrace_groups", ("empty", "classic")] == 1
    assert found["headrace_group_lag_records", ("readers", "0", "t")] == 2
    assert found["headrace_group_lag_seconds", ("readers", "0", "t")] == pytest.approx(60, abs=1)
    assert found["headrace_group_lag_records", ("readers", "1", "t")] == 0
    assert found["headrace_group_lag_seconds", ("readers", "1", "t")] == 0


def test_the_age_of_a_group_is_that_of_the_oldest_record_it_has_not_read() -> None:
    broker, client = dialogue("t", 1)
    now_ms = broker.broker.clock.now_ms()
    for seconds_ago in (3600, 1800, 1):
        client.produce("t", 0, batch("a", timestamp_ms=now_ms - seconds_ago * 1000))
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"]), 4)
    for offset, age in ((0, 3600), (1, 1800), (2, 1), (3, 0)):
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        client.ask(OffsetCommitRequest(group_id="readers", topics=topics), 9)
        for _ in range(2):  # read, then remembered
            found = samples(page_of(broker))
            assert found["headrace_group_lag_records", ("readers", "0", "t")] == 3 - offset
            seconds = found["headrace_group_lag_seconds", ("readers", "0", "t")]
            assert seconds == pytest.approx(age, abs=0.9)


def test_stalls_of_the_loop_are_told() -> None:
    broker, _ = dialogue()
    loop = LoopMetrics()
    page = MetricsPage(broker.node, (), BufferPool(), loop)
    assert samples(page)["headrace_loop_stalls_total", ()] == 0
    loop.loop_stalls, loop.loop_stall_ms_max = 3, 250
    found = samples(page)
    assert found["headrace_loop_stalls_total", ()] == 3
    assert found["headrace_loop_stall_max_ms", ()] == 250


IN_SYNC = ("under_replicated_partitions", "under_min_isr_partitions")
ISR_CHANGES = ("isr_shrinks_total", "isr_expands_total")
CLUSTER = ("cluster_under_replicated_partitions", "cluster_offline_partitions")
ELECTIONS = ("leader_elections_total", "unclean_elections_total")


def test_replicas_that_are_lost_and_come_back_are_told_by_leader_and_controller() -> None:
    scenario = Scenario(2, 3, min_insync=2)
    scenario.produce(2, b"m1")
    assert told_by(scenario, 2, *IN_SYNC, *ISR_CHANGES) == [0, 0, 0, 0]
    assert told_by(scenario, 1, *CLUSTER, *ELECTIONS) == [0, 0, 0, 0]

    scenario.node(3).kill()
    scenario.until(lambda: told_by(scenario, 2, *IN_SYNC, *ISR_CHANGES) == [1, 1, 1, 0])
    assert told_by(scenario, 1, *CLUSTER, *ELECTIONS) == [1, 0, 0, 0]

    scenario.node(3).start()
    scenario.until(lambda: told_by(scenario, 2, *IN_SYNC, *ISR_CHANGES) == [0, 0, 1, 1])
    assert told_by(scenario, 1, *CLUSTER, *ELECTIONS) == [0, 0, 0, 0]

    scenario.node(2).kill()
    scenario.until_led_by(3)
    assert told_by(scenario, 1, *CLUSTER, *ELECTIONS) == [1, 0, 1, 0]
    scenario.node(3).kill()
    scenario.until(lambda: scenario.described.leader == -1)
    assert told_by(scenario, 1, *CLUSTER, *ELECTIONS) == [1, 1, 1, 0]
    scenario.node(3).start()
    scenario.until_led_by(3)
    assert told_by(scenario, 1, *CLUSTER, *ELECTIONS) == [1, 0, 2, 0]


def test_a_change_of_the_isr_that_is_refused_is_not_counted() -> None:
    scenario = Scenario(2, 3)
    broker = scenario.node(2).assembled.broker
    assert broker is not None
    in_sync = scenario.partition(2).in_sync
    before = in_sync.isr
    shrink = in_sync.maybe_shrink(10**6, 10**12)
    assert shrink is not None
    assert shrink.isr == (2,)
    scenario.partition(2).on_isr_refused(shrink)
    assert in_sync.isr == before
    assert told_by(scenario, 2, *ISR_CHANGES) == [0, 0]
    assert (broker.replication.isr_shrinks, broker.replication.isr_expands) == (0, 0)


def test_a_follower_tells_how_many_committed_records_it_lacks() -> None:
    scenario = Scenario(2, 3)
    broker = scenario.node(3).assembled.broker
    assert broker is not None
    fetching = ("replica_fetchers", "followed_partitions", "replica_fetch_failures_total")
    lagging = ("replica_lag_records_max", "lagging_partitions")
    for number in range(3):
        scenario.produce(2, b"m%d" % number)
    scenario.until(lambda: told_by(scenario, 3, "replica_fetches_total")[0] >= 3)
    assert told_by(scenario, 3, *fetching, *lagging) == [1, 1, 0, 0, 0]
    assert told_by(scenario, 3, "replica_fetched_bytes_total") == [
        scenario.partition(3).log.size_bytes
    ]
    (fetcher,) = broker.replication.fetchers
    (following,) = fetcher._followed.values()
    following.leader_high_watermark = 1_003  # as if one answer had brought a part of them
    page = MetricsPage(scenario.node(3).assembled, (), BufferPool(), LoopMetrics())
    found = samples(page)
    assert found["headrace_replica_lag_records_max", ()] == 1_000
    assert found["headrace_lagging_partitions", ()] == 1
    assert found["headrace_replica_lag_records", ("0", "t")] == 1_000
    assert told_by(scenario, 2, *lagging) == [0, 0], "a leader follows nobody here"
    scenario.produce(2, b"more")
    scenario.until(lambda: told_by(scenario, 3, *lagging) == [0, 0])
    assert ("headrace_replica_lag_records", ("0", "t")) not in samples(page)

    scenario.node(2).kill()
    scenario.until_led_by(3)
    assert told_by(scenario, 3, "replica_fetchers", "followed_partitions") == [0, 0]
    assert told_by(scenario, 3, "replica_fetches_total")[0] >= 3, "of fetchers that are gone, too"
