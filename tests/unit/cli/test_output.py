"""Tables in a pipe are whole and aligned; progress is silent there."""

import pytest

from headrace.cli.output import print_json, print_table, progress


def test_a_table_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count"), [("a", 1), ("long" * 50, None)])
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.split() == ["NAME", "COUNT"]
    assert second.index("1") == first.index("COUNT")
    assert third == "long" * 50


def test_a_name_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count"), [("a\nb\tc\x1b[2Jä\udcff", 1)])
    _, line = capsys.readouterr().out.splitlines()
    assert line == "a\\nb\\tc\\x1b[2Jä\\udcff  1"


def test_json_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": ["ä"]})
    assert capsys.readouterr().out == '{"a": ["ä"]}\n'


def test_progress_in_a_pipe_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("working", total=2) as shown:
        shown.advance()
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
