"""A batch of a pipeline as values: plan, manifest, commit, and what comes next.

Owns: what is written about a batch, its JSON, and the decision from what is found. Must not know:
files, Spark, clocks.

A batch goes  planned → staged → published → committed:
  plan      offset ranges and where they are cut into files, before any data;
  manifest  the facts of every file that was staged, before any of them is published;
  commit    after all of them are published.
Each is written once and never changed. Whoever finds a plan obeys it, whoever finds a manifest
publishes its files and no others: so a replay, also by a second driver or with other settings, can
only complete what was begun.

Invariants: batches are numbered from 0 without a gap; only the last may be without its commit; a
batch begins, in each partition, where the one before ended.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum, auto
from typing import Any

from headrace.base.errors import HeadraceError

FORMAT = 1
OFFSETS_PER_SLICE_MIN = 1

TopicPartition = tuple[str, int]
Positions = dict[TopicPartition, int]


class DamagedBatch(HeadraceError):
    """What is written about the batches does not fit together."""


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """`count` offsets of one partition from `start` on: the work of one task."""

    topic: str
    partition: int
    start: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class Plan:
    number: int
    pipeline: str
    epoch: int
    topic_ids: dict[str, str]
    origins: Positions
    """Where each partition began, for all batches."""
    positions: Positions
    """Where each partition stands after this batch."""
    slices: tuple[Slice, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    """What fixes the bytes of the files: codec, layout, transformation."""
    planned_ms: int = 0
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """Of the leader that said that the log reaches each position; of some partitions or none."""

    @property
    def offsets_count(self) -> int:
        return sum(each.count for each in self.slices)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One staged file: where it lies, where it goes, what it holds."""

    staged: str
    folder: str
    """Below the target."""
    name: str
    topic: str
    partition: int
    first: int
    last: int
    records: int
    checksum: int
    size_bytes: int

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """What became of one slice's records: written, filtered, or sent to the dead letters."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    """Read from the log."""
    filtered: int = 0
    dead: int = 0
    files: tuple[FileFacts, ...] = ()
    newest_ms: int = -1
    late: int = 0
    """By the rule for late rows, whatever became of them."""


@dataclass(frozen=True, slots=True)
class Manifest:
    number: int
    epoch: int
    slices: tuple[SliceFacts, ...]

    @property
    def files(self) -> list[FileFacts]:
        return [one for each in self.slices for one in each.files]


@dataclass(frozen=True, slots=True)
class Commit:
    number: int
    epoch: int
    committed_ms: int
    duration_ms: int
    records: int
    files: int
    size_bytes: int


class Step(Enum):
    """What is to be done next for a pipeline's last batch."""

    PLAN = auto()
    STAGE = auto()
    PUBLISH = auto()


PLAN, MANIFEST, COMMIT = "plan", "manifest", "commit"
KINDS = (PLAN, MANIFEST, COMMIT)


def next_step(found: Mapping[int, frozenset[str]]) -> tuple[Step, int]:
    """From the kinds found of each batch: the step, and the batch it is for."""
    if not found:
        return Step.PLAN, 0
    last = max(found)
    for number, kinds in found.items():
        if PLAN not in kinds or (COMMIT in kinds and MANIFEST not in kinds):
            raise DamagedBatch(f"batch {number}: {', '.join(sorted(kinds))} without what precedes")
        if number != last and COMMIT not in kinds:
            raise DamagedBatch(f"batch {number} is not committed, but batch {last} was begun")
    if sorted(found) != list(range(min(found), last + 1)):
        raise DamagedBatch(f"of the batches up to {last} some are missing")
    if COMMIT in found[last]:
        return Step.PLAN, last + 1
    return (Step.PUBLISH if MANIFEST in found[last] else Step.STAGE), last


# -- making a plan ---------------------------------------------------------------------------


def cut(
    starts: Positions, ends: Positions, records_per_file: Mapping[str, int]
) -> tuple[Slice, ...]:
    """The ranges in slices of about a file's worth, none much smaller than the others."""
    slices: list[Slice] = []
    for (topic, partition), end in sorted(ends.items()):
        start = starts[topic, partition]
        count = end - start
        if count <= 0:
            continue
        room = max(OFFSETS_PER_SLICE_MIN, records_per_file.get(topic, count))
        pieces = -(-count // room)
        for piece in range(pieces):
            first, after = count * piece // pieces, count * (piece + 1) // pieces
            slices.append(Slice(topic, partition, start + first, after - first))
    return tuple(slices)


# -- as JSON -----------------------------------------------------------------------------------


def positions_to_json(positions: Positions) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def positions_from_json(nested: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def plan_to_bytes(plan: Plan) -> bytes:
    return _dump(
        {
            "format": FORMAT,
            "number": plan.number,
            "pipeline": plan.pipeline,
            "epoch": plan.epoch,
            "planned_ms": plan.planned_ms,
            "topic_ids": plan.topic_ids,
            "origins": positions_to_json(plan.origins),
            "positions": positions_to_json(plan.positions),
            "slices": [[s.topic, s.partition, s.start, s.count] for s in plan.slices],
            "settings": plan.settings,
            "leader_epochs": positions_to_json(plan.leader_epochs),
        }
    )


def plan_from_bytes(data: bytes) -> Plan:
    found = _load(data, "plan")
    return Plan(
        number=found["number"],
        pipeline=found["pipeline"],
        epoch=found["epoch"],
        topic_ids=found["topic_ids"],
        origins=positions_from_json(found["origins"]),
        positions=positions_from_json(found["positions"]),
        slices=tuple(Slice(*each) for each in found["slices"]),
        settings=found["settings"],
        planned_ms=found["planned_ms"],
        # Plans of earlier versions have none: nothing is asked for them.
        leader_epochs=positions_from_json(found.get("leader_epochs", {})),
    )


def manifest_to_bytes(manifest: Manifest) -> bytes:
    slices = [asdict(each) for each in manifest.slices]
    return _dump(
        {
            "format": FORMAT,
            "number": manifest.number,
            "epoch": manifest.epoch,
            "slices": slices,
        }
    )


def manifest_from_bytes(data: bytes) -> Manifest:
    found = _load(data, "manifest")
    slices = (
        SliceFacts(**{**each, "files": tuple(FileFacts(**file) for file in each["files"])})
        for each in found["slices"]
    )
    return Manifest(found["number"], found["epoch"], tuple(slices))


def commit_to_bytes(commit: Commit) -> bytes:
    return _dump({"format": FORMAT, **asdict(commit)})


def commit_from_bytes(data: bytes) -> Commit:
    found = _load(data, "commit")
    found.pop("format")
    return Commit(**found)


def commit_of(manifest: Manifest, epoch: int, now_ms: int, duration_ms: int) -> Commit:
    files = manifest.files
    return Commit(
        number=manifest.number,
        epoch=epoch,
        committed_ms=now_ms,
        duration_ms=duration_ms,
        records=_total(each.records for each in files),
        files=len(files),
        size_bytes=_total(each.size_bytes for each in files),
    )


def check_manifest(plan: Plan, slices: Sequence[SliceFacts]) -> None:
    """Every slice of the plan is there, once: a manifest with less would lose records."""
    wanted = sorted((s.topic, s.partition, s.start, s.end) for s in plan.slices)
    staged = sorted((s.topic, s.partition, s.start, s.end) for s in slices)
    if wanted != staged:
        raise DamagedBatch(f"batch {plan.number}: what was staged is not what was planned")


def _total(values: Iterable[int]) -> int:
    return sum(values)


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _load(data: bytes, kind: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise DamagedBatch(f"a {kind} that is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DamagedBatch(f"a {kind} of another format than {FORMAT}")
    return found
