"""`headrace consume`: what is not as asked for is said, and damage is not printed."""

import pytest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.fake_log import Log, batch

from headrace.cli.main import run

Capture = pytest.CaptureFixture[str]


def test_a_damaged_batch_is_a_failure(broker: FakeBroker, capsys: Capture) -> None:
    flipped = bytearray(batch(2, 2))
    flipped[-10] ^= 0x01
    Log(broker, [batch(0, 2), bytes(flipped)], 0, 4)
    assert run(["consume", "events", "-b", broker.address, "--until-end"]) == 1
    said = capsys.readouterr()
    assert said.out.split() == ["0", "1"]
    assert "topic events, partition 0: the batch at offset 2 is damaged" in said.err


@pytest.mark.parametrize(
    ("asked", "printed", "note"),
    [
        ("0", ["5", "6"], "events-0 begins at offset 5"),
        ("6", ["6"], None),
        ("99", [], "events-0 ends at offset 7, before 99"),
    ],
)
def test_an_offset_outside_the_log_moves_to_its_edge(
    broker: FakeBroker, capsys: Capture, asked: str, printed: list[str], note: str | None
) -> None:
    Log(broker, [batch(5, 2)], 5, 7)
    assert run(["consume", "events", "-b", broker.address, "--from", asked, "-e"]) == 0
    said = capsys.readouterr()
    assert said.out.split() == printed
    assert note in said.err if note else said.err == ""
