"""Groups of users: remembered for a minute, or until an operator says otherwise."""

import pwd

import pytest

from headrace.node.system_groups import SystemGroups
from headrace.testing.clock import SimulatedClock


def test_they_are_looked_up_again_after_a_minute_and_when_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def look(user: str) -> None:
        asked.append(user)
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwnam", look)
    clock = SimulatedClock()
    groups = SystemGroups(clock)
    assert [groups("anna"), groups("anna")] == [()] * 2
    assert len(asked) == 1
    groups.forget()
    groups("anna")
    assert len(asked) == 2
    clock.advance(60_001)
    groups("anna")
    assert asked == ["anna"] * 3
