"""How long a quorum is without a leader, with the default time-outs: simulated time, by seed."""

import pytest

from headrace.testing.quorum.network import Weather
from headrace.testing.quorum.simulation import Simulation

SEEDS = range(60)
PATIENCE_MS = 20_000


def time_without_leader_ms(seed: int, voter_count: int, *, refusing: float) -> int:
    """From the death of a leader to the first commit of the next."""
    world = Simulation(seed, voter_count, 1, Weather(delay_ms_max=2, refusing=refusing))
    world.start_all()

    def has_committed() -> bool:
        leader = world.leader()
        if leader is None:
            return False
        node = leader.node
        return node.log.epoch_before(node.high_watermark) == node.epoch

    assert world.run_until(has_committed, PATIENCE_MS)
    world.run_for(1_000 + 7 * seed)
    leader = world.leader()
    assert leader is not None
    leader.stop(power_cut=True)
    died_ms = world.now_ms
    assert world.run_until(has_committed, PATIENCE_MS)
    return world.now_ms - died_ms


@pytest.mark.parametrize("voter_count", [3, 5])
def test_a_process_that_dies_is_replaced_in_a_moment(voter_count: int) -> None:
    """Its port refuses connections, so nobody waits for a time-out: but one that is being
    answered at that moment waits for its request's."""
    times = sorted(time_without_leader_ms(s, voter_count, refusing=1.0) for s in SEEDS)
    assert times[len(times) // 2] < 1_000
    assert times[-1] < 2_000


@pytest.mark.parametrize("voter_count", [3, 5])
def test_a_machine_that_vanishes_is_replaced_within_two_seconds(voter_count: int) -> None:
    times = sorted(time_without_leader_ms(s, voter_count, refusing=0.0) for s in SEEDS)
    assert times[len(times) // 2] < 1_500
    assert times[int(len(times) * 0.9)] < 2_000
    assert times[-1] < 2_500
