"""The long tests' shards: disjoint, complete, and resumed where they stopped."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
NAMES = [f"tests/sim/test_log.py::test_crash[{seed}]" for seed in range(200)]


@pytest.fixture(scope="module")
def shards() -> Any:
    spec = importlib.util.spec_from_file_location("shards", ROOT / "tools" / "shards.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["shards"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shards"]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_test_is_in_exactly_one_shard(shards: Any, count: int) -> None:
    parts = [shards.Shard.parse(f"{index}/{count}") for index in range(1, count + 1)]
    for name in NAMES:
        assert sum(part.holds(name) for part in parts) == 1


def test_no_shard_is_the_whole(shards: Any) -> None:
    assert all(shards.Shard.parse("").holds(name) for name in NAMES)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_wrong_shard_is_refused_with_its_text(shards: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        shards.Shard.parse(text)


def test_what_passed_before_is_left_out(shards: Any, tmp_path: Path) -> None:
    memory = tmp_path / "passed"
    memory.write_text(NAMES[0] + "\n" + NAMES[1] + "\n")
    plugin = shards.Shards(shards.Shard(1, 1), memory)
    assert [name for name in NAMES if plugin.wanted(name)] == NAMES[2:]


def test_seeds_are_both_ends_included(shards: Any) -> None:
    assert shards.parse_seeds("") is None
    assert list(shards.parse_seeds("7")) == [7]
    assert list(shards.parse_seeds("3-5")) == [3, 4, 5]


@pytest.mark.parametrize("text", ["5-3", "a-b", "-3", "1-x"])
def test_wrong_seeds_are_refused_with_their_text(shards: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        shards.parse_seeds(text)


def test_a_long_run_takes_the_given_seeds_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "shards.py").write_text((ROOT / "tools" / "shards.py").read_text())
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["long: x"]\n')
    (tmp_path / "test_seeds.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('seed', range(1000))\n"
        "def test_seed(seed):\n"
        "    assert 3 <= seed <= 6\n"
    )

    def run() -> str:
        command = [sys.executable, "-m", "pytest", "-p", "tools.shards", "-m", "long", "-q"]
        environment = {**os.environ, "SEEDS": "3-7", "SHARD": "", "FRESH": ""}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        ).stdout

    assert "1 failed, 4 passed" in run()
    assert "1 failed, 4 deselected" in run()
