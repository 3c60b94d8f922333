"""Hosts over a quorum, by seed: driver, log, snapshots and decisions through bad times and good."""

import os

import pytest

from headrace.testing.quorum.bugs import Bug
from headrace.testing.quorum.hosted_bugs import HOSTED_BUGS
from headrace.testing.quorum.hosted_world import EVENTS_MIN, FailedHostedSeed, run_hosted

LONG = range(25, 5_025) if "SHARD" in os.environ else range(25, 30)


@pytest.mark.parametrize("seed", range(25))
def test_hosted_seed(seed: int) -> None:
    outcome = run_hosted(seed)
    assert outcome.event_count >= EVENTS_MIN
    assert outcome.answered_count > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_long_hosted_seed(seed: int) -> None:
    assert run_hosted(seed).answered_count > 0


def test_a_hosted_seed_is_one_life() -> None:
    assert run_hosted(3) == run_hosted(3)


def test_the_hosted_seeds_meet_everything() -> None:
    outcomes = [run_hosted(seed) for seed in range(20)]
    assert sum(outcome.answered_count for outcome in outcomes) >= 1_000
    assert sum(outcome.read_count for outcome in outcomes) >= 500
    assert sum(outcome.lost_count for outcome in outcomes) >= 100
    assert sum(outcome.snapshot_count for outcome in outcomes) >= 50
    assert sum(outcome.install_count for outcome in outcomes) >= 5
    assert len({kind for outcome in outcomes for kind in outcome.faults}) >= 10


@pytest.mark.parametrize("bug", HOSTED_BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_hosted_bug_is_found(bug: Bug) -> None:
    failed = None
    with bug.switched_on():
        for seed in range(bug.seeds_max):
            try:
                run_hosted(seed)
            except FailedHostedSeed as found:
                failed = found
                break
    assert failed is not None, f"not found in {bug.seeds_max} seeds"
    assert failed.rule in bug.rules, failed
