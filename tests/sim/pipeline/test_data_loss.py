"""A log that lost what was not flushed yet: the pipeline ends with the reason, shows nothing."""

import pytest
from tests.sim.pipeline.test_publication import STEPS, finish, simulation

from headrace.pipeline.errors import DataLost
from headrace.testing.pipeline_simulation import Faults, PipelineSimulation

SETS = pytest.mark.parametrize("has_sets", [True, False], ids=["ours", "apache"])


def flushed(has_sets: bool) -> PipelineSimulation:
    sim = simulation(1, has_sets=has_sets)
    assert sim.drive(3) is None
    sim.check_complete()
    for partition in range(2):
        sim.log.append("orders", partition, 6, sim.dice)
    return sim


def check_ends(sim: PipelineSimulation, reason: str) -> None:
    """Every driver that comes says the same, and a reader sees what it saw before."""
    before = sim.visible()
    for _ in range(3):
        end = sim.drive(4)
        assert isinstance(end, DataLost)
        assert reason in str(end)
        assert "orders" in str(end)
        assert sim.visible() == before


@SETS
def test_a_topic_that_was_made_again(has_sets: bool) -> None:
    sim = flushed(has_sets)
    sim.log.topic_ids["orders"] = "another"
    records = {path for path in sim.files.files if path.startswith(sim.rooms.batches)}
    check_ends(sim, "deleted and created anew (its id was id-orders, now another)")
    # Not even a plan: if the topic's id was told wrongly, the next driver goes on.
    assert records == {path for path in sim.files.files if path.startswith(sim.rooms.batches)}
    del sim.log.topic_ids["orders"]
    finish(sim)


@SETS
def test_retention_that_passed_the_checkpoint(has_sets: bool) -> None:
    sim = flushed(has_sets)
    where = ("orders", 1)
    sim.log.kept_from[where] = sim.log.ends()[where] - 2
    check_ends(sim, "deleted before they were read")
    assert not [path for path in sim.files.files if path.endswith("000000000001.manifest.json")]


@SETS
@STEPS
def test_a_loss_between_plan_and_data(step: int, has_sets: bool) -> None:
    """A driver died with a plan; what it planned is gone, or of another topic now."""
    for loss in ("retention", "made again"):
        for kill_at in range(0, 1_000, step):
            sim = flushed(has_sets)
            if sim.drive(4, Faults(kill_at=kill_at)) is None:
                assert kill_at > 20
                break
            is_staged = any(".manifest." in path and "001." in path for path in sim.files.files)
            if loss == "retention":
                sim.log.kept_from["orders", 0] = sim.log.ends()["orders", 0]
            else:
                sim.log.topic_ids["orders"] = "another"
            before = sim.visible()
            end = sim.drive(4)
            if is_staged and loss == "retention":
                # All was read before it was lost: only the publication is left to do.
                assert end is None
            else:
                assert isinstance(end, DataLost)
                assert is_staged or sim.visible() == before
        else:
            pytest.fail("it never came to its end")
