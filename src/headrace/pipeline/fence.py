"""Which driver may write: the one that claimed the checkpoint last.

Owns: the files in `drivers/`. Must not know: batches. A claim is a file with the next epoch,
made without overwrite; a driver that sees a higher epoch than its own stops and says whose it is.
So a dead driver never has to be waited for.

The fence keeps two drivers from working twice; it is not what keeps the output right: a driver that
is paused between its last look and its next write is harmless, because every record of a batch is
written once only (see `plan`).
"""

import json
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.pipeline.layout import Rooms
from headrace.pipeline.target_files import Missing, TargetFiles, write_whole

CLAIMS_KEPT = 3
_ATTEMPTS = 100


class Fenced(HeadraceError):
    """Another driver took the checkpoint over."""


@dataclass(frozen=True, slots=True)
class Driver:
    """Who is writing, for the sentence that the other one says."""

    host: str
    pid: int
    nonce: str
    started_ms: int


class Fence:
    def __init__(self, files: TargetFiles, rooms: Rooms, driver: Driver) -> None:
        self._files = files
        self._rooms = rooms
        self._driver = driver
        self.epoch = 0

    def claim(self) -> int:
        """Become the driver. Returns the epoch, above all before it."""
        for _ in range(_ATTEMPTS):
            epochs = self._epochs()
            self.epoch = max(epochs, default=0) + 1
            if not self._write_claim():
                continue
            for old in sorted(epochs)[:-CLAIMS_KEPT]:
                self._files.delete(self._path(old))
            return self.epoch
        raise HeadraceError(f"{self._rooms.drivers}: no epoch could be claimed")

    def check(self) -> None:
        """Raises Fenced if another driver came after this one."""
        newest = max(self._epochs(), default=0)
        if newest > self.epoch:
            raise Fenced(
                f"pipeline {self._rooms.pipeline}: another driver, {self._who(newest)}, took over "
                f"the checkpoint {self._rooms.checkpoint} (epoch {newest}, ours is {self.epoch}); "
                "this one stops"
            )

    def _write_claim(self) -> bool:
        self._files.mkdirs(self._rooms.drivers)
        content = {
            "epoch": self.epoch,
            "host": self._driver.host,
            "pid": self._driver.pid,
            "nonce": self._driver.nonce,
            "started_ms": self._driver.started_ms,
        }
        aside = f"{self._rooms.aside}/driver-{self.epoch}-{self._driver.nonce}"
        return write_whole(self._files, aside, self._path(self.epoch), json.dumps(content).encode())

    def _who(self, epoch: int) -> str:
        try:
            found: dict[str, Any] = json.loads(self._files.read(self._path(epoch)))
        except (Missing, ValueError):
            return "unknown"
        return f"process {found.get('pid')} on {found.get('host')}"

    def _epochs(self) -> list[int]:
        names = [each.name.removesuffix(".json") for each in self._files.list(self._rooms.drivers)]
        return [int(name) for name in names if name.isdecimal()]

    def _path(self, epoch: int) -> str:
        return f"{self._rooms.drivers}/{epoch:012}.json"
