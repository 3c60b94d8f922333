"""Golden transcripts of classic groups: whole conversations, line by line.

`REWRITE=1 pytest …/test_transcripts.py` writes the files anew, for the difference to be read.
"""

from pathlib import Path

import pytest
from tests.unit.broker.groups.classic.scenario import Scenario
from tests.unit.broker.groups.golden import check

FOLDER = Path(__file__).parent / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_transcript(name: str) -> None:
    check(FOLDER / f"{name}.txt", Scenario().run)


def test_all_named_scenarios_are_there() -> None:
    assert set(NAMES) >= {
        "cooperative",
        "deadlines",
        "eager",
        "fencing",
        "impatience",
        "limits",
        "offsets",
        "protocols",
        "reload",
        "resubscribed",
        "silence",
        "start",
        "static",
    }
