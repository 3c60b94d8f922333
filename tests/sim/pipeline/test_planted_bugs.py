"""Each rule of the publication broken on purpose: the simulation must see it.

A checker that finds nothing proves nothing, so every bug here is one that a careless change could
bring back.
"""

from collections.abc import Iterator

import pytest
from tests.sim.pipeline.test_publication import finish, operations_of, simulation

from headrace.pipeline import plan as plans
from headrace.pipeline.batches import Batches
from headrace.pipeline.layout import parse_staging
from headrace.pipeline.plan import PLAN, FileFacts, Manifest, Plan, Slice, SliceFacts, Step
from headrace.pipeline.publication import Done, Publication, Wanted
from headrace.testing.pipeline_files import SimulatedFiles
from headrace.testing.pipeline_simulation import Faults, PipelineSimulation, Task


class PlanRewritten(Publication):
    """A replay plans anew, with the settings of today, what a death left half published."""

    def _advance(self, wanted: Wanted) -> list[Done]:
        standing = self._batches.standing()
        if standing.step is not Step.PLAN:
            before = None
            if standing.number > 0:
                before = self._batches.plan(standing.number - 1)
            plan = self.plan_next(standing.number, before, wanted)
            assert plan is not None
            for kind in plans.KINDS:
                self._files.delete(self._rooms.record_of(standing.number, kind))
            self._batches.write_plan(plan, lambda: None)
        return super()._advance(wanted)


class NoManifest(Publication):
    """Files are published as soon as they are staged."""

    def _complete(self, step: Step, plan: Plan) -> Done:
        if step is Step.STAGE:
            facts = tuple(self._stage(plan))
            self.publish([one for each in facts for one in each.files])
            manifest = Manifest(plan.number, self._fence.epoch, facts)
            self._batches.write_manifest(manifest)
            step = Step.PUBLISH
        return super()._complete(step, plan)


class CommitFirst(Publication):
    """The commit is written before the files are in place."""

    def publish(self, staged: list[FileFacts]) -> None:  # type: ignore[override]
        standing = self._batches.standing()
        manifest = self._batches.manifest(standing.number)
        self._batches.write_commit(plans.commit_of(manifest, 0, 0, 0))
        super().publish(staged)


class SweepsTheLiving(Publication):
    """What lies in staging at the start is taken for an orphan, a manifest's files too."""

    def _advance(self, wanted: Wanted) -> list[Done]:
        for entry in self._files.list(self._rooms.staging):
            if parse_staging(entry.name) is not None:
                self._files.delete(entry.path)
        return super()._advance(wanted)


class PlanInPlace(Batches):
    """A record is created under its final name and then written."""

    def _write(self, number: int, kind: str, data: bytes) -> bool:
        path = self._rooms.record_of(number, kind)
        if kind != PLAN:
            return super()._write(number, kind, data)
        writer = self._files.create(path)
        writer.write(data)
        writer.hsync()
        writer.close()
        return True


class NoSync(PipelineSimulation):
    def write_file(self, path: str, data: bytes) -> Iterator[None]:
        writer = self.files.create(path)
        yield
        writer.write(data)
        yield
        writer.close()


class NoClose(PipelineSimulation):
    def write_file(self, path: str, data: bytes) -> Iterator[None]:
        writer = self.files.create(path)
        yield
        writer.write(data)
        writer.hsync()


class TaskPublishes(PipelineSimulation):
    """The task itself renames its file into place."""

    def task(self, plan: Plan, work: Slice, folder: str) -> Task:
        facts: SliceFacts = yield from super().task(plan, work, folder)
        for each in facts.files:
            target = self.rooms.published(each.path)
            self.files.mkdirs(target.rsplit("/", 1)[0])
            self.files.rename(each.staged, target)
        yield
        return facts


class Overwrites(SimulatedFiles):
    """A rename that replaces its target, as POSIX's does."""

    def _check_rename(self, source: str, target: str, gone: frozenset[str]) -> None:
        super()._check_rename(source, target, gone | {target})


def run_all(make: type[PipelineSimulation], **parts: type) -> None:
    """Deaths and pauses everywhere, tasks dying everywhere."""
    total, steps = operations_of(False)
    for at in reversed(range(total)):
        for faults in (Faults(kill_at=at, power_cut=True), Faults(pause_at=at)):
            sim = simulation(at, has_sets=False, make=make)
            for name, part in parts.items():
                setattr(sim, name, part)
            sim.while_paused = lambda sim=sim: sim.drive(2)
            sim.drive(3, faults)
            finish(sim)
    for at in range(steps):
        sim = simulation(at, has_sets=False, make=make)
        for name, part in parts.items():
            setattr(sim, name, part)
        sim.drive(3, Faults(task_kill_at=at))
        finish(sim)


@pytest.mark.parametrize("publication", [PlanRewritten, NoManifest, CommitFirst, SweepsTheLiving])
def test_a_broken_publication_is_seen(publication: type[Publication]) -> None:
    with pytest.raises(AssertionError):
        run_all(PipelineSimulation, publication_class=publication)


def test_records_that_appear_before_they_are_whole_are_seen() -> None:
    with pytest.raises(AssertionError):
        run_all(PipelineSimulation, batches_class=PlanInPlace)


@pytest.mark.parametrize("make", [NoSync, NoClose, TaskPublishes])
def test_a_broken_task_is_seen(make: type[PipelineSimulation]) -> None:
    with pytest.raises(AssertionError):
        run_all(make)


def run_replacing() -> None:
    """A driver sleeps before it writes its plan, another plans more, and renames replace."""
    for at in range(12, 30):
        sim = simulation(at, has_sets=False)
        files = Overwrites(has_sets=False)
        files.before, files.after = sim.files.before, sim.files.after
        sim.files = files

        def other(sim: PipelineSimulation = sim) -> None:
            sim.log.append("orders", 0, 4, sim.dice)
            sim.drive(2)

        sim.while_paused = other
        sim.drive(3, Faults(pause_at=at))
        finish(sim)


def test_records_that_can_be_replaced_are_seen() -> None:
    with pytest.raises(AssertionError):
        run_replacing()
