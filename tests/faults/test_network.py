"""Nodes behind a network that is cut, deaf, mute, lossy or slow, and nodes that die or sleep, under
a load of acks=all.

The rows have the names of docs/TESTING.md, and the leader of a partition as their victim; with
others they are run in `test_network_controllers`. How a run goes and what is judged is told in
`network_stage`.

A round whose fault struck nothing, or after which nobody else took over where somebody should, is
void, and fails. Each run prints one line of counts. `HEADRACE_REPLICATION_ROUNDS` says how many
rounds a long row has; N1, a leader that is cut off, has 20 at least. The real Kafka is the control,
one round a row.
"""

import os
from collections.abc import Iterator

import pytest
from tests.faults import network_faults as faults
from tests.faults.network_stage import (
    LEADER,
    Row,
    Stage,
    rounds_of,
    stage_of,
)
from tests.faults.test_replication import tell
from tests.interop.conftest import TARGETS

ROUNDS = int(os.environ.get("HEADRACE_REPLICATION_ROUNDS", "5"))
ROUNDS_OF = {
    "N1-isolated": max(ROUNDS, 20),
    **dict.fromkeys(("C3-kill-at-a-sync", "C3-kill-at-a-rename", "C3-kill-all-at-a-sync"), 1),
    **dict.fromkeys(("S1-sleep-30s", "W3-3s", "W3-30s"), 1),
}
"""Rows with more of them: a leader that is cut off and writes on is what replication is for. And
with less, where one takes a minute."""

SYNCED = {"flush.messages": "1"}
"""Else a leader syncs nothing for minutes."""
ROWS: dict[str, Row] = {
    "C1-kill": Row(faults.killed, takes_over=True),
    "C2-kill-all": Row(faults.all_killed),
    "C2-majority": Row(faults.majority_restarted),
    "C3-kill-at-a-sync": Row(faults.killed_at(faults.SYNCS), takes_over=True),
    "C3-kill-at-a-rename": Row(faults.killed_at(faults.RENAMES), takes_over=True),
    "C3-kill-all-at-a-sync": Row(faults.all_killed_at(faults.SYNCS)),
    "M1-reassigned": Row(faults.killed_while_removed, takes_over=True),
    "S1-sleep": Row(faults.asleep(), takes_over=True),
    "S1-sleep-3s": Row(faults.asleep(3.0), spell_s=3.0),
    "S1-sleep-30s": Row(faults.asleep(30.0), takes_over=True, spell_s=30.0),
    "W3-300ms": Row(faults.slow_disk(300), configs=SYNCED),
    "W3-3s": Row(faults.slow_disk(3_000), spell_s=12.0, configs=SYNCED),
    "W3-30s": Row(faults.slow_disk(30_000), spell_s=40.0, configs=SYNCED),
    "N1-isolated": Row(faults.isolated, takes_over=True),
    "N2-deaf": Row(faults.deaf, takes_over=True),
    "N2-mute": Row(faults.mute, takes_over=True),
    "N3-half-cut": Row(faults.half_cut, keeps_epoch=True),
    "N4-clients-cut": Row(faults.clients_cut, keeps_epoch=True),
    "N5-swizzled": Row(faults.swizzled),
    "N6-loss-10": Row(faults.lossy(10)),
    "N6-loss-30": Row(faults.lossy(30)),
    "N6-75ms": Row(faults.delayed),
    "N6-256-kbit": Row(faults.narrow),
    "N7-reset": Row(faults.reset),
    "N7-cut-in-frames": Row(faults.cut_in_frames, keeps_epoch=True),
    "N7-half-open": Row(faults.half_open, keeps_epoch=True),
    "N7-out-of-descriptors": Row(faults.out_of_descriptors),
    "N8-corrupted": Row(faults.corrupted),
}


@pytest.fixture(scope="module", params=TARGETS)
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with stage_of(tmp_path_factory.mktemp("network"), str(request.param)) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_a_row(stage: Stage, capsys: pytest.CaptureFixture[str], row: str) -> None:
    rounds = 1 if stage.is_control else ROUNDS_OF.get(row, ROUNDS)
    line = rounds_of(stage, ROWS[row], rounds, row.lower(), LEADER)
    tell(capsys, f"{row}, {'the real Kafka' if stage.is_control else 'headrace'}", line)
