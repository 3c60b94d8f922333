"""Consumers that read from the replica of their rack (KIP-392), over whole nodes."""

from typing import Any

import pytest
from tests.sim.replication.scenario import Scenario

from headrace.broker.replica_selector import RACK_AWARE
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.records import read_batches, read_records

NOBODY = -1


@pytest.fixture
def scenario() -> Scenario:
    made = Scenario(2, 3, 1, selector=RACK_AWARE, racks=True)
    for number in range(3):
        made.produce(2, b"m%d" % number)
    made.until_in_sync(1, 2, 3)
    return made


def fetch(scenario: Scenario, node_id: int, offset: int, rack: str = "", **more: Any) -> Any:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **more)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        rack_id=rack,
        topics=[FetchTopic(topic_id=scenario.key[0], partitions=[wanted])],
    )
    answers: list[Any] = []
    scenario.client.ask(node_id, request, answers.append)
    scenario.until(lambda: bool(answers))
    (row,) = answers[0].responses[0].partitions
    return row


def values(row: Any) -> list[bytes]:
    return [
        record.value or b""
        for _, batch in read_batches(row.records)
        for record in read_records(batch)
    ]


def test_the_leader_names_the_replica_in_the_consumers_rack(scenario: Scenario) -> None:
    row = fetch(scenario, 2, 0, "rack-3")
    assert (row.error_code, row.preferred_read_replica) == (0, 3)
    assert not row.records


@pytest.mark.parametrize("rack", ["", "rack-2", "rack-9"])
def test_it_serves_itself_who_has_no_nearer_one(scenario: Scenario, rack: str) -> None:
    row = fetch(scenario, 2, 0, rack)
    assert row.preferred_read_replica == NOBODY
    assert values(row) == [b"m0", b"m1", b"m2"]


def test_one_that_is_not_in_sync_is_not_named(scenario: Scenario) -> None:
    scenario.node(3).kill()
    scenario.until(lambda: 3 not in scenario.partition(2).in_sync.isr)
    assert fetch(scenario, 2, 0, "rack-3").preferred_read_replica == NOBODY


def test_a_follower_gives_what_is_committed_and_no_more(scenario: Scenario) -> None:
    scenario.until(lambda: scenario.partition(3).high_watermark == 3)
    assert values(fetch(scenario, 3, 0, "rack-3")) == [b"m0", b"m1", b"m2"]
    scenario.node(1).pause()
    unanswered = scenario.send(2, b"m3")
    scenario.until(lambda: scenario.partition(3).log.log_end_offset == 4)
    assert not fetch(scenario, 3, 3, "rack-3").records, "node 1 may lack it"
    scenario.node(1).resume()
    scenario.until(lambda: bool(unanswered))
    assert values(fetch(scenario, 3, 3, "rack-3")) == [b"m3"]


def test_a_consumer_that_waits_at_a_follower_is_woken(scenario: Scenario) -> None:
    scenario.until(lambda: scenario.partition(3).high_watermark == 3)
    codes = scenario.send(2, b"m3")
    assert values(fetch(scenario, 3, 3, "rack-3")) == [b"m3"]
    scenario.until(lambda: bool(codes))
    assert codes == [0]


def test_a_follower_fences_by_epoch_and_sends_away_who_is_ahead(scenario: Scenario) -> None:
    epoch = scenario.described.leader_epoch
    newer = fetch(scenario, 3, 0, current_leader_epoch=epoch + 1)
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(scenario, 3, 99).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_who_neither_leads_nor_follows_gives_nothing(scenario: Scenario) -> None:
    partition = scenario.partition(3)
    partition.follow(partition.leader_epoch)  # as when nobody leads
    assert fetch(scenario, 3, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
