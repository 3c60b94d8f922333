"""Controllers over a real quorum through kills, power cuts, pauses and partitions, by seed."""

import pytest
from tests.sim.cluster.quorum_world import ControllerWorld

SEEDS = range(20)
LONG_SEEDS = range(1000, 1500)


def run(seed: int, event_count: int) -> ControllerWorld:
    world = ControllerWorld(seed)
    try:
        world.live(event_count)
    except BaseException:
        print(f"seed {seed} after {world.event_count} events, {world.now_ms} ms, {world.faults}")
        raise
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_and_nothing_made_twice(seed: int) -> None:
    world = run(seed, event_count=1500)
    assert world.answers >= 20


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_nothing_is_lost_over_long_histories(seed: int) -> None:
    run(seed, event_count=20_000)
