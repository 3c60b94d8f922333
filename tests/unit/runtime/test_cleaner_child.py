"""The cleaner's process: its choice of an engine, its answers, and how they are read."""

import json
import sys
from pathlib import Path

import pytest

from headrace.base.errors import CorruptionError
from headrace.broker.cleaner import CleaningStopped
from headrace.log.compaction.engine import PythonEngine
from headrace.log.compaction.job import CleaningJob, CleaningOutcome
from headrace.runtime import cleaner_child
from headrace.runtime.cleaner import answer_of
from headrace.wire.kafka.records import build_batch


def job_in(folder: Path, size: int) -> CleaningJob:
    return CleaningJob(
        folder=str(folder),
        segments=((0, size),),
        first_dirty_offset=0,
        end_offset=2,
        now_ms=0,
        delete_retention_ms=0,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 20,
        index_interval_bytes=4096,
        buffer_bytes=1 << 20,
        load_factor=0.9,
        io_bytes_per_second=float("inf"),
        producers={},
        aborted=(),
    )


@pytest.fixture(autouse=True)
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "headrace.log.compaction.compiled", None)


def answered(job: CleaningJob) -> object:
    line = json.dumps(cleaner_child.answer(job.to_json())) + "\n"
    return answer_of(line.encode())


def test_without_numba_python_does_it(tmp_path: Path) -> None:
    first = build_batch([(b"k", b"1", (), 0)])
    content = bytes(first + build_batch([(b"k", b"2", (), 0)], base_offset=1))
    (tmp_path / f"{0:020d}.log").write_bytes(content)
    job = job_in(tmp_path, len(content))
    assert isinstance(cleaner_child.engine_for(job), PythonEngine)
    outcome = answered(job)
    assert isinstance(outcome, CleaningOutcome)
    assert (outcome.records_read, outcome.records_kept, outcome.end_offset) == (2, 1, 2)
    assert (tmp_path / f"{0:020d}.log.cleaned").read_bytes() == content[len(first) :]


def test_damage_and_absence_are_told(tmp_path: Path) -> None:
    assert isinstance(answered(job_in(tmp_path, 100)), CleaningStopped)
    (tmp_path / f"{0:020d}.log").write_bytes(bytes(100))
    outcome = answered(job_in(tmp_path, 100))
    assert isinstance(outcome, CorruptionError)
    assert outcome.position == 0
    assert isinstance(answer_of(b""), CleaningStopped)
