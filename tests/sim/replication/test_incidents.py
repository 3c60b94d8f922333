"""Incidents that made replication what it is, each told again over whole nodes.

The numbers are those of the project's list of regression scenarios. In
`tests/unit/broker/replication` are the divergence table of KIP-279 (3, `test_truncation`), who may
join the ISR with its counter-test (5, `test_roles`), and reads beside appends and rolls (12,
`test_exposure`).
"""

from typing import Any

import pytest
from tests.sim.replication.scenario import Scenario

from headrace.log.checkpoints import read_epochs
from headrace.testing.cluster_simulation.bugs import EPOCH_NOT_BEGUN, EPOCH_NOT_SYNCED
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


@pytest.mark.parametrize("is_killed", [False, True], ids=["paused", "killed"])
def test_6_1_no_1_a_follower_behind_its_leaders_high_watermark_keeps_what_it_has(
    is_killed: bool,
) -> None:
    """KIP-101 a: B has m2 and does not know that it is committed; it restarts, A dies."""
    scenario = Scenario(2, 3)
    scenario.produce(2, b"m1")
    scenario.produce(2, b"m2")
    assert scenario.partition(3).log.log_end_offset == 2
    scenario.node(3).kill()
    scenario.node(3).start()
    scenario.until(lambda: scenario.has_role(3) if scenario.partition(3) else False)
    if is_killed:
        scenario.node(2).kill()
    else:
        scenario.node(2).pause()
    scenario.world.run_for(3_000)
    if is_killed:
        scenario.node(2).start()
    else:
        scenario.node(2).resume()
    scenario.until_in_sync(2, 3)
    assert scenario.values(3) == scenario.values(2) == [b"m1", b"m2"]


def test_6_1_no_2_an_offset_has_one_content_after_both_died() -> None:
    """KIP-101 b: both lose power, the shorter is back first and writes where the other had m2."""
    scenario = Scenario(2, 3)
    scenario.produce(2, b"m1")
    scenario.node(3).pause()
    unanswered = scenario.send(2, b"m2")
    scenario.until(lambda: scenario.partition(2).log.log_end_offset == 2)
    scenario.node(3).kill()
    scenario.node(2).kill()
    scenario.node(3).start()
    scenario.until(lambda: scenario.node(3).is_serving)
    assert not unanswered
    scenario.node(2).start()
    scenario.until_in_sync(2, 3)
    leader = scenario.described.leader
    scenario.until_led_by(leader)
    scenario.produce(leader, b"m3")
    assert scenario.values(2) == scenario.values(3)
    assert scenario.values(2)[0] == b"m1"


def test_6_1_no_4_an_epoch_without_a_write_is_known_all_the_same() -> None:
    """KAFKA-7415: two elections with nothing between them, then another writer."""
    scenario = Scenario(2, 3)
    scenario.produce(2, b"m1")
    scenario.produce(2, b"m2")
    for victim, heir in ((2, 3), (3, 2), (2, 3)):
        scenario.until_in_sync(2, 3)
        scenario.until_led_by(victim)
        scenario.node(victim).kill()
        scenario.until_led_by(heir)
        epochs = scenario.partition(heir).log.epochs.entries
        assert epochs[-1] == (scenario.described.leader_epoch, 2)
        scenario.node(victim).start()
    scenario.until_in_sync(2, 3)
    scenario.produce(3, b"m3")
    assert scenario.values(2) == scenario.values(3) == [b"m1", b"m2", b"m3"]


def test_6_1_no_4_fails_where_an_epoch_begins_with_its_first_batch() -> None:
    with EPOCH_NOT_BEGUN.switched_on(), pytest.raises(AssertionError):
        test_6_1_no_4_an_epoch_without_a_write_is_known_all_the_same()


@pytest.mark.parametrize("seed", [1, 2])
def test_6_1_no_4_an_epoch_that_began_outlives_a_power_cut(seed: int) -> None:
    """The new leader's first act is on disk: its epoch, in which nothing is written yet."""
    scenario = Scenario(2, 3, min_insync=2, seed=seed)
    scenario.produce(2, b"m1")
    scenario.partition(3).log.flush_now()
    scenario.node(2).kill()
    scenario.until_led_by(3)
    begun = (scenario.described.leader_epoch, 1)
    assert scenario.partition(3).log.epochs.entries[-1] == begun
    path = scenario.partition(3).log.epochs_path
    scenario.node(3).cut_power()
    assert begun in read_epochs(scenario.node(3).disk, path)


def test_6_1_no_4_fails_where_an_epoch_is_left_to_the_page_cache() -> None:
    """A power cut may spare it: some of these lose it."""

    def tell_all() -> None:
        for seed in range(1, 9):
            test_6_1_no_4_an_epoch_that_began_outlives_a_power_cut(seed)

    with EPOCH_NOT_SYNCED.switched_on(), pytest.raises(AssertionError):
        tell_all()


def test_6_1_no_5_a_follower_joins_at_the_start_of_the_leaders_epoch() -> None:
    """KAFKA-7128: the high watermark of a new leader lags behind what was acknowledged."""
    scenario = Scenario(2, 3, 1)
    scenario.produce(2, b"m1")
    scenario.node(1).sync_ms_max = 1
    scenario.produce(2, b"m2")
    scenario.node(2).kill()
    scenario.until(lambda: scenario.described.leader not in (2, -1))
    leader = scenario.described.leader
    scenario.until_led_by(leader)
    scenario.node(2).start()
    scenario.until_in_sync(1, 2, 3)
    assert all(scenario.values(each) == [b"m1", b"m2"] for each in (1, 2, 3))


def test_6_1_no_6_a_replica_that_lost_its_log_joins_only_in_its_new_life() -> None:
    """KIP-903: while AlterPartition is held up the follower comes back with less."""
    scenario = Scenario(2, 3)
    scenario.node(3).kill()
    scenario.until_in_sync(2)
    for number in range(3):
        scenario.produce(2, b"m%d" % number)
    scenario.node(3).start()
    scenario.until(lambda: 3 in scenario.partition(2).in_sync.maximal_isr)
    scenario.node(3).cut_power()
    scenario.node(3).start()
    scenario.until(lambda: scenario.node(3).is_serving)
    scenario.until_in_sync(2, 3)
    assert scenario.values(3) == scenario.values(2) == [b"m0", b"m1", b"m2"]


def test_6_1_no_7_the_last_in_sync_replica_loses_power_and_another_leads() -> None:
    """KIP-966: who was in sync when the minimum was last met has all that was acknowledged."""
    scenario = Scenario(2, 3, min_insync=2)
    for number in range(3):
        scenario.produce(2, b"m%d" % number)
    scenario.node(3).kill()
    scenario.until(lambda: scenario.described.eligible_leader_replicas == (3,))
    scenario.node(2).cut_power()
    scenario.node(2).start()
    scenario.until(lambda: scenario.node(2).is_serving)
    assert scenario.described.leader == -1, "it may have lost what was acknowledged"
    assert scenario.described.eligible_leader_replicas == (3,)
    scenario.node(3).start()
    scenario.until_led_by(3)
    assert scenario.described.leader_recovery_state == 0, "a clean election"
    scenario.until_in_sync(2, 3)
    assert scenario.described.eligible_leader_replicas == ()
    assert scenario.values(2) == scenario.values(3) == [b"m0", b"m1", b"m2"]


def test_a_broker_that_was_killed_may_lead_again_though_the_others_lost_power() -> None:
    """Its process ended, its machine did not: what it wrote is there."""
    scenario = Scenario(2, 3, min_insync=2)
    scenario.produce(2, b"m1")
    scenario.node(3).kill()
    scenario.until(lambda: scenario.described.eligible_leader_replicas == (3,))
    scenario.node(2).cut_power()
    scenario.node(3).start()
    scenario.until(lambda: scenario.described.leader == 3)
    assert scenario.values(3) == [b"m1"]


def test_6_1_no_8_an_unclean_stop_costs_the_place_in_the_isr() -> None:
    """KIP-966, KAFKA-15586: with both down, the one that may have lost records does not lead."""
    scenario = Scenario(2, 3)
    scenario.produce(2, b"m1")
    scenario.produce(2, b"m2")
    scenario.node(3).kill()
    scenario.node(2).cut_power()
    scenario.node(2).start()
    scenario.until(lambda: scenario.node(2).is_serving)
    scenario.until(lambda: scenario.described.leader == -1)
    assert scenario.described.isr + scenario.described.eligible_leader_replicas == (3,)
    scenario.node(3).start()
    scenario.until_in_sync(2, 3)
    assert scenario.values(2) == scenario.values(3) == [b"m1", b"m2"]


def test_6_1_no_28_acks_all_is_refused_below_the_minimum() -> None:
    """The ISR shrank to the leader: nothing is promised that one disk alone would keep."""
    scenario = Scenario(2, 3, min_insync=2)
    scenario.produce(2, b"m1")
    scenario.node(3).kill()
    scenario.until_in_sync(2)
    scenario.until(lambda: scenario.partition(2).in_sync.isr == (2,))
    codes = scenario.send(2, b"m2")
    scenario.until(lambda: bool(codes))
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_records_are_deleted_on_every_living_replica_when_it_is_answered() -> None:
    scenario = Scenario(2, 3)
    for number in range(4):
        scenario.produce(2, b"m%d" % number)
    asked = DeleteRecordsPartition(partition_index=0, offset=3)
    topic = DeleteRecordsTopic(name="t", partitions=[asked])
    answers: list[Any] = []
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
    scenario.client.ask(2, request, answers.append)
    scenario.until(lambda: bool(answers))
    (row,) = answers[0].topics[0].partitions
    assert (row.error_code, row.low_watermark) == (0, 3)
    assert scenario.partition(3).log.log_start_offset == 3
    scenario.node(3).pause()
    asked.offset, request.timeout_ms = 4, 300
    scenario.client.ask(2, request, answers.append)
    scenario.until(lambda: len(answers) == 2)
    (row,) = answers[1].topics[0].partitions
    assert (row.error_code, row.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 3)
    assert scenario.partition(2).log.log_start_offset == 4, "deleted all the same"
