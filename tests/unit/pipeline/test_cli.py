"""The command line: what is wrong is said at once, before any Java starts."""

from pathlib import Path

import pytest

from headrace.cli.main import run

WHERE = ("-b", "127.0.0.1:1", "--target", "hdfs://127.0.0.1:1/lake")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-b", "127.0.0.1:1", "-t", "x"), "--target is missing"),
        ((*WHERE,), "which topics"),
        ((*WHERE, "-t", "x", "--codec", "lzo"), "--codec"),
        ((*WHERE, "-t", "x", "--trigger", "soon"), "not a duration"),
        ((*WHERE, "-t", "x", "--file-size", "big"), "not a size"),
        (("--config", "nowhere.toml"), "no such file"),
        (("-b", "nowhere", "-t", "x", "--target", "hdfs://n:1/x"), "nowhere"),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_code_2(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "run", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "status", "verify"])
def test_a_broker_that_does_not_answer_is_a_sentence(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", command, *WHERE, "-t", "x"]) == 1
    told = capsys.readouterr().err
    assert "127.0.0.1:1" in told
    assert "Traceback" not in told


def test_a_bad_transformation_is_said_before_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "p.toml"
    config.write_text('sql = "SELECT 1"\ntransform = "a:b"\n')
    assert run(["pipeline", "run", "--config", str(config), *WHERE, "-t", "x"]) == 2
    assert "either --sql or --transform" in capsys.readouterr().err
