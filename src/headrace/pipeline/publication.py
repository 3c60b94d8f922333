"""Carries a batch through plan → stage → publish → commit, from wherever it was left.

Owns: the order of the operations on the file system, which is what makes the output exact for
readers that only list folders. Must not know: Spark, Parquet, the log: staging is handed in, ends
of partitions too.

The order, and why:
 1. the plan is written before any data: a replay stages the same ranges;
 2. tasks write files aside, each attempt under a name of its own, hsync and close them;
 3. the manifest is written after all files are staged: it says which attempt's files count.
    A late task, or another driver's, may write more files: nobody will publish them;
 4. the manifest's files are renamed into place, without overwrite, all at once where the file
    system can. Whoever dies here leaves a manifest, and the next one goes on renaming;
 5. the commit is written after the last rename. Only then is staging swept, because until then a
    second driver's manifest may still name files there.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.pipeline import plan as plans
from headrace.pipeline.batches import Batches
from headrace.pipeline.errors import made_again
from headrace.pipeline.fence import Fence
from headrace.pipeline.layout import Rooms, parse_staging
from headrace.pipeline.plan import FileFacts, Manifest, Plan, Positions, SliceFacts, Step
from headrace.pipeline.target_files import AlreadyThere, FilesError, Missing, TargetFiles

Stage = Callable[[Plan], Sequence[SliceFacts]]
"""Writes all files of a plan aside and returns their facts."""


class PublicationConflict(HeadraceError):
    """A file of somebody else stands in the way, or a staged one is gone."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the next batch is to cover, if the last one is done."""

    ends: Positions
    starts: Positions
    """Where partitions begin that no batch has covered yet."""
    topic_ids: Mapping[str, str]
    records_per_file: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    leader_epochs: Mapping[plans.TopicPartition, int] = field(default_factory=dict)
    """Of the leaders that said the ends, as far as they are known."""


@dataclass(frozen=True, slots=True)
class Done:
    """A batch that was completed just now."""

    plan: Plan
    manifest: Manifest
    commit: plans.Commit


class Publication:
    def __init__(
        self,
        files: TargetFiles,
        batches: Batches,
        rooms: Rooms,
        fence: Fence,
        stage: Stage,
        *,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._files = files
        self._batches = batches
        self._rooms = rooms
        self._fence = fence
        self._stage = stage
        self._now_ms = now_ms

    def advance(self, wanted: Wanted) -> list[Done]:
        """Complete what was begun, then a batch for what is wanted beyond it."""
        self._fence.check()
        try:
            return self._advance(wanted)
        except (FilesError, PublicationConflict):
            # A driver that came later may have swept what this one staged: that is the reason then.
            self._fence.check()
            raise

    def _advance(self, wanted: Wanted) -> list[Done]:
        done: list[Done] = []
        standing = self._batches.standing()
        if standing.step is not Step.PLAN:
            assert standing.last is not None
            done.append(self._complete(standing.step, standing.last))
        last = standing.last
        number = 0 if last is None else last.number + 1
        plan = self.plan_next(number, last, wanted)
        if plan is not None:
            if not self._batches.write_plan(plan, self._fence.check):
                # Another driver was faster: its plan stands.
                self._fence.check()
                plan = self._batches.plan(number)
            done.append(self._complete(Step.STAGE, plan))
        return done

    def plan_next(self, number: int, last: Plan | None, wanted: Wanted) -> Plan | None:
        """The next batch's plan, None if there is nothing to do."""
        topic_ids = {} if last is None else dict(last.topic_ids)
        positions: Positions = {} if last is None else dict(last.positions)
        origins: Positions = {} if last is None else dict(last.origins)
        leader_epochs = {} if last is None else dict(last.leader_epochs)
        for topic, topic_id in wanted.topic_ids.items():
            known = topic_ids.setdefault(topic, topic_id)
            if known != topic_id:
                raise made_again(topic, known, topic_id, positions)
        starts: Positions = {}
        ends: Positions = {}
        for where, end in wanted.ends.items():
            start = positions.get(where, wanted.starts.get(where, 0))
            origins.setdefault(where, start)
            starts[where], ends[where] = start, max(start, end)
            if end > start or (end == start and where not in leader_epochs):
                leader_epochs[where] = wanted.leader_epochs.get(where, -1)
        slices = plans.cut(starts, ends, wanted.records_per_file)
        if not slices:
            return None
        return Plan(
            number=number,
            pipeline=self._rooms.pipeline,
            epoch=self._fence.epoch,
            topic_ids=topic_ids,
            origins=origins,
            positions={**positions, **ends},
            slices=slices,
            settings=dict(wanted.settings),
            planned_ms=self._now_ms(),
            leader_epochs={where: epoch for where, epoch in leader_epochs.items() if epoch >= 0},
        )

    # -- one batch -----------------------------------------------------------------------------

    def _complete(self, step: Step, plan: Plan) -> Done:
        if step is Step.STAGE:
            facts = self._stage(plan)
            plans.check_manifest(plan, facts)
            manifest = Manifest(plan.number, self._fence.epoch, tuple(facts))
            self._fence.check()
            if not self._batches.write_manifest(manifest):
                self._fence.check()
                manifest = self._batches.manifest(plan.number)
        else:
            manifest = self._batches.manifest(plan.number)
        self.publish(manifest.files)
        now_ms = self._now_ms()
        commit = plans.commit_of(manifest, self._fence.epoch, now_ms, now_ms - plan.planned_ms)
        if not self._batches.write_commit(commit):
            commit = self._batches.commit(plan.number)
        self.sweep(plan.number)
        return Done(plan, manifest, commit)

    def publish(self, staged: Sequence[FileFacts]) -> None:
        """Every staged file in its place, whatever was done before."""
        if not staged:
            return
        for folder in sorted({each.folder for each in staged}):
            self._files.mkdirs(self._rooms.published(folder))
        pairs = [(each.staged, self._rooms.published(each.path)) for each in staged]
        try:
            if self._files.rename_set(pairs):
                return
        except (AlreadyThere, Missing):
            # Some or all are in place already: one by one says which.
            pass
        for source, target in pairs:
            self._rename(source, target)

    def _rename(self, source: str, target: str) -> None:
        try:
            self._files.rename(source, target)
        except (AlreadyThere, Missing) as error:
            is_source, is_target = self._files.exists(source), self._files.exists(target)
            if is_target and not is_source:
                return
            what = "both are there" if is_source else "neither is there"
            raise PublicationConflict(
                f"{source} can't be published as {target}: {what} ({error})"
            ) from None

    def sweep(self, committed: int) -> None:
        """Delete what tasks of committed batches left aside."""
        for entry in self._files.list(self._rooms.staging):
            number = parse_staging(entry.name)
            if number is not None and number <= committed:
                self._files.delete(entry.path)
