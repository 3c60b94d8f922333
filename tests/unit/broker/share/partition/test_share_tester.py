"""Bugs planted in the share-partition, each of which the state machine must find."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.unit.broker.share.partition.test_share_stateful import ShareHistory

from headrace.broker.share.partition.acquiring import Acquiring
from headrace.broker.share.partition.runs import Run
from headrace.broker.share.partition.share_partition import SharePartition
from headrace.broker.share.partition.states import RecordState

pytestmark = pytest.mark.long

Plant = Callable[[pytest.MonkeyPatch], None]


def never_spent(patch: pytest.MonkeyPatch) -> None:
    """The delivery limit is forgotten."""
    patch.setattr(SharePartition, "_is_spent", lambda *_: False)


def eager_start(patch: pytest.MonkeyPatch) -> None:
    """The start moves over records whose end is not kept yet."""

    def advance(self: Any) -> None:
        start = self.start_offset
        for run in self._runs:
            if not run.will_be.is_terminal:
                break
            start = run.last + 1
        self._runs.drop_before(start)
        self.start_offset = start

    patch.setattr(SharePartition, "_advance", advance)


def pending_is_available(patch: pytest.MonkeyPatch) -> None:
    """What is released may be had before that is kept."""
    patch.setattr(Run, "is_available", property(lambda run: run.will_be is RecordState.AVAILABLE))


def anybody_acknowledges(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at who holds a record."""
    acknowledge = SharePartition.acknowledge

    def blind(self: Any, member_id: str, batches: Any, lock_until_ms: int) -> Any:
        holders = {run.member_id for run in self.runs() if run.is_held}
        for each in [member_id, *sorted(holders)]:
            change = acknowledge(self, each, batches, lock_until_ms)
            if not isinstance(change, int):
                return change
        return change

    patch.setattr(SharePartition, "acknowledge", blind)


def failed_writes_count(patch: pytest.MonkeyPatch) -> None:
    """A failed write is taken for a good one."""
    patch.setattr(SharePartition, "on_write_failed", SharePartition.on_written)


def holes_are_skipped(patch: pytest.MonkeyPatch) -> None:
    """What the log lacks is passed over without a word: the window has a hole."""

    def pass_over(self: Any, last: int) -> None:
        self._cursor = last + 1
        self.next_offset = max(self.next_offset, last + 1)

    patch.setattr(Acquiring, "_pass_over", pass_over)


def states_are_not_written(patch: pytest.MonkeyPatch) -> None:
    """Only the start is kept."""
    patch.setattr(SharePartition, "_kept", lambda *_: iter(()))


@pytest.mark.parametrize(
    "plant",
    [
        never_spent,
        eager_start,
        pending_is_available,
        anybody_acknowledges,
        failed_writes_count,
        holes_are_skipped,
        states_are_not_written,
    ],
)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    once = settings(
        max_examples=300,
        stateful_step_count=50,
        deadline=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, StopIteration, KeyError)):
        run_state_machine_as_test(ShareHistory, settings=once)
