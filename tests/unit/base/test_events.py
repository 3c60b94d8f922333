"""One line an event, whatever is in it."""

import pytest

from headrace.base.events import EventLog
from headrace.testing.clock import SimulatedClock


def log(level: str = "info") -> tuple[list[str], EventLog]:
    lines: list[str] = []
    return lines, EventLog(lines.append, SimulatedClock(1_700_000_000_123), level)


def test_a_line_has_its_time_level_event_and_fields() -> None:
    lines, events = log()
    events.info("connection_closed", peer="127.0.0.1:9", reason="closed by peer", count=3)
    assert lines == [
        "time=2023-11-14T22:13:20.123Z level=info event=connection_closed "
        'peer=127.0.0.1:9 reason="closed by peer" count=3\n'
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", '""'),
        ("plain", "plain"),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("two\nlines", '"two\\nlines"'),
        ("\r\x00\x1b[31m", '"\\r\\x00\\x1b[31m"'),
        ("tür", "tür"),
        ("\u2028", '"\\u2028"'),
        (None, "None"),
        (b"\xff", "b'\\xff'"),
    ],
)
def test_a_value_never_breaks_its_line(value: object, shown: str) -> None:
    lines, events = log()
    events.warning("e", v=value)
    (line,) = lines
    assert line.endswith(f" v={shown}\n")
    assert line.count("\n") == 1


def test_levels_below_the_wanted_one_are_silent() -> None:
    for level, expected in (
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("error", ["error"]),
    ):
        lines, events = log(level)
        for name in ("debug", "info", "warning", "error"):
            getattr(events, name)("e")
        assert [line.split()[1] for line in lines] == [f"level={name}" for name in expected]


def test_bound_fields_come_first_on_every_line() -> None:
    lines, events = log()
    bound = events.bind(node=1).bind(peer="a b")
    bound.error("x", why="y")
    events.error("z")
    assert lines[0].endswith(' event=x node=1 peer="a b" why=y\n')
    assert lines[1].endswith(" event=z\n")
