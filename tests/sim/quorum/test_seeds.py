"""Whole lives of a quorum, by seed: checkers R1 to R12 after every event, liveness at the end.

A failure prints the seed, its rule, and the fewest events with which it still happens.
"""

import os
from functools import partial

import pytest

from headrace.testing.quorum.seeds import (
    EVENTS_MIN,
    LEADER_TIMEOUTS_MAX,
    FailedSeed,
    Outcome,
    build,
    run,
    shrink,
)
from headrace.testing.quorum.simulation import SETTINGS

KEPT = [8, 73, 130, 144, 1315, 1654, 4214, 5492, 6176, 6541, 7687]
"""Seeds that once failed."""


LONG = range(500, 50_500) if "SHARD" in os.environ else range(500, 510)
"""All of them under `make test-long` alone: fifty thousand tests take seconds to collect, which
nobody should wait for who is not going to run them."""


def live(seed: int) -> Outcome:
    try:
        return run(seed)
    except FailedSeed as failed:
        smallest = shrink(seed)
        pytest.fail(f"{failed}; at its smallest: {smallest}", pytrace=False)


@pytest.mark.parametrize("seed", range(500))
def test_seed(seed: int) -> None:
    outcome = live(seed)
    assert outcome.event_count >= EVENTS_MIN
    assert outcome.committed_count > 0
    assert outcome.leader_after_ms <= LEADER_TIMEOUTS_MAX * SETTINGS.election_timeout_ms


@pytest.mark.parametrize("seed", KEPT)
def test_kept_seed(seed: int) -> None:
    live(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_long_seed(seed: int) -> None:
    live(seed)


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_on_the_wire_is_the_same_life(seed: int) -> None:
    """Every message through the codec, in its newest version: nothing is lost on the way."""
    assert run(seed, build_world=partial(build, on_wire=True)) == run(seed)


def test_a_seed_is_one_life() -> None:
    assert run(7) == run(7)


def test_the_seeds_meet_everything() -> None:
    """A simulator that never truncates, installs or changes voters proves nothing about it."""
    outcomes = [run(seed) for seed in range(30)]
    assert sum(outcome.truncation_count for outcome in outcomes) >= 5
    assert sum(outcome.install_count for outcome in outcomes) >= 5
    assert sum(outcome.voter_change_count for outcome in outcomes) >= 20
    assert sum(outcome.election_count for outcome in outcomes) >= 100
    assert sum(outcome.acked_count for outcome in outcomes) >= 1_000
    kinds = {kind for outcome in outcomes for kind in outcome.faults}
    assert len(kinds) >= 16, kinds
