"""A pytest plugin that cuts the long tests into shards and lets a stopped run go on.

Owns: which of the collected tests run, by the environment `SHARD`, `FRESH` and what earlier runs
have passed. Must not know: what any test does. `make test-long` loads it with `-p tools.shards`.

- `SHARD=i/n` (1 <= i <= n) keeps the tests whose name falls into the i-th of n parts. The part
  depends on the name alone, so shards on several machines never overlap and miss nothing.
- A test that passed is remembered in `.build/test-long/` under the digest of the tree and of
  `SEEDS`, and left out of the next run on the same tree. `FRESH=1` forgets.
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


def digest_of_tree(root: Path) -> str:
    """Names the files as they are now: the commit, and whatever differs from it."""
    digest = hashlib.sha256()
    for command in (["git", "rev-parse", "HEAD"], ["git", "diff", "HEAD"]):
        digest.update(subprocess.run(command, cwd=root, capture_output=True).stdout)
    return digest.hexdigest()[:16]


class Shards:
    """Deselects what belongs to other shards or has passed before; notes what passes now."""

    def __init__(self, shard: Shard, memory: Path) -> None:
        self._shard = shard
        self._memory = memory
        self._passed = set(memory.read_text().splitlines()) if memory.exists() else set()

    def wanted(self, name: str) -> bool:
        return self._shard.holds(name) and name not in self._passed

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
        # A resumed run with nothing left to do has done its work.
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.pluginmanager:
            session.exitstatus = pytest.ExitCode.OK


def pytest_configure(config: pytest.Config) -> None:
    try:
        shard = Shard.parse(os.environ.get("SHARD", ""))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    seeds = os.environ.get("SEEDS", "") or "default"
    memory = (
        config.rootpath / REMEMBERED / f"{digest_of_tree(config.rootpath)}-seeds-{seeds}.passed"
    )
    if os.environ.get("FRESH"):
        memory.unlink(missing_ok=True)
    config.pluginmanager.register(Shards(shard, memory), "headrace-shards")
