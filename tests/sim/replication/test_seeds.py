"""Whole lives of clusters, by seed: the rules of `truth` at every event, a last reading at the end.

A failure prints the seed and the rule that it breaks.
"""

import os

import pytest

from headrace.testing.cluster_simulation.seeds import EVENTS_MIN, run

KEPT = [2, 9, 26, 31, 76, 81]
"""Seeds that once failed, some by mistakes of the simulation. Most of what they found in the broker
has a unit test too: a change of the simulation makes another life of a seed."""

LONG = range(300, 20_300) if "SHARD" in os.environ else range(300, 310)
"""All of them under `make test-long` alone: nobody else should wait for their collection."""


@pytest.mark.parametrize("seed", range(300))
def test_seed(seed: int) -> None:
    outcome = run(seed)
    assert outcome.event_count >= EVENTS_MIN


@pytest.mark.parametrize("seed", KEPT)
def test_kept_seed(seed: int) -> None:
    run(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_long_seed(seed: int) -> None:
    run(seed)


def test_a_seed_is_one_life() -> None:
    assert run(7) == run(7)


def test_the_seeds_meet_everything() -> None:
    """A cluster that never fails over, loses power or reads proves nothing."""
    outcomes = [run(seed) for seed in range(30)]
    assert sum(outcome.acked_count for outcome in outcomes) >= 2_000
    assert sum(outcome.read_count for outcome in outcomes) >= 2_000
    assert sum(outcome.election_count for outcome in outcomes) >= 100
    assert sum(outcome.transaction_count for outcome in outcomes) >= 40
    kinds = {kind for outcome in outcomes for kind in outcome.faults}
    assert kinds == {
        "kill",
        "power_cut",
        "wipe",
        "pause",
        "isolate",
        "cut_one_way",
        "slow_disk",
        "chase_leader",
        "chase_coordinator",
    }
    done = {kind for outcome in outcomes for kind in outcome.operations}
    assert done >= {"move", "move_coordinator", "moved", "cancel", "elect"}
    assert sum(outcome.offset_count for outcome in outcomes) >= 40
