"""Pipelines in one process: drivers and tasks that die anywhere, a reader that only lists.

Owns: a log that is known by heart, simulated tasks, and the checks after every operation (P1, P2,
P4, P5, P6 and P8 of docs/PIPELINE.md). Must not know: Spark, Parquet: a file's bytes are JSON.

What may happen: a driver dies before any operation and another starts, with other settings; a
driver is paused there while another runs, and goes on; a task dies anywhere, is tried again, and
its first attempt goes on as a ghost whenever; the answer of a rename is lost; machines lose power;
small files are merged meanwhile; the log loses records or is made again.
"""

import json
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.pipeline.batches import Batches
from headrace.pipeline.compact import Compaction, Merge
from headrace.pipeline.errors import DataLost, made_again
from headrace.pipeline.fence import Driver, Fence
from headrace.pipeline.layout import Rooms, file_name, folder_of
from headrace.pipeline.plan import FileFacts, Plan, Positions, Slice, SliceFacts
from headrace.pipeline.publication import Publication, Wanted
from headrace.pipeline.target_files import FilesError
from headrace.testing.pipeline_files import SimulatedFiles

TARGET = "/lake"
FILE_BYTES = 300
"""A file's worth for a compaction: about ten records."""
_BYTES_ONLY = frozenset({"write", "hsync", "close", "set_facts", "mkdirs"})
"""Operations that change no listing: only how whole the files are is looked at."""

Task = Generator[None, None, SliceFacts]
Row = tuple[str, int, int, int]
"""Topic, partition, offset, hour."""


class InvariantViolation(AssertionError):
    """A promise is broken, by its name."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Killed(BaseException):
    """A death: nothing may catch it on its way out."""


@dataclass(slots=True)
class Faults:
    """When what happens, counted in operations of one driver."""

    kill_at: int | None = None
    pause_at: int | None = None
    task_kill_at: int | None = None
    """In steps of tasks."""
    power_cut: bool = False


@dataclass(slots=True)
class SimulatedLog:
    """Offsets have gaps, as markers leave them, and hours come out of order."""

    rows: dict[tuple[str, int], list[Row]] = field(default_factory=dict)
    kept_from: dict[tuple[str, int], int] = field(default_factory=dict)
    """Where retention left the beginning of a partition."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Of topics that were made again; the first id of each is made of its name."""

    def topic_id(self, topic: str) -> str:
        return self.topic_ids.get(topic, f"id-{topic}")

    def append(self, topic: str, partition: int, count: int, dice: random.Random) -> None:
        rows = self.rows.setdefault((topic, partition), [])
        offset = rows[-1][2] + 1 if rows else 0
        for _ in range(count):
            offset += dice.random() < 0.1
            rows.append((topic, partition, offset, 10 + dice.randrange(2)))
            offset += 1

    def ends(self) -> Positions:
        return {where: rows[-1][2] + 1 for where, rows in self.rows.items() if rows}

    def read(self, work: Slice, topic_id: str) -> list[Row]:
        """As a task reads it: what is lost is said."""
        where = (work.topic, work.partition)
        if topic_id != self.topic_id(work.topic):
            raise made_again(work.topic, topic_id, self.topic_id(work.topic), {where: work.start})
        if work.start < self.kept_from.get(where, 0):
            reason = "the records were deleted before they were read"
            raise DataLost(*where, work.start, self.kept_from[where], reason)
        return self.within(work)

    def within(self, work: Slice) -> list[Row]:
        rows = self.rows[work.topic, work.partition]
        return [row for row in rows if work.start <= row[2] < work.end]


class PipelineSimulation:
    """One target, one log, any number of drivers one after another or within each other."""

    publication_class: type[Publication] = Publication
    batches_class: type[Batches] = Batches

    def __init__(self, seed: int, *, has_sets: bool, segment_batches: int = 3) -> None:
        self.dice = random.Random(seed)
        self.files = SimulatedFiles(has_sets=has_sets)
        self.files.before, self.files.after = self._before, self._after
        self.rooms = Rooms(TARGET, f"{TARGET}/_headrace/p", "p", segment_batches)
        self.log = SimulatedLog()
        self.ghosts: list[Iterator[None]] = []
        self.operations = 0
        self.task_steps = 0
        self.faults = Faults()
        self.while_paused: Callable[[], None] = lambda: None
        self._drivers = 0
        self._is_ghost = False

    # -- a driver's life -----------------------------------------------------------------------

    def drive(self, records_per_file: int, faults: Faults | None = None) -> BaseException | None:
        """A driver from its start until there is nothing to do, or its end; which is returned."""

        def act(driver: int) -> None:
            nonce = f"n{driver}"
            fence = Fence(self.files, self.rooms, Driver("host", driver, nonce, 0))
            fence.claim()
            batches = self.batches_class(self.files, self.rooms, nonce)
            publication = self.publication_class(
                self.files,
                batches,
                self.rooms,
                fence,
                lambda plan: self._stage(plan, driver),
                now_ms=lambda: 0,
            )
            wanted = self._wanted(records_per_file)
            while publication.advance(wanted):
                batches.fold()

        return self._end_of(act, faults)

    def _end_of(self, act: Callable[[int], None], faults: Faults | None) -> BaseException | None:
        """A process, told its number, until it is done or its end; which is returned."""
        outer = (self.faults, self.operations, self.task_steps)
        self.faults, self.operations, self.task_steps = faults or Faults(), 0, 0
        self._drivers += 1
        try:
            act(self._drivers)
        except (Killed, HeadraceError) as end:
            if self.faults.power_cut:
                self.files.power_cut()
            return end
        finally:
            self.faults, self.operations, self.task_steps = outer
        return None

    def _wanted(self, records_per_file: int) -> Wanted:
        ends = self.log.ends()
        return Wanted(
            ends=ends,
            starts=dict.fromkeys(ends, 0),
            topic_ids={topic: self.log.topic_id(topic) for topic, _ in ends},
            records_per_file={topic: records_per_file for topic, _ in ends},
        )

    def _stage(self, plan: Plan, driver: int) -> Sequence[SliceFacts]:
        facts = []
        for index, work in enumerate(plan.slices):
            for attempt in range(3):
                folder = f"{self.rooms.staging_of(plan.number)}/{driver}-{index}-{attempt}"
                done = self._run_task(self.task(plan, work, folder))
                if done is not None:
                    facts.append(done)
                    break
        return facts

    def _run_task(self, task: Task) -> SliceFacts | None:
        while True:
            self.task_steps += 1
            if self.task_steps - 1 == self.faults.task_kill_at:
                self.ghosts.append(task)
                return None
            try:
                next(task)
            except StopIteration as done:
                facts: SliceFacts = done.value
                return facts

    def task(self, plan: Plan, work: Slice, folder: str) -> Task:
        """What a Spark task does, a step at a time."""
        rows = self.log.read(work, plan.topic_ids[work.topic])
        files: list[FileFacts] = []
        for hour in sorted({row[3] for row in rows}):
            mine = [row for row in rows if row[3] == hour]
            path = f"{folder}/{hour}.parquet"
            yield
            yield from self.write_file(path, json.dumps([plan.number, mine]).encode())
            first, last = mine[0][2], mine[-1][2]
            name = file_name(work.topic, work.partition, first, last)
            files.append(
                FileFacts(
                    staged=path,
                    folder=folder_of(work.topic, hour),
                    name=name,
                    topic=work.topic,
                    partition=work.partition,
                    first=first,
                    last=last,
                    records=len(mine),
                    checksum=plan.number,
                    size_bytes=1,
                )
            )
        return SliceFacts(
            work.topic, work.partition, work.start, work.end, len(rows), files=tuple(files)
        )

    def write_file(self, path: str, data: bytes) -> Iterator[None]:
        writer = self.files.create(path)
        yield
        writer.write(data[: len(data) // 2])
        yield
        writer.write(data[len(data) // 2 :])
        yield
        writer.hsync()
        yield
        writer.close()
        yield
        self.files.set_facts(path, "file", b"{}")

    def compact(self, faults: Faults | None = None) -> BaseException | None:
        """A compaction beside whatever drivers there are; its end is returned."""

        def act(number: int) -> None:
            batches = self.batches_class(self.files, self.rooms, f"n{number}")
            SimulatedCompaction(self.files, batches, self.rooms, number).run(FILE_BYTES)

        return self._end_of(act, faults)

    # -- what happens around operations ----------------------------------------------------------

    def _before(self, operation: str, path: str) -> None:
        del operation, path
        if self._is_ghost:
            return
        number, self.operations = self.operations, self.operations + 1
        if number == self.faults.kill_at:
            raise Killed
        if number == self.faults.pause_at:
            self.faults.pause_at = None
            self.while_paused()
        self._maybe_move_ghosts()

    def _maybe_move_ghosts(self) -> None:
        """Attempts that Spark gave up, but that still run somewhere."""
        self._is_ghost = True
        try:
            for ghost in list(self.ghosts):
                if self.dice.random() < 0.3:
                    try:
                        next(ghost)
                    except (StopIteration, FilesError):
                        self.ghosts.remove(ghost)
        finally:
            self._is_ghost = False

    def _after(self, operation: str, path: str) -> None:
        when = f"{operation} {path}"
        if operation in _BYTES_ONLY:
            self.visible()
        else:
            self.check(when)

    # -- what must hold --------------------------------------------------------------------------

    def visible(self) -> dict[str, bytes]:
        """What a reader that lists the target sees; also checks that no file is partial (P6)."""
        seen: dict[str, bytes] = {}
        for path, file in self.files.files.items():
            below = path[len(TARGET) + 1 :]
            if path.startswith(TARGET + "/") and not below.startswith("_"):
                if not file.is_whole:
                    raise InvariantViolation("P6", f"{path} is visible, but not closed and synced")
                seen[path] = bytes(file.data)
        return seen

    def check(self, when: str) -> None:
        rows = self._check_rows(when)
        self._check_records(when, rows)

    def _check_rows(self, when: str) -> set[Row]:
        """P1 and P2 as far as a reader that lists can tell: each record once, and right."""
        seen: set[Row] = set()
        for path, data in self.visible().items():
            for row in _rows_in(data):
                topic, _, _, hour = row
                if row in seen:
                    raise InvariantViolation("P1", f"after {when}: {row} twice, also in {path}")
                if folder_of(topic, hour) not in path:
                    raise InvariantViolation("P2", f"after {when}: {row} in {path}")
                seen.add(row)
        known = {row for rows in self.log.rows.values() for row in rows}
        if not seen <= known:
            raise InvariantViolation("P2", f"after {when}: not in the log: {seen - known}")
        return seen

    def _check_records(self, when: str, rows: set[Row]) -> None:
        """P4: data only after its plan, a commit only after its data; P8 for what is committed."""
        segments = f"{self.rooms.batches}/"
        plans = {p for p in self.files.files if p.startswith(segments) and ".plan." in p}
        for path, file in self.files.files.items():
            if path.startswith(segments) and not file.is_whole:
                raise InvariantViolation("P4", f"after {when}: {path} is not whole")
            if path.startswith(segments) and ".commit." in path:
                self._check_committed(when, path, rows)
            if path.startswith(self.rooms.staging + "/") and not self._is_ghost:
                number = int(path[len(self.rooms.staging) + 1 :].split("/")[0].split("-")[1])
                folded = f"{self.rooms.history}/{number // self.rooms.segment_batches:09}.json"
                is_planned = self.rooms.record_of(number, "plan") in plans
                if not is_planned and folded not in self.files.files:
                    raise InvariantViolation("P4", f"after {when}: {path} without a plan")

    def _check_committed(self, when: str, path: str, rows: set[Row]) -> None:
        plan_file = self.files.files.get(path.replace(".commit.", ".plan."))
        if plan_file is None:
            return  # its folder is being folded
        for work in _slices_in(bytes(plan_file.data)):
            for row in self.log.within(work):
                if row not in rows:
                    raise InvariantViolation("P1", f"after {when}: {path}, but {row} is not there")

    def check_complete(self) -> None:
        """After a driver had its way: all of the log, once."""
        rows = self._check_rows("the end")
        known = {row for each in self.log.rows.values() for row in each}
        if rows != known:
            raise InvariantViolation("P1", f"missing at the end: {sorted(known - rows)[:5]}")


class SimulatedCompaction(Compaction):
    """The real order of operations, over files that are JSON."""

    def __init__(self, files: SimulatedFiles, batches: Batches, rooms: Rooms, number: int) -> None:
        super().__init__(files, batches, rooms, lambda _, before: before, "")
        self._number = number
        self._merges = 0

    def _read(self, path: str) -> tuple[Any, dict[str, str]]:
        batch, rows = json.loads(self._files.read(path))
        return rows, {"pipeline": self._rooms.pipeline, "batch": str(batch)}

    def _merged(self, contents: list[Any]) -> Any:
        return [row for rows in contents for row in rows]

    def _write(
        self, merge: Merge, merged: Any, facts: list[dict[str, str]], *, is_raw: bool
    ) -> tuple[str, str]:
        del is_raw
        self._merges += 1
        path = f"{self._aside}/{self._number}-{self._merges}.parquet"
        batch = max(int(each["batch"]) for each in facts)
        writer = self._files.create(path)
        writer.write(json.dumps([batch, merged]).encode())
        writer.hsync()
        writer.close()
        name = file_name(merge.topic, merge.partition, merged[0][2], merged[-1][2])
        return path, f"{merge.folder}/{name}"


@lru_cache(maxsize=10_000)
def _rows_in(data: bytes) -> tuple[Row, ...]:
    _, rows = json.loads(data)
    return tuple((topic, partition, offset, hour) for topic, partition, offset, hour in rows)


@lru_cache(maxsize=10_000)
def _slices_in(data: bytes) -> tuple[Slice, ...]:
    return tuple(Slice(*each) for each in json.loads(data)["slices"])
