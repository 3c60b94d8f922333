"""The tester, tested: each mistake is found within the seeds that it states, by a rule it breaks."""

import pytest

from headrace.testing.quorum.bugs import BUGS, Bug
from headrace.testing.quorum.seeds import FailedSeed, run


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_bug_is_found(bug: Bug) -> None:
    with bug.switched_on():
        for seed in range(bug.seeds_max):
            try:
                run(seed)
            except FailedSeed as failed:
                assert failed.rule in bug.rules, failed
                return
    pytest.fail(f"{bug.name} is not found in {bug.seeds_max} seeds")


def test_a_bug_is_switched_off_again() -> None:
    for bug in BUGS:
        before = [owner.__dict__[name] for owner, name, _ in bug.patches()]
        with bug.switched_on():
            pass
        assert [owner.__dict__[name] for owner, name, _ in bug.patches()] == before


def test_every_rule_but_one_is_the_first_to_find_some_bug() -> None:
    """R8 is what the others protect: it has no mistake of its own to break it first."""
    rules = set().union(*(bug.rules for bug in BUGS))
    assert rules == {f"R{number}" for number in range(1, 13)} - {"R8"}
