"""A target with files and a checkpoint: which of the two a new driver may believe."""

import pytest
from tests.unit.pipeline.flushing import Flushing, record

from headrace.pipeline.plan import COMMIT
from headrace.pipeline.preflight import CannotStart, check_target
from headrace.pipeline.settings import Settings

SETTINGS = Settings(
    "nowhere:1", "hdfs://nowhere:1/lake", topics=("orders",), name="p", checkpoint=""
)


def flushed() -> Flushing:
    flushing = Flushing({("orders", 0): [record(0, offset) for offset in range(10)]})
    flushing.flush()
    assert flushing.published()
    return flushing


def test_files_of_a_first_batch_that_was_not_committed_are_ours() -> None:
    flushing = flushed()
    flushing.files.delete(flushing.rooms.record_of(0, COMMIT))
    check_target(flushing.files, flushing.batches(), SETTINGS)
    assert len(flushing.flush()) == 1
    assert flushing.verify().is_right


def test_files_that_the_checkpoint_does_not_know_are_in_the_way() -> None:
    flushing = flushed()
    flushing.files.delete(flushing.rooms.batches)
    with pytest.raises(CannotStart, match="would be written twice"):
        check_target(flushing.files, flushing.batches(), SETTINGS)
