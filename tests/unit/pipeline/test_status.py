"""Where a pipeline stands, and what Prometheus sees of it."""

from prometheus_client import generate_latest
from tests.unit.pipeline.flushing import Flushing, record

from headrace.pipeline.layout import Rooms
from headrace.pipeline.metrics import PipelineMetrics
from headrace.pipeline.status import status_of


def flushed() -> Flushing:
    flushing = Flushing({("orders", 0): [record(0, n) for n in range(10)]})
    flushing.flush()
    return flushing


def test_lag_in_records_and_in_seconds() -> None:
    asked = []

    def oldest(where: tuple[str, int], start: int, end: int) -> int:
        asked.append((where, start, end))
        return 5_000

    found = status_of(
        "p", flushed().batches(), lambda wanted: dict.fromkeys(wanted, 17), oldest, 9_500
    )
    assert (found.lag_records, found.lag_seconds) == (7, 4.5)
    assert asked == [(("orders", 0), 10, 17)]
    told = found.to_json()
    assert (told["state"], told["batches"]) == ("idle", 1)
    assert told["last_batch"]["records"] == 10


def test_without_lag_nothing_is_read() -> None:
    def never(*_: object) -> int:
        raise AssertionError

    found = status_of("p", flushed().batches(), lambda wanted: dict.fromkeys(wanted, 10), never, 0)
    assert (found.lag_records, found.lag_seconds) == (0, 0.0)


def test_a_pipeline_that_has_done_nothing() -> None:
    found = status_of("p", Flushing().batches(), lambda _: {}, lambda *_: None, 0)
    assert (found.batches, found.last, found.lag_records) == (0, None, 0)


def test_metrics_have_the_batches_and_the_lag() -> None:
    flushing = flushed()
    metrics = PipelineMetrics("p")
    (batch,) = flushing.batches().committed()
    metrics.on_commit(batch.commit)
    found = status_of(
        "p", flushing.batches(), lambda wanted: dict.fromkeys(wanted, 12), lambda *_: 0, 1_000
    )
    metrics.on_lags(found.lags)
    text = generate_latest(metrics.registry).decode()
    assert 'headrace_pipeline_records_total{pipeline="p"} 10.0' in text
    lag = 'headrace_pipeline_lag_records{partition="0",pipeline="p",topic="orders"} 2.0'
    assert lag in text


def test_old_batches_are_folded_and_still_told() -> None:
    rooms = Rooms("/lake", "/lake/_headrace/p", "p", segment_batches=2)
    flushing = Flushing({("orders", 0): []}, rooms=rooms)
    for number in range(7):
        flushing.rows["orders", 0].append(record(0, number))
        flushing.flush()
    batches = flushing.batches()
    # Segments of batches 0-1, 2-3, 4-5 and 6: the last two stay.
    assert batches.fold() == 2
    assert batches.fold() == 0
    assert [batch.plan.number for batch in batches.committed()] == list(range(7))
    assert [batch.plan.number for batch in batches.committed(3)] == [3, 4, 5, 6]
    assert batches.standing().number == 7
    report = flushing.verify()
    assert report.is_right, report.all_problems
