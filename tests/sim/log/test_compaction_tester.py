"""Bugs that a cleaner could have, planted one by one: the tests of compaction must find each."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.log.test_compaction import World, many_cleanings, stop_everywhere

from headrace.log.compaction import selection, swapping
from headrace.log.compaction.aborted import CleanedTransactions
from headrace.log.compaction.engine import PythonEngine
from headrace.log.compaction.rewriting import Rewriting
from headrace.log.partition_log import PartitionLog

SEEDS = 60

Patch = pytest.MonkeyPatch


def aborted_data_supersedes(patch: Patch) -> None:
    right = CleanedTransactions.on_batch

    def on_batch(self: CleanedTransactions, header: Any) -> bool:
        return right(self, header) and False

    patch.setattr(CleanedTransactions, "on_batch", on_batch)


def cleaning_passes_the_last_stable_offset(patch: Patch) -> None:
    right = selection._end_slot

    def end_slot(log: PartitionLog, _stable: int, first_dirty: int, now_ms: int) -> int:
        return right(log, log.log_end_offset, first_dirty, now_ms)

    patch.setattr(selection, "_end_slot", end_slot)


def producers_are_forgotten(patch: Patch) -> None:
    patch.setattr(Rewriting, "_must_stay", lambda *_: False)


def timestamps_are_not_shifted(patch: Patch) -> None:
    module = "headrace.log.compaction.rewriting.shift_timestamps"
    patch.setattr(module, lambda payload, _count, _shift: payload)


def keys_of_the_clean_part_are_not_looked_up(patch: Patch) -> None:
    """A tombstone goes before the values that it deletes."""
    patch.setattr(Rewriting, "_has_passed", lambda *_: True)
    right = PythonEngine.keep

    def keep(self: PythonEngine, payload: Any, count: int, base: int, tombstones: bool) -> Any:
        kept = right(self, payload, count, base, True)
        return kept if not kept.has_tombstones else right(self, payload, count, base, tombstones)

    def note_nothing(*_: Any) -> int:
        return 0

    patch.setattr(PythonEngine, "keep", keep)
    patch.setattr(PythonEngine, "note", note_nothing)


BUGS = [
    aborted_data_supersedes,
    cleaning_passes_the_last_stable_offset,
    producers_are_forgotten,
    timestamps_are_not_shifted,
    keys_of_the_clean_part_are_not_looked_up,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bug(monkeypatch)
    assert any(fails(lambda seed=seed: many_cleanings(seed)) for seed in range(SEEDS))


class HastyWorld(World):
    """Its clean offset is written before the swap is durable."""

    def clean_as_broker(self) -> None:
        log = self.log
        right = self.disk.sync_directory

        def sync_directory(path: str) -> None:
            if path != log.path or ".cleaned" in "".join(self.disk.list(path)):
                right(path)

        self.disk.sync_directory = sync_directory  # type: ignore[method-assign]
        try:
            super().clean_as_broker()
        finally:
            self.disk.sync_directory = right  # type: ignore[method-assign]


def comes_back(kind: type[World], seed: int) -> bool:
    """Whether a deleted key is there again after a power cut behind its cleaning."""
    world = kind(seed)
    world.put((b"a", b"deleted later"), (b"b", b"1"))
    world.log.roll()
    world.put((b"a", None), (b"b", b"2"))
    world.log.roll()
    world.log.flush_now()
    world.directory.checkpoint({})
    world.clean_as_broker()
    world.stop("power")
    for _ in range(3):
        world.clock.advance(3000)
        world.put((b"z", b"1"))
        world.log.roll()
        world.log.flush_now()
        world.clean_as_broker()
    return b"a" in world.latest()


def test_a_clean_offset_ahead_of_its_swap_is_found() -> None:
    assert any(comes_back(HastyWorld, seed) for seed in range(30))
    assert not any(comes_back(World, seed) for seed in range(30))


def swap_in_place(log: PartitionLog, cleaned: Any) -> None:
    """Without `.swap`: the new files take their names one by one."""
    storage, stem = log.files.storage, swapping.stem_of(log.path, cleaned.base_offset)
    first = log.bases.index(cleaned.base_offset)
    last = first + len(cleaned.sources)
    for old in log.segments[first:last]:
        swapping._set_aside(log, old, keeps_snapshot=old.base_offset == cleaned.base_offset)
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        if storage.exists(stem + suffix + ".cleaned"):
            storage.rename(stem + suffix + ".cleaned", stem + suffix)
    folder = swapping.Folder(log.files, log.path, log.config, log.clock.now_ms())
    log.segments[first:last] = [folder.segment(cleaned.base_offset, cleaned.size)]
    log.bases[first:last] = [cleaned.base_offset]


def test_a_swap_without_a_second_name_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(swapping, "_swap_group", swap_in_place)
    assert any(fails(lambda seed=seed: stop_everywhere(seed, "kill", step=4)) for seed in range(2))


def fails(test: Callable[[], object]) -> bool:
    try:
        test()
    except Exception:
        return True
    return False
