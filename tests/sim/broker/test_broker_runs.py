"""Random runs of a whole broker: whatever ends it, what it promised holds.

L1, L2, L3, L4, L6, L7, L10, L17 and L20 of the reliability guide, judged by `testing.checkers`
after every restart.
"""

import pytest
from tests.sim.broker.world import World

SEEDS = range(200)
LONG_SEEDS = range(1000, 3000)


def run(seed: int, lives: int, steps_max: int) -> None:
    world = World(seed)
    try:
        for _ in range(lives):
            for _ in range(world.rng.randint(5, steps_max)):
                world.step()
            world.end()
            if world.is_over:
                return
            assert world.check() == []
    except BaseException:
        print(f"seed {seed}: ended by {world.ends}, durable {world.is_durable}")
        raise


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_promised_holds_after_every_end(seed: int) -> None:
    run(seed, lives=3, steps_max=110)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_what_was_promised_holds_over_long_runs(seed: int) -> None:
    run(seed, lives=8, steps_max=300)
