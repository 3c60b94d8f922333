"""A failed query is started again, also while the file system is silent; a fenced one is not."""

from collections.abc import Callable

import pytest

from headrace.pipeline.fence import Fenced
from headrace.pipeline.job import Pipeline, PipelineFailed
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import FilesError


class FakeFence:
    def __init__(self, answer: Exception | None) -> None:
        self._answer = answer

    def check(self) -> None:
        if self._answer is not None:
            raise self._answer


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Exception | None], Pipeline]:
    monkeypatch.setattr("headrace.pipeline.job.PAUSE_S_MIN", 0.0)

    def make(failures: int, fence_says: Exception | None) -> Pipeline:
        settings = Settings("nowhere:1", "hdfs://nowhere:1/lake", topics=("t",), restarts_max=3)
        pipeline = Pipeline(settings)
        pipeline._fence = FakeFence(fence_says)  # type: ignore[assignment]
        outcomes = iter([FilesError("no answer")] * failures + [None])
        pipeline._run_query = lambda: next(outcomes)  # type: ignore[method-assign]
        return pipeline

    return make


def test_an_unreachable_file_system_is_waited_for(
    failing: Callable[[int, Exception | None], Pipeline],
) -> None:
    failing(3, FilesError("no answer"))._run_with_restarts()
    with pytest.raises(PipelineFailed, match="failed 4 times: no answer"):
        failing(4, FilesError("no answer"))._run_with_restarts()


def test_another_driver_ends_it_at_once(
    failing: Callable[[int, Exception | None], Pipeline],
) -> None:
    with pytest.raises(Fenced):
        failing(1, Fenced("another driver"))._run_with_restarts()
