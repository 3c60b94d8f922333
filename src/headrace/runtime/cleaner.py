"""Child processes that clean logs, so that serving never waits for it.

Owns: the children, one for each cleaning under way, and the lines that go to and fro.
Must not know: which logs, what becomes of the answer. The child is `cleaner_child`.

A child lives while there is work and for a while after it, because a start costs a second, most of
it for compiled code; `rest` ends those that had none for longer. One that dies costs its job,
which is answered with `CleaningStopped`. If this process dies, the kernel ends its children.
"""

import asyncio
import contextlib
import json
import sys
from typing import Any

from headrace.base.errors import CorruptionError, StorageError
from headrace.broker.cleaner import CleaningStopped, OnCleaned, Outcome
from headrace.log.compaction.job import CleaningJob, CleaningOutcome

LINE_BYTES_MAX = 64 << 20
CHILD = "headrace.runtime.cleaner_child"
IDLE_S_MAX = 30.0
"""It holds about 150 MB."""


class ChildCleaners:
    """`broker.cleaner.CleaningWorker` over processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: list[tuple[asyncio.subprocess.Process, float]] = []
        """And since when."""
        self._all: set[asyncio.subprocess.Process] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def clean(self, job: CleaningJob, on_done: OnCleaned) -> None:
        task = self._loop.create_task(self._run(job, on_done), name=f"clean {job.folder}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: CleaningJob, on_done: OnCleaned) -> None:
        outcome = await self._outcome(job)
        if not self._is_closed:
            on_done(outcome)

    async def _outcome(self, job: CleaningJob) -> Outcome:
        child: asyncio.subprocess.Process | None = None
        try:
            child = self._idle.pop()[0] if self._idle else await self._start()
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(job.to_json().encode() + b"\n")
            await child.stdin.drain()
            line = await child.stdout.readline()
            outcome = answer_of(line)
        except (OSError, ValueError) as error:
            outcome = CleaningStopped(f"the cleaner's process failed: {error}")
        if child is not None:
            if isinstance(outcome, CleaningStopped) or self._is_closed:
                self._end(child)
            else:
                self._idle.append((child, self._loop.time()))
        return outcome

    async def _start(self) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        self._all.add(child)
        return child

    def rest(self) -> None:
        before_s = self._loop.time() - IDLE_S_MAX
        for child, since_s in self._idle:
            if since_s <= before_s:
                self._end(child)
        self._idle = [each for each in self._idle if each[1] > before_s]

    def _end(self, child: asyncio.subprocess.Process) -> None:
        self._all.discard(child)
        with contextlib.suppress(ProcessLookupError):
            child.kill()

    def close(self) -> None:
        self._is_closed = True
        for child in list(self._all):
            self._end(child)
        self._idle.clear()
        for task in self._tasks:
            task.cancel()

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._all]


def answer_of(line: bytes) -> Outcome:
    if not line.endswith(b"\n"):
        return CleaningStopped("the cleaner's process ended")
    answer: dict[str, Any] = json.loads(line)
    match answer.get("error"):
        case None:
            return CleaningOutcome.from_json(answer["outcome"])
        case "corruption":
            return CorruptionError(answer["path"], answer["position"], answer["reason"])
        case "storage":
            return StorageError(answer["path"], answer["reason"])
        case _:
            return CleaningStopped(str(answer.get("reason")))
