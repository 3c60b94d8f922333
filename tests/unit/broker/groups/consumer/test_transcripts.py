"""Golden transcripts of consumer groups: what members are told, line by line.

`REWRITE=1 pytest …/test_transcripts.py` writes the files anew, for the difference to be read.
"""

from pathlib import Path

import pytest
from tests.unit.broker.groups.consumer.scenario import Scenario
from tests.unit.broker.groups.golden import check

FOLDER = Path(__file__).parent / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_transcript(name: str) -> None:
    check(FOLDER / f"{name}.txt", Scenario().run)


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
