"""Failures as sentences, and which of them no restart helps."""

from pathlib import Path

import pytest

from headrace.pipeline import java
from headrace.pipeline.errors import DataLost
from headrace.pipeline.failures import is_final, sentence

IN_JAVA = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
Traceback (most recent call last):
  File "flush.py", line 1, in x
headrace.pipeline.{name}: {text}

\tat org.apache.spark.api.python.Something(x.scala:1)
"""


def test_the_sentence_is_what_the_task_said() -> None:
    text = IN_JAVA.format(name="target_files.FilesError", text="/lake/x: no space left")
    assert sentence(RuntimeError(text)) == "/lake/x: no space left"
    assert not is_final(RuntimeError(text))


def test_lost_data_is_final_also_as_text() -> None:
    text = IN_JAVA.format(name="errors.DataLost", text="data of topic t is lost")
    assert is_final(RuntimeError(text))
    assert is_final(DataLost("t", 0, 1, 2, "gone"))


def test_a_failure_without_words_has_a_name() -> None:
    assert sentence(ValueError()) == "ValueError"
    assert sentence(RuntimeError("\n first\nsecond")) == "first"


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    tool = folder / "bin" / "java"
    tool.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    tool.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "is_taken"), [("21.0.1", True), ("11.0.2", False)])
def test_java_home_is_taken_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_taken: bool
) -> None:
    home = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    found = java.find_java()
    assert (found.home == home) is is_taken
    assert found.is_bundled is not is_taken


def test_the_launch_names_what_every_runtime_has() -> None:
    command = java._command(java.Java(Path("/j"), is_bundled=True), {"spark.master": "local[2]"})
    assert command[0] == "/j/bin/java"
    assert "spark.master=local[2]" in command
    assert not [word for word in command if "incubator" in word]
