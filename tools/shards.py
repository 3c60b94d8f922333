"""A pytest plugin that cuts the long tests into shards and lets a stopped run go on.

Owns: which of the collected tests run, by `SHARD`, `SEEDS` and `FRESH` of the environment and by
what earlier runs have passed. Must not know: what any test does. `make test-long` loads it
with `-p tools.shards`.

- `SHARD=i/n` (1 <= i <= n) keeps the tests whose name falls into the i-th of n parts. The part
  depends on the name alone, so shards on several machines never overlap and miss nothing.
- `SEEDS=a-b` gives every test that is parametrised by `seed` the seeds a to b, both included, in
  place of its own, and makes it a long one: that is how simulations run for hours.
- A test that passed is remembered in `.build/test-long/` under the digest of the tree, and left out
  of the next run on the same tree. `FRESH=1` forgets.
"""

import hashlib
import os
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

REMEMBERED = Path(".build") / "test-long"


@dataclass(frozen=True, slots=True)
class Shard:
    """The `index`-th (from 1) of `count` parts."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """`"2/5"`; the empty text is the whole."""
        if not text:
            return cls(1, 1)
        index_text, slash, count_text = text.partition("/")
        if not (slash and index_text.isdecimal() and count_text.isdecimal()):
            raise ValueError(f"SHARD={text}: expected i/n, such as 2/5")
        shard = cls(int(index_text), int(count_text))
        if not 1 <= shard.index <= shard.count:
            raise ValueError(f"SHARD={text}: expected 1 <= i <= n")
        return shard

    def holds(self, name: str) -> bool:
        return zlib.crc32(name.encode()) % self.count == self.index - 1


def parse_seeds(text: str) -> range | None:
    """`"100-199"` or `"7"`; the empty text leaves each test its own seeds."""
    if not text:
        return None
    first, _, last = text.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise ValueError(f"SEEDS={text}: expected a-b, such as 0-199")
    return range(int(first), int(last) + 1)


def digest_of_tree(root: Path) -> str:
    """Names the files as they are now: the commit, and whatever differs from it."""
    digest = hashlib.sha256()
    for command in (["git", "rev-parse", "HEAD"], ["git", "diff", "HEAD"]):
        digest.update(subprocess.run(command, cwd=root, capture_output=True).stdout)
    return digest.hexdigest()[:16]


class Shards:
    """Deselects what belongs to other shards or has passed before; notes what passes now."""

    def __init__(self, shard: Shard, memory: Path, seeds: range | None = None) -> None:
        self._shard = shard
        self._seeds = seeds
        self._memory = memory
        self._passed = set(memory.read_text().splitlines()) if memory.exists() else set()

    def wanted(self, name: str) -> bool:
        return self._shard.holds(name) and name not in self._passed

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self._seeds is None:
            return
        seeds = [pytest.param(seed, marks=pytest.mark.long) for seed in self._seeds]
        markers = metafunc.definition.own_markers
        for position, mark in enumerate(markers):
            if mark.name == "parametrize" and mark.args and mark.args[0] == "seed":
                markers[position] = pytest.mark.parametrize("seed", seeds).mark

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        dropped = [item for item in items if not self.wanted(item.nodeid)]
        items[:] = [item for item in items if self.wanted(item.nodeid)]
        if dropped:
            config.hook.pytest_deselected(items=dropped)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            with self._memory.open("a") as memory:
                memory.write(report.nodeid + "\n")

    def pytest_report_header(self) -> Iterable[str]:
        shard = self._shard
        return [f"shard {shard.index}/{shard.count}, {len(self._passed)} tests passed before"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # A resumed run or a small shard with nothing left to do has done its work.
        nothing_left = bool(self._passed) or self._shard.count > 1
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and nothing_left:
            session.exitstatus = pytest.ExitCode.OK


def pytest_configure(config: pytest.Config) -> None:
    try:
        shard = Shard.parse(os.environ.get("SHARD", ""))
        seeds = parse_seeds(os.environ.get("SEEDS", ""))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    memory = config.rootpath / REMEMBERED / f"{digest_of_tree(config.rootpath)}.passed"
    if os.environ.get("FRESH"):
        memory.unlink(missing_ok=True)
    config.pluginmanager.register(Shards(shard, memory, seeds), "headrace-shards")
