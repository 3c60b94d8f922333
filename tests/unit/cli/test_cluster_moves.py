"""What `headrace cluster rebalance` shows while it waits: a bar on a terminal, else sentences."""

import io
import sys

import pytest
from rich.console import Console

from headrace.cli import cluster_moves
from headrace.cli.cluster_moves import _Screen, _watcher


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_for(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """stderr is one from now on; rich draws for it whatever the tests run in."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **_: Console(file=made, force_terminal=True, width=120, _environ={"TERM": "xterm"}),
    )
    return made


def test_a_terminal_gets_a_bar_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, screen = terminal_for(monkeypatch), _Screen()
    screen.on_begun(1_000, 2)
    screen.on_progress(400, 2)
    screen.on_progress(300, 2)  # sizes may shrink: a bar never goes back
    screen.close()
    drawn = terminal.getvalue()
    assert "moving 2 partitions" in drawn
    assert drawn.index("0/1000") < drawn.index("400/1000")
    assert "300/1000" not in drawn
    assert "bytes," not in drawn, "sentences are for pipes"
    shown, hidden = drawn.count("\x1b[?25l"), drawn.count("\x1b[?25h")
    assert shown == hidden == 1, "the cursor is back"


def test_a_second_plan_gets_a_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, screen = terminal_for(monkeypatch), _Screen()
    screen.on_begun(1_000, 2)
    screen.on_progress(1_000, 0)
    screen.on_begun(500, 1)
    screen.on_progress(500, 0)
    screen.close()
    screen.close()
    drawn = terminal.getvalue()
    assert drawn.index("moving 2 partitions") < drawn.index("moving 1 partitions")
    assert "500/500" in drawn
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") == 2


def test_a_pipe_gets_a_sentence_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(cluster_moves.time, "monotonic", lambda: now_s)
    with _watcher() as screen:
        screen.on_begun(1_000, 2)
        for now_s in (1.0, 9.0, 10.0, 11.0, 19.0, 20.5):
            screen.on_progress(int(now_s * 10), 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "100 of 1000 bytes, 2 partitions to go",
        "205 of 1000 bytes, 2 partitions to go",
    ]


def test_who_stops_it_is_told_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> None:
        with _watcher() as screen:
            screen.on_begun(1_000, 2)
            screen.on_throttle_left()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    said = capsys.readouterr().err
    assert "go on, throttled: run this again" in said
    assert "moves that were begun go on; run this again" in said


def test_a_throttle_of_an_earlier_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _Screen().on_throttle_found()
    assert capsys.readouterr().err == "a throttle that an earlier run had left is lifted\n"
