"""Copies that are gone or can't be read any more: others lead, and they are made anew."""

from typing import Any

import pytest
from tests.sim.replication.scenario import Scenario

from headrace.base.errors import CorruptionError
from headrace.cluster.registrations import DIRECTORY_LOST
from headrace.wire.kafka.records import read_batches


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


# -- a log that is shorter than it was, though no power was lost ---------------------------------


def log_of(scenario: Scenario, node_id: int) -> str:
    node = scenario.node(node_id)
    return max(path for path in node.disk.tree() if "/t-0/" in path and path.endswith(".log"))


def tear(scenario: Scenario, node_id: int) -> None:
    """The last batch loses its end."""
    disk, path = scenario.node(node_id).disk, log_of(scenario, node_id)
    disk.overwrite(path, disk.read_file(path)[:-3])


def shorten(scenario: Scenario, node_id: int) -> None:
    """The last batch is gone as if it had never been written."""
    disk, path = scenario.node(node_id).disk, log_of(scenario, node_id)
    content = disk.read_file(path)
    *_, (header, _) = read_batches(content)
    disk.overwrite(path, content[: -header.size_bytes])


def empty(scenario: Scenario, node_id: int) -> None:
    """All files of the partition are gone."""
    disk = scenario.node(node_id).disk
    for path in [path for path in disk.tree() if "/t-0/" in path]:
        disk.remove(path)


def remove(scenario: Scenario, node_id: int) -> None:
    """And its folder too."""
    folder = log_of(scenario, node_id).rpartition("/")[0]
    empty(scenario, node_id)
    scenario.node(node_id).disk.remove_directory(folder)


DAMAGE = {"tear": tear, "shorten": shorten, "empty": empty, "remove": remove}


def eligible_and_alone() -> Scenario:
    """Node 3 is dead and eligible, node 2 is all that is left in sync. Then it dies too."""
    scenario = written(2, 3)
    scenario.world.run_for(3_000)  # high watermarks are noted
    scenario.node(3).kill()
    scenario.until(lambda: scenario.described.eligible_leader_replicas == (3,))
    scenario.node(2).kill()
    return scenario


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("victim", [2, 3])
def test_a_shortened_log_is_not_elected_though_it_was_in_sync_or_eligible(
    how: str, victim: int
) -> None:
    """The killed process knows its last life, and would have said that it lost nothing."""
    scenario = eligible_and_alone()
    DAMAGE[how](scenario, victim)
    scenario.node(victim).start()
    scenario.until(lambda: scenario.node(victim).is_serving)
    scenario.world.run_for(3_000)
    described = scenario.described
    assert described.leader == -1
    other = 5 - victim
    assert described.isr + described.eligible_leader_replicas == (other,)
    scenario.node(other).start()
    scenario.until_led_by(other)
    scenario.until_in_sync(2, 3)
    assert scenario.values(2) == scenario.values(3) == [b"m0", b"m1", b"m2"]


@pytest.mark.parametrize("first", [2, 3])
def test_after_the_same_without_damage_whoever_comes_first_leads(first: int) -> None:
    scenario = eligible_and_alone()
    scenario.node(first).start()
    scenario.until_led_by(first)
    assert scenario.values(first) == [b"m0", b"m1", b"m2"]


def test_what_was_cut_is_not_forgotten_by_a_start_that_never_registered() -> None:
    """1. A tail is damaged above the high watermark; 2. a start cuts it, and dies before it is
    registered; 3. the next one finds a log that looks whole, and lives that it knows."""
    scenario = written(2, 3)
    scenario.node(3).kill()
    scenario.until(lambda: scenario.described.eligible_leader_replicas == (3,))
    scenario.produce(2, b"m3", acks=1)
    node = scenario.node(2)
    node.kill()
    tear(scenario, 2)
    node.start()
    lifecycle = node.assembled.lifecycle
    assert lifecycle is not None
    never_sent: list[Any] = []
    lifecycle.start = never_sent.append  # type: ignore[method-assign]
    scenario.until(lambda: bool(never_sent))
    assert never_sent[0].previous_broker_epoch == -1
    assert scenario.partition(2).log.log_end_offset == 3, "it has cut"
    node.kill()
    node.start()
    scenario.until(lambda: node.is_serving)
    scenario.world.run_for(3_000)
    assert scenario.partition(2).log.recovered.cut_bytes == 0, "void: it was cut once more"
    assert scenario.described.leader == -1
    assert scenario.described.isr + scenario.described.eligible_leader_replicas == (3,)


def test_a_loss_that_was_told_is_not_told_again_by_the_next_process() -> None:
    """1. A log was shortened, and the controller told; 2. the process is killed before it has
    fetched what is missing; 3. the next one lost nothing."""
    scenario = written(2, 3, 1)
    scenario.world.run_for(3_000)  # high watermarks are noted
    node = scenario.node(3)
    node.kill()
    shorten(scenario, 3)
    node.start()
    lifecycle = node.assembled.lifecycle
    assert lifecycle is not None

    def registered() -> Any:
        assert scenario.world.image is not None
        return scenario.world.image.brokers[3]

    scenario.until(lambda: registered().incarnation_id == lifecycle.incarnation_id)
    assert 3 not in scenario.described.isr
    node.kill()
    node.start()
    assert node.assembled.lifecycle is not None
    never_sent: list[Any] = []
    node.assembled.lifecycle.start = never_sent.append  # type: ignore[method-assign]
    scenario.until(lambda: bool(never_sent))
    assert scenario.partition(3).log.log_end_offset == 2, "void: it was refilled"
    assert never_sent[0].previous_broker_epoch == registered().broker_epoch
