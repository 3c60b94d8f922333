"""The tester, tested: each mistake is found within the seeds it states, by a rule it breaks."""

import pytest

from headrace.testing.quorum.bugs import BUGS, Bug
from headrace.testing.quorum.seeds import FailedSeed, run, shrink


def first_failure(seeds: range) -> FailedSeed | None:
    for seed in seeds:
        try:
            run(seed)
        except FailedSeed as failed:
            return failed
    return None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_bug_is_found(bug: Bug) -> None:
    with bug.switched_on():
        failed = first_failure(range(bug.seeds_max))
    assert failed is not None, f"not found in {bug.seeds_max} seeds"
    assert failed.rule in bug.rules, failed


def test_a_bug_is_switched_off_again() -> None:
    for bug in BUGS:
        before = [owner.__dict__[name] for owner, name, _ in bug.patches()]
        with bug.switched_on():
            pass
        assert [owner.__dict__[name] for owner, name, _ in bug.patches()] == before


def test_every_rule_finds_some_bug() -> None:
    rules = set().union(*(bug.rules for bug in BUGS))
    assert rules == {f"R{number}" for number in range(1, 13)}


def test_a_failing_seed_is_shrunk_to_the_same_failure() -> None:
    bug = next(bug for bug in BUGS if bug.name == "a lost voter votes")
    with bug.switched_on():
        failed = first_failure(range(bug.seeds_max))
        assert failed is not None
        smallest = shrink(failed.seed)
    assert smallest is not None
    assert smallest.rule == failed.rule
    assert smallest.event_count <= failed.event_count
