"""Golden transcripts of share groups: whole conversations with a broker, line by line.

`REWRITE=1 pytest …/test_transcripts.py` writes the files anew, for the difference to be read.
"""

from pathlib import Path

import pytest
from tests.unit.broker.groups.golden import check
from tests.unit.broker.share.scenario import Scenario

FOLDER = Path(__file__).parent / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_transcript(name: str) -> None:
    check(FOLDER / f"{name}.txt", Scenario().run)


def test_all_named_scenarios_are_there() -> None:
    assert set(NAMES) >= {
        "delivery",
        "fencing",
        "locks",
        "membership",
        "redelivery",
        "restart",
        "sessions",
        "starts",
    }
