"""Hosts over a quorum, by seed: driver, log, snapshots and decisions through bad times and good."""

import os

import pytest

from headrace.quorum.log_view import LogView
from headrace.testing.quorum.bugs import Bug
from headrace.testing.quorum.hosted_bugs import HOSTED_BUGS
from headrace.testing.quorum.hosted_node import Counted
from headrace.testing.quorum.hosted_world import (
    EVENTS_MIN,
    FailedHostedSeed,
    HostedWorld,
    run_hosted,
)
from headrace.testing.quorum.network import Weather

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


@pytest.mark.parametrize("seed", range(12))
def test_hosted_seed_with_damaged_ends(seed: int) -> None:
    """A voter that lost the end of its log helps nobody to forget what it had."""
    assert run_hosted(seed, damages=True).answered_count > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12, 400) if "SHARD" in os.environ else range(12, 60))
def test_long_hosted_seed_with_damaged_ends(seed: int) -> None:
    assert run_hosted(seed, damages=True).answered_count > 0


def test_damaged_ends_are_met() -> None:
    outcomes = [run_hosted(seed, damages=True) for seed in range(6)]
    assert sum(outcome.faults.get("damage", 0) for outcome in outcomes) >= 5


def test_lost_ends_that_nobody_notices_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that the note is there against: a shortened log votes as if it were whole."""
    monkeypatch.setattr(LogView, "note_past", lambda _log, _had: None)
    failed = None
    for seed in range(40):
        try:
            run_hosted(seed, damages=True)
        except FailedHostedSeed as found:
            failed = found
            break
    assert failed is not None, "not found in 40 seeds"
    assert failed.rule in {"H1", "H2", "H4", "H5"}, failed


def test_a_damaged_voter_and_one_that_lags_do_not_forget_what_the_third_has() -> None:
    """An entry is on 1 and 2 alone, 2 loses it, 1 is away: nobody leads until 1 is back."""
    world = HostedWorld(5, voter_count=3, observer_count=0, weather=Weather())
    world.start_all()
    assert world.run_until(lambda: world.active() is not None, 10_000)
    leader = world.active()
    assert leader is not None
    second, third = [node for node in world.nodes.values() if node is not leader]
    third.stop(power_cut=False)
    answered = []
    leader.host.submit(lambda state: ([Counted(state.value + 1, 77)], "done")).then(answered.append)
    leader.schedule_syncs()
    assert world.run_until(lambda: bool(answered), 10_000)
    assert answered[0].value() == "done"
    leader.stop(power_cut=False)
    second.stop(power_cut=False)
    end_offset = second.replica.disk.log.log_end_offset
    while second.replica.disk.log.log_end_offset >= end_offset:
        second.lose_end()
        second.start()
        second.stop(power_cut=False)
    second.start()
    third.start()
    world.run_until(lambda: False, 30_000)
    assert world.active() is None, "what was answered is forgotten"
    assert second.replica.node.log.had is not None
    leader.start()
    assert world.run_until(
        lambda: all(77 in node.host.committed.decision_ids for node in world.nodes.values()), 30_000
    )
    assert second.replica.node.log.had is None
    assert second.replica.node.may_lead
