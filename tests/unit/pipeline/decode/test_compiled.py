"""Where machine code is kept, and that workers share it."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from headrace.pipeline.decode.compiled import cache_folder, compiling, is_likely_compiled

NAMES = ("NUMBA_CACHE_DIR", "HEADRACE_CACHE_DIR", "XDG_CACHE_HOME")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_the_folder_is_the_first_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "headrace" / "numba"
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "ours"))
    assert cache_folder() == tmp_path / "ours" / "numba"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert cache_folder() == tmp_path / "numba"
    assert cache_folder().is_dir()


def test_a_folder_that_can_not_be_made_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(file))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "headrace" / "numba"


def test_compiled_is_what_is_newer_than_the_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not is_likely_compiled()
    (tmp_path / "decode").mkdir()
    index = tmp_path / "decode" / "kernels.parse.nbi"
    index.touch()
    assert is_likely_compiled()
    os.utime(index, (1, 1))
    assert not is_likely_compiled(), "the kernels were written since"


def test_other_code_keeps_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    with compiling():
        assert str(tmp_path / "numba") == numba.config.CACHE_DIR  # type: ignore[attr-defined]
    assert before == numba.config.CACHE_DIR  # type: ignore[attr-defined]


@pytest.mark.long
def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    program = (
        "import headrace.pipeline.decode.kernels as k\n"
        "print(sum(sum(f.stats.cache_misses.values()) for f in (k.parse, k.copy)))"
    )
    environment = {**os.environ, "HEADRACE_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    misses = sorted(int(process.communicate(timeout=300)[0]) for process in processes)
    assert misses == [0, 0, 2]
