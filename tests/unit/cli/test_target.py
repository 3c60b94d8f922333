"""Which cluster a command means."""

import json
import time
from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.cli.main import run
from headrace.cli.settings import parse_settings
from headrace.cli.target import BOOTSTRAP_VARIABLE, DEFAULT_DATA, bootstrap_of


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BOOTSTRAP_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)


def cluster(directory: Path, servers: str) -> str:
    directory.mkdir(exist_ok=True)
    (directory / "cluster.json").write_text(json.dumps({"bootstrap_servers": servers}))
    return str(directory)


def test_the_flag_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "env:1")
    data = cluster(tmp_path / "c", "data:1")
    assert bootstrap_of("flag:1", None) == "flag:1"
    assert bootstrap_of(None, data) == "data:1"
    assert bootstrap_of(None, None) == "env:1"


def test_the_default_directory_is_the_last_resort(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which cluster"):
        bootstrap_of(None, None)
    cluster(tmp_path / DEFAULT_DATA, "here:1")
    assert bootstrap_of(None, None) == "here:1"


def test_a_broker_that_runs_alone_is_found(tmp_path: Path) -> None:
    (tmp_path / "broker.json").write_text(json.dumps({"pid": 1, "listen": "127.0.0.1:7"}))
    assert bootstrap_of(None, str(tmp_path)) == "127.0.0.1:7"


def test_wrong_directories_are_explained(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(UsageError, match="can't be read"):
        bootstrap_of(None, str(tmp_path))
    (tmp_path / "cluster.json").write_text("[]")
    with pytest.raises(UsageError, match="JSON object"):
        bootstrap_of(None, str(tmp_path))
    with pytest.raises(UsageError, match="not both"):
        bootstrap_of("a:1", str(tmp_path))


def test_a_cluster_that_is_not_up_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topic", "list", "--data", str(tmp_path)]) == 1
    assert "no cluster is up" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headrace.client.cluster.TROUBLE_AFTER_MS", 100)
    monkeypatch.setattr("headrace.cli.target.PATIENCE_MS", 500)
    for words in (["topic", "list"], ["produce", "t"], ["consume", "t", "--timeout", "0.4"]):
        started_s = time.monotonic()
        assert run([*words, "-b", "127.0.0.1:1"]) == 1
        assert time.monotonic() - started_s < 5
        said = capsys.readouterr().err
        assert said.count("still trying 127.0.0.1:1 …") == 1
        assert f"gave up after {words[-1] if words[0] == 'consume' else 0.5} s" in said


def test_settings() -> None:
    assert parse_settings(None) == {}
    assert parse_settings(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1", ""):
        with pytest.raises(UsageError, match="KEY=VALUE"):
            parse_settings([wrong])
