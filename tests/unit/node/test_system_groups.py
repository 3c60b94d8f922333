"""Groups of users: remembered for a minute, or until an operator says otherwise."""

import pytest

from headrace.node import system_groups
from headrace.node.system_groups import SystemGroups
from headrace.testing.clock import SimulatedClock


def test_they_are_looked_up_again_after_a_minute_and_when_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def look(user: str) -> tuple[str, ...]:
        asked.append(user)
        return (f"group-{len(asked)}",)

    monkeypatch.setattr(system_groups, "_system_groups", look)
    clock = SimulatedClock()
    groups = SystemGroups(clock)
    assert [groups("anna"), groups("anna")] == [("group-1",)] * 2
    groups.forget()
    assert groups("anna") == ("group-2",)
    clock.advance(60_001)
    assert groups("anna") == ("group-3",)
