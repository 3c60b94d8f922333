"""Copies here: what a file is called until it is whole."""

import os
from pathlib import Path

import pytest

from headrace.cli.fs_copy import local_file


def test_a_file_that_comes_in_touches_no_other(tmp_path: Path) -> None:
    (tmp_path / "f.part").write_text("mine")
    with local_file(tmp_path / "f") as one, local_file(tmp_path / "f") as other:
        one.write(b"one")
        other.write(b"other")
        assert not (tmp_path / "f").exists(), "no name before it is whole"
    assert (tmp_path / "f").read_text() == "one", "the last one to be whole"
    assert (tmp_path / "f.part").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["f", "f.part"]


def test_a_file_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    with pytest.raises(KeyboardInterrupt), local_file(tmp_path / "f") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").read_text() == "old"


def test_a_file_that_came_in_has_the_rights_of_any_new_one(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with local_file(tmp_path / "f"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640
