"""The records of a pipeline's batches in its checkpoint: written once, folded together when old.

Owns: `batches/` and `history/`. Must not know: what a batch does to the target.

Every record is a file that appears whole and never instead of another. Batches share a folder,
a segment, which exists before a record is written into it: so a driver that slept while its
segment was folded away can't write a record there again, because a rename needs the folder.

Folding: the segment's history is written first, then its folder is deleted. A reader that finds
both takes the history.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headrace.pipeline import plan as plans
from headrace.pipeline.layout import Rooms, parse_record
from headrace.pipeline.plan import COMMIT, MANIFEST, PLAN, Commit, Manifest, Plan, Step
from headrace.pipeline.target_files import TargetFiles, write_whole

SEGMENTS_KEPT = 2
"""So many segments stay as they are: the present one and the one before."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is committed."""

    plan: Plan
    manifest: Manifest
    commit: Commit


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a pipeline stands: the next step, for which batch, and that batch's plan if any."""

    step: Step
    number: int
    last: Plan | None
    """The plan of the last batch, which is the pending one unless the step is PLAN."""


class Batches:
    def __init__(self, files: TargetFiles, rooms: Rooms, nonce: str) -> None:
        self._files = files
        self._rooms = rooms
        self._nonce = nonce
        self._aside_count = 0

    # -- reading -----------------------------------------------------------------------------

    def standing(self) -> Standing:
        segments = self._segments()
        found: dict[int, frozenset[str]] = {}
        # A new segment may still be empty: then the last batch is in the one before.
        for segment in reversed(segments):
            found = self._kinds_in(segment)
            if found:
                break
        step, number = plans.next_step(found)
        if not found:
            number = self._batches_folded()
            if number == 0:
                return Standing(step, 0, None)
            last = self._folded_last(number - 1)
            return Standing(step, number, last)
        last_number = number - 1 if step is Step.PLAN else number
        return Standing(step, number, self.plan(last_number))

    def plan(self, number: int) -> Plan:
        return plans.plan_from_bytes(self._files.read(self._rooms.record_of(number, PLAN)))

    def manifest(self, number: int) -> Manifest:
        return plans.manifest_from_bytes(self._files.read(self._rooms.record_of(number, MANIFEST)))

    def commit(self, number: int) -> Commit:
        return plans.commit_from_bytes(self._files.read(self._rooms.record_of(number, COMMIT)))

    def committed(self, first: int = 0) -> Iterator[Batch]:
        """All committed batches from `first` on, in order."""
        folded = 0
        for entry in sorted(self._files.list(self._rooms.history), key=lambda e: e.path):
            for line in self._files.read(entry.path).splitlines():
                batch = _batch_from_json(json.loads(line))
                folded = batch.plan.number + 1
                if batch.plan.number >= first:
                    yield batch
        for segment in self._segments():
            for number, kinds in sorted(self._kinds_in(segment).items()):
                if COMMIT in kinds and number >= max(first, folded):
                    yield Batch(self.plan(number), self.manifest(number), self.commit(number))

    def recent(self, count: int) -> list[Batch]:
        """The last committed batches that are not folded, oldest first."""
        found: list[Batch] = []
        for segment in reversed(self._segments()):
            for number, kinds in sorted(self._kinds_in(segment).items(), reverse=True):
                if COMMIT in kinds and len(found) < count:
                    found.append(
                        Batch(self.plan(number), self.manifest(number), self.commit(number))
                    )
            if len(found) >= count:
                break
        return found[::-1]

    # -- writing -----------------------------------------------------------------------------

    def write_plan(self, plan: Plan, check: Callable[[], None]) -> bool:
        self._files.mkdirs(self._rooms.segment_of(plan.number))
        # The fence is looked at after the folder is there: see the story above.
        check()
        return self._write(plan.number, PLAN, plans.plan_to_bytes(plan))

    def write_manifest(self, manifest: Manifest) -> bool:
        return self._write(manifest.number, MANIFEST, plans.manifest_to_bytes(manifest))

    def write_commit(self, commit: Commit) -> bool:
        return self._write(commit.number, COMMIT, plans.commit_to_bytes(commit))

    def _write(self, number: int, kind: str, data: bytes) -> bool:
        """False: another wrote it before."""
        self._aside_count += 1
        aside = f"{self._rooms.aside}/{number:012}.{kind}-{self._nonce}-{self._aside_count}"
        return write_whole(self._files, aside, self._rooms.record_of(number, kind), data)

    def fold(self) -> int:
        """Fold segments that are complete and old. Returns how many."""
        segments = self._segments()
        for segment in segments[:-SEGMENTS_KEPT]:
            history = f"{self._rooms.history}/{segment}.json"
            if not self._files.exists(history):
                self._files.mkdirs(self._rooms.history)
                lines = [
                    _batch_to_line(Batch(self.plan(n), self.manifest(n), self.commit(n)))
                    for n in sorted(self._kinds_in(segment))
                ]
                self._aside_count += 1
                aside = f"{self._rooms.aside}/history-{self._nonce}-{self._aside_count}"
                write_whole(self._files, aside, history, b"\n".join(lines))
            self._files.delete(f"{self._rooms.batches}/{segment}")
        return len(segments[:-SEGMENTS_KEPT])

    # -- inside ------------------------------------------------------------------------------

    def _segments(self) -> list[str]:
        return sorted(e.name for e in self._files.list(self._rooms.batches) if e.is_folder)

    def _kinds_in(self, segment: str) -> dict[int, frozenset[str]]:
        found: dict[int, frozenset[str]] = {}
        for entry in self._files.list(f"{self._rooms.batches}/{segment}"):
            record = parse_record(entry.name)
            if record is not None:
                number, kind = record
                found[number] = found.get(number, frozenset()) | {kind}
        return found

    def _batches_folded(self) -> int:
        names = [e.name.removesuffix(".json") for e in self._files.list(self._rooms.history)]
        segments = [int(name) for name in names if name.isdecimal()]
        return (max(segments) + 1) * self._rooms.segment_batches if segments else 0

    def _folded_last(self, number: int) -> Plan:
        name = f"{number // self._rooms.segment_batches:09}.json"
        lines = self._files.read(f"{self._rooms.history}/{name}").splitlines()
        return _batch_from_json(json.loads(lines[-1])).plan


def _batch_to_line(batch: Batch) -> bytes:
    parts = (
        plans.plan_to_bytes(batch.plan),
        plans.manifest_to_bytes(batch.manifest),
        plans.commit_to_bytes(batch.commit),
    )
    return b"[" + b",".join(parts) + b"]"


def _batch_from_json(parts: list[Any]) -> Batch:
    plan, manifest, commit = (json.dumps(each).encode() for each in parts)
    return Batch(
        plans.plan_from_bytes(plan),
        plans.manifest_from_bytes(manifest),
        plans.commit_from_bytes(commit),
    )
