"""The tester, tested: each mistake is found within the seeds it states, by a rule it breaks."""

import pytest

from headrace.testing.cluster_simulation.bugs import BUGS, FIRST_SEED
from headrace.testing.cluster_simulation.seeds import FailedSeed, run
from headrace.testing.quorum.bugs import Bug


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
        first = FIRST_SEED.get(bug.name, 0)
        failed = first_failure(range(first, first + bug.seeds_max))
    assert failed is not None, f"not found in {bug.seeds_max} seeds"
    assert failed.rule in bug.rules, failed


def test_a_bug_is_switched_off_again() -> None:
    for bug in BUGS:
        before = [owner.__dict__[name] for owner, name, _ in bug.patches()]
        with bug.switched_on():
            pass
        assert [owner.__dict__[name] for owner, name, _ in bug.patches()] == before
