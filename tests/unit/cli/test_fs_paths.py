"""What a PATH names before anybody is asked."""

import json
from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.cli import fs_look
from headrace.cli.fs_paths import absolute, absolute_target
from headrace.cli.main import run


@pytest.fixture(autouse=True)
def anna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "anna")
    monkeypatch.delenv("HEADRACE_FS", raising=False)


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("/a/b", "/a/b"),
        ("//a//b/", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/./b/.", "/a/b"),
        ("/..", "/"),
        ("a/../b", "/user/anna/b"),
        (".", "/user/anna"),
        ("/a/*/../b", "/a/b"),
        ("/{a/../b,c}", "/{a/../b,c}"),
        ("/a/{.,..}", "/a/{.,..}"),
        ("/.reserved/.inodes/17/..", "/.reserved/.inodes/17/.."),
        ("/.reserved/raw//a", "/.reserved/raw/a"),
        ("hdfs://host:8020/a/../b", "/b"),
        ("hdfs://host", "/"),
        ("hdfs:///a", "/a"),
    ],
)
def test_paths_are_resolved(path: str, whole: str) -> None:
    assert absolute(path) == whole


def test_a_slash_at_the_end_of_a_target_means_a_directory() -> None:
    assert absolute_target("/a//b/") == "/a/b/"
    assert absolute_target("/") == absolute_target("/..") == "/"
    assert absolute_target("b/") == "/user/anna/b/"


EMPTY = [
    ("rm", "-r", ""),
    ("rm", "/a", ""),
    ("cp", "/a", ""),
    ("mv", "/a", ""),
    ("mv", "", "/a"),
    ("put", "-", ""),
    ("get", ""),
    ("ls", ""),
    ("stat", ""),
    ("mkdir", ""),
    ("touch", ""),
    ("concat", "/a", ""),
    ("chmod", "-R", "700", ""),
    ("find", ""),
    ("du", ""),
    ("getfacl", ""),
    ("truncate", "0", ""),
]


@pytest.mark.parametrize("words", EMPTY, ids=" ".join)
def test_an_empty_path_is_wrong_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fs", *words, "--fs", "hdfs://127.0.0.1:1"]) == 2
    assert "an empty PATH names nothing" in capsys.readouterr().err


def test_names_have_no_colons() -> None:
    with pytest.raises(UsageError, match="may not contain ':'"):
        absolute_target("/a:b")


@pytest.fixture
def talks_to(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Whom `stat` would have talked to."""
    asked: list[str | None] = []

    def open_files(fs: str | None, _data: str | None) -> None:
        asked.append(fs)
        raise UsageError("asked")

    monkeypatch.setattr(fs_look, "open_files", open_files)
    return asked


def test_a_uri_names_the_file_system(
    talks_to: list[str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADRACE_FS", "hdfs://elsewhere:8020")
    assert run(["fs", "stat", "hdfs://host:9000/a"]) == 2
    assert run(["fs", "du", "/a", "hdfs://host/a", "hdfs://host:8020/b"]) == 2
    assert run(["fs", "stat", "hdfs://host:9000/a", "--fs", "host:9000"]) == 2
    (tmp_path / "cluster.json").write_text(json.dumps({"fs": "hdfs://host:1", "web": "x:2"}))
    assert run(["fs", "stat", "hdfs://host:1/a", "--data", str(tmp_path)]) == 2
    assert talks_to == ["hdfs://host:9000", "hdfs://host:8020", "host:9000", None]


@pytest.mark.parametrize(
    "words",
    [
        ("stat", "hdfs://other:1/a", "--fs", "hdfs://host:1"),
        ("stat", "--fs", "hdfs://host:1", "hdfs://other:1/a"),
        ("du", "hdfs://host:1/a", "hdfs://other:1/a"),
        ("stat", "file:///etc/passwd"),
    ],
    ids=" ".join,
)
def test_a_uri_of_another_file_system_is_refused(
    talks_to: list[str | None], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fs", *words]) == 2
    assert "give a path, and --fs" in capsys.readouterr().err
    assert talks_to == []
