"""Random histories of brokers, partitions and controllers: the rules of `checkers` after every
decision, and at the end, once everybody is well again, everything is served."""

import pytest
from tests.sim.cluster.world import World

SEEDS = range(220)
LONG_SEEDS = range(1000, 3000)


def run(seed: int, steps: int) -> World:
    world = World(seed)
    try:
        for _ in range(steps):
            world.step()
        world.settle()
    except BaseException:
        print(f"seed {seed}, epoch {world.epoch}, asked {world.counts}")
        raise
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_hold_and_in_the_end_all_is_served(seed: int) -> None:
    world = run(seed, steps=200)
    assert world.counts["BrokerHeartbeatRequest"] > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_the_rules_hold_over_long_histories(seed: int) -> None:
    run(seed, steps=1500)
