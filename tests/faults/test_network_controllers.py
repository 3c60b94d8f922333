"""The rows of `test_network` with the active controller as their victim, and with a follower.

Topics are created through every broker while the active controller is hurt; a node whose controller
is active is a broker, too, so that its partitions move along where it is hurt as a whole. Where the
fault is one of a line, it is that from the other controllers to it. A follower is a node that leads
no partition of the topic: the others acknowledge on, and go on leading.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.faults import network_faults as faults
from tests.faults.network_stage import CONTROLLER, FOLLOWER, Row, Stage, rounds_of, stage_of
from tests.faults.test_network import ROUNDS, ROUNDS_OF, ROWS
from tests.faults.test_replication import tell

ROUNDS_MAX = min(ROUNDS, 2)
OF_CONTROLLERS = {
    **{row: replace(each, configs={}) for row, each in ROWS.items() if row != "M1-reassigned"},
    "M1-voter-removed": Row(faults.voter_removed, takes_over=True),
    "W3-majority": Row(faults.slow_disk(3_000, is_majority=True), spell_s=12.0),
}
OF_FOLLOWERS = ("C1-kill", "C3-kill-at-a-sync", "S1-sleep", "N1-isolated", "M1-reassigned")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage_of(tmp_path_factory.mktemp("network"), "headrace") as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("row", OF_CONTROLLERS)
def test_a_row_of_the_active_controller(
    stage: Stage, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    rounds = min(ROUNDS_OF.get(row, ROUNDS_MAX), ROUNDS_MAX)
    line = rounds_of(stage, OF_CONTROLLERS[row], rounds, f"{row.lower()}-c", CONTROLLER)
    tell(capsys, f"{row}, the active controller", line)


@pytest.mark.long
@pytest.mark.parametrize("row", OF_FOLLOWERS)
def test_a_row_of_a_follower(stage: Stage, capsys: pytest.CaptureFixture[str], row: str) -> None:
    rounds = min(ROUNDS_OF.get(row, ROUNDS_MAX), ROUNDS_MAX)
    line = rounds_of(stage, ROWS[row], rounds, f"{row.lower()}-f", FOLLOWER)
    tell(capsys, f"{row}, a follower", line)
