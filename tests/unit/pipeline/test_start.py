"""A driver takes the checkpoint over only when nothing can keep it from its work any more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.unit.pipeline.flushing import Flushing, record

from headrace.base.errors import UsageError
from headrace.pipeline import job
from headrace.pipeline.inferred_schema import INFER
from headrace.pipeline.java import JavaMissing
from headrace.pipeline.settings import Settings

SETTINGS = Settings(
    "nowhere:1", "hdfs://nowhere:1/lake", topics=("t",), metrics_port=-1, sql="SELECT 1 FROM events"
)


class FakeSession:
    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class Start:
    """The steps of a start, in their order; `spark` and `check` may be made to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.checked: list[str | None] = []
        self.session = FakeSession()
        monkeypatch.setattr(job.preflight, "check", lambda _: ["t"])
        monkeypatch.setattr(job.preflight, "sized", lambda settings: settings)
        monkeypatch.setattr(job, "start_session", self._step("spark", self.session))
        monkeypatch.setattr(job, "_compile_aside", lambda: None)
        self.files: list[MagicMock] = []
        monkeypatch.setattr(job, "HdfsFiles", self._files_of)
        monkeypatch.setattr(job.SchemaPin, "read", lambda _: "id INT")
        monkeypatch.setattr(job.transform, "check", self._check)
        monkeypatch.setattr(job.Pipeline, "_open", self._step("claim", None))
        monkeypatch.setattr(job.Pipeline, "_run_with_restarts", self._step("query", None))

    def run(self, settings: Settings) -> None:
        job.Pipeline(settings).run()

    def _files_of(self, url: str) -> MagicMock:
        assert url == "hdfs://nowhere:1"
        self.files.append(MagicMock())
        return self.files[-1]

    def _check(self, _: Any, settings: Settings) -> None:
        self.checked.append(settings.schema)
        self._step("check", None)()

    def _step(self, name: str, answer: Any) -> Callable[..., Any]:
        def take(*_: Any, **__: Any) -> Any:
            if name in self.failing:
                raise self.failing[name]
            self.steps.append(name)
            return answer

        return take


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    return Start(monkeypatch)


def test_the_checkpoint_is_claimed_after_spark_and_the_transformation(start: Start) -> None:
    start.run(SETTINGS)
    assert start.steps == ["spark", "check", "claim", "query"]
    assert start.session.is_stopped


@pytest.mark.parametrize(
    ("step", "failure"), [("spark", JavaMissing("no Java")), ("check", UsageError("bad SQL"))]
)
def test_a_start_that_fails_leaves_the_running_driver_alone(
    start: Start, step: str, failure: Exception
) -> None:
    start.failing[step] = failure
    with pytest.raises(type(failure), match=str(failure)):
        start.run(SETTINGS)
    assert "claim" not in start.steps
    assert start.session.is_stopped == (step == "check")


def test_an_inferred_schema_that_is_pinned_is_checked_with(start: Start) -> None:
    start.run(replace(SETTINGS, schema=INFER))
    assert start.checked == ["id INT"]
    (files,) = start.files
    files.close.assert_called_once()


def test_the_files_of_a_pipeline_are_closed_with_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        job.Pipeline, "_open", lambda pipeline: pipeline._opened("hdfs://nowhere:1")
    )
    monkeypatch.setattr(
        job.Pipeline, "_run_with_restarts", lambda _: start.files[0].close.assert_not_called()
    )
    start.run(SETTINGS)
    (files,) = start.files
    files.close.assert_called_once()


class FakeLog:
    def __init__(self) -> None:
        self.told: list[tuple[str, dict[tuple[str, int], int]]] = []

    def commit_group(self, group: str, positions: dict[tuple[str, int], int]) -> None:
        self.told.append((group, positions))


def test_a_start_tells_the_group_what_the_last_driver_may_have_died_before_telling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flushing = Flushing({("t", 0): [record(0, n) for n in range(10)]})
    flushing.flush()
    pipeline = job.Pipeline(replace(SETTINGS, sql=None))
    log = FakeLog()
    made: dict[str, Any] = {
        "_spark": MagicMock(),
        "_publication": MagicMock(**{"advance.return_value": ()}),
        "_batches": flushing.batches(),
        "_log": log,
        "_learn_sizes": lambda _: None,
    }
    for name, value in made.items():
        monkeypatch.setattr(pipeline, name, value, raising=False)
    pipeline._start_query()
    assert log.told == [(pipeline.settings.group, {("t", 0): 10})]
