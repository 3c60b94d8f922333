"""Golden transcripts of consumer groups: what members are told, line by line.

A change of behaviour shows as a difference to be read. `REWRITE=1 pytest …/test_transcripts.py`
writes the files anew.
"""

import os
from pathlib import Path

import pytest
from tests.unit.broker.groups.consumer.scenario import perform

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
        "conversion",
        "fencing",
        "interval",
        "patterns",
        "range",
        "revocation",
        "static",
        "topics",
    }
