"""Files and folders here: what of them is copied, what a file is called until it is whole."""

import os
from pathlib import Path

import pytest

from headrace.cli.fs_failures import Failures
from headrace.cli.fs_local import local_file, local_tree


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
    file = local_file(tmp_path / "f")
    file.__enter__().write(b"half")
    assert not file.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
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


def test_what_of_a_folder_is_not_copied_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / "sub/f").write_text("f")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "sub")
    (tmp_path / "nothing").symlink_to("gone")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "sub/deep/up").symlink_to(tmp_path / "sub")
    (tmp_path / "sub/link").symlink_to("f")
    os.mkfifo(tmp_path / "pipe")
    failures = Failures()
    names = [str(path.relative_to(tmp_path)) for path in local_tree(tmp_path, failures)]
    assert names == [
        "elsewhere",
        "elsewhere/deep",
        "elsewhere/f",
        "elsewhere/link",
        "sub",
        "sub/deep",
        "sub/f",
        "sub/link",
    ]
    assert failures.exit_code == 1
    assert capsys.readouterr().err.splitlines() == [
        f"headrace: {tmp_path}/elsewhere/deep/up: is a symbolic link to a folder that it is in",
        f"headrace: {tmp_path}/nothing: is a symbolic link to gone, and nothing is there",
        f"headrace: {tmp_path}/pipe: is neither a file nor a folder",
        f"headrace: {tmp_path}/self: too many levels of symbolic links",
        f"headrace: {tmp_path}/sub/deep/up: is a symbolic link to a folder that it is in",
    ]
