"""The rules at a life's end, on planted violations."""

import pytest

from headrace.testing.cluster_simulation.transaction_rules import judge_flow, judge_offset
from headrace.testing.cluster_simulation.transactors import Fate, Transaction
from headrace.testing.quorum.violation import Violation

KEY = (b"t", 0)


def transaction(name: bytes, *read: bytes, offset: int = -1) -> Transaction:
    """It writes its name and `!`."""
    return Transaction(name, {KEY: [name + b"!"]}, Fate.COMMITTED, list(read), offset)


def test_transactions_that_read_from_each_other_are_a_circle() -> None:
    made = [transaction(b"a", b"c!"), transaction(b"b", b"a!"), transaction(b"c", b"b!")]
    with pytest.raises(Violation, match="a → b → c → a") as told:
        judge_flow(made)
    assert told.value.rule == "L9"


def test_one_after_the_other_is_none() -> None:
    judge_flow([transaction(b"a", b"x"), transaction(b"b", b"a!"), transaction(b"c", b"a!", b"b!")])


@pytest.mark.parametrize("found", [-1, 1, 3])
def test_a_groups_offset_is_that_of_the_last_transaction_that_is_seen(found: int) -> None:
    made = [transaction(b"a", offset=1), transaction(b"b", offset=2), transaction(b"c", offset=3)]
    known = {KEY: {b"a!", b"b!"}}
    judge_offset(made, known, 2)
    with pytest.raises(Violation) as told:
        judge_offset(made, known, found)
    assert told.value.rule == "L8"
