"""Every single message of a quiet life lost, then every pair: nothing committed is lost by it.

In the manner of HDFS's tests of its quorum journal. Three voters elect a leader, commit, lose it
and elect another; each message of that life is dropped once.
"""

from itertools import combinations

import pytest

from headrace.testing.quorum.network import Weather
from headrace.testing.quorum.simulation import Simulation

PATIENCE_MS = 20_000
PAIRS_OF_FIRST = 40
SLICES = 10


def live(dropped: frozenset[int]) -> int:
    """The number of messages sent."""
    world = Simulation(3, 3, 0, Weather(delay_ms_max=1))
    world.network.dropped = dropped
    world.start_all()

    def commit(count: int) -> None:
        acked = world.checkers.log.acked_count + count

        def is_committed() -> bool:
            leader = world.leader()
            if leader is not None and world.checkers.log.acked_count < acked:
                world.propose(leader)
            return world.checkers.log.acked_count >= acked

        assert world.run_until(is_committed, PATIENCE_MS), f"dropped {sorted(dropped)}"

    commit(2)
    leader = world.leader()
    assert leader is not None
    leader.stop(power_cut=True)
    commit(2)
    leader.start()
    commit(1)
    return world.network.sent_count


def test_every_single_message() -> None:
    count = live(frozenset())
    assert 40 <= count <= 400
    for number in range(1, count + 1):
        live(frozenset({number}))


@pytest.mark.long
@pytest.mark.parametrize("part", range(SLICES))
def test_every_pair_of_messages(part: int) -> None:
    pairs = list(combinations(range(1, PAIRS_OF_FIRST + 1), 2))
    for pair in pairs[part::SLICES]:
        live(frozenset(pair))
