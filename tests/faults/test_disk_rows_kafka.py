"""The rows of `test_disk_rows` on the real Kafka, with the leader of a partition as their victim:
the control, one cell a row. What they find on Kafka is a mistake of the harness.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.faults.disk_faults import DiskStage
from tests.faults.network_stage import LEADER, rounds_of
from tests.faults.test_disk_rows import DISKS, LOGS, disk_stage
from tests.faults.test_replication import tell
from tests.interop.conftest import control

ROWS = {
    **DISKS,
    **{row: LOGS[row] for row in ("B1-flip", "B2-cut", "B3-zeros", "B4-delete")},
    # It syncs no record by itself.
    "W2-eio-sync": replace(DISKS["W2-eio-sync"], configs={"flush.messages": "1"}),
    # And goes on leading what its followers can't read.
    "W2-eio-read": replace(DISKS["W2-eio-read"], takes_over=False, spell_s=8.0),
}

pytestmark = control


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskStage]:
    with disk_stage(tmp_path_factory.mktemp("disks"), "kafka") as made:
        yield made


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_a_leader_of_kafka(
    stage: DiskStage, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    line = rounds_of(stage, ROWS[row], 1, row.lower(), LEADER)
    tell(capsys, f"{row}, the real Kafka", line)
