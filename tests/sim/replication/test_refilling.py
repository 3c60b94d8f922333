"""Copies that are gone or can't be read any more: others lead, and they are made anew."""

from tests.sim.replication.scenario import Scenario

from headrace.base.errors import CorruptionError
from headrace.cluster.registrations import DIRECTORY_LOST


def written(*replicas: int, min_insync: int = 2) -> Scenario:
    scenario = Scenario(*replicas, min_insync=min_insync)
    for number in range(3):
        scenario.produce(replicas[0], b"m%d" % number)
    return scenario


def test_a_directory_that_was_replaced_by_an_empty_one_is_filled_again() -> None:
    """Row W6: it can't be elected before, and then it counts again."""
    scenario = written(2, 3, 1)
    scenario.node(2).wipe()
    scenario.until(lambda: scenario.described.leader in (1, 3))
    scenario.node(2).start()
    scenario.until(lambda: scenario.node(2).is_serving)
    assert scenario.described.leader != 2
    scenario.until_in_sync(1, 2, 3)
    assert scenario.values(2) == [b"m0", b"m1", b"m2"]
    assert not scenario.partition(2).error


def test_a_leader_that_finds_its_log_damaged_leads_no_more() -> None:
    scenario = written(2, 3, 1)
    damaged = scenario.partition(2)
    damaged.fail(CorruptionError("/logs/t-0", 0, "wrong CRC"))
    scenario.until(lambda: scenario.described.leader in (1, 3))
    assert 2 not in scenario.described.isr + scenario.described.eligible_leader_replicas
    scenario.until_in_sync(1, 2, 3)
    assert scenario.partition(2) is not damaged
    assert scenario.values(2) == [b"m0", b"m1", b"m2"]
    assert scenario.described.directory_of(2) in {
        each.directory_id for each in scenario.node(2).assembled.directories
    }


def test_a_copy_that_is_found_damaged_at_a_start_is_made_anew() -> None:
    scenario = written(2, 3, 1)
    node = scenario.node(3)
    scenario.partition(3).log.flush_now()
    node.kill()
    (path,) = [each for each in node.disk.tree() if each.endswith("/t-0/partition.metadata")]
    node.disk.overwrite(path, b"rubbish")
    node.start()
    scenario.until(lambda: 3 not in scenario.described.isr)
    scenario.until_in_sync(1, 2, 3)
    assert scenario.values(3) == [b"m0", b"m1", b"m2"]


def test_where_nobody_else_may_lead_a_damaged_copy_stays_as_it_is() -> None:
    scenario = written(2, 3, min_insync=1)
    scenario.node(3).kill()
    scenario.until_in_sync(2)
    scenario.until(lambda: scenario.partition(2).in_sync.isr == (2,))
    scenario.produce(2, b"m3")
    damaged = scenario.partition(2)
    damaged.fail(CorruptionError("/logs/t-0", 0, "wrong CRC"))
    scenario.until(lambda: scenario.described.leader == -1)
    scenario.node(3).start()
    scenario.until(lambda: scenario.node(3).is_serving)
    scenario.world.run_for(3_000)
    assert scenario.described.leader == -1, "node 3 lacks what was acknowledged"
    assert scenario.described.directory_of(2) == DIRECTORY_LOST
    assert scenario.partition(2) is damaged
