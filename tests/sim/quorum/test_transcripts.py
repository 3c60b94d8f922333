"""Golden transcripts of named scenarios: what a quorum does, line by line.

A change of behaviour shows as a difference to be read. `REWRITE=1 pytest …/test_transcripts.py`
writes the files anew.
"""

import os
from pathlib import Path

import pytest

from headrace.testing.quorum.scenario import perform

FOLDER = Path(__file__).parent / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_transcript(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    expected = path.read_text()
    transcript = perform(expected)
    if os.environ.get("REWRITE"):
        path.write_text(transcript)
    else:
        assert transcript == expected


def test_all_named_scenarios_are_there() -> None:
    assert set(NAMES) >= {
        "divergence",
        "election",
        "kafka_12460",
        "kafka_15489",
        "leader_isolated",
        "pre_vote",
        "snapshot",
        "voters",
    }
