"""When a batch starts and how far it goes."""

from headrace.pipeline.admission import FILES_PER_PARTITION_MAX, Admission

STARTS = {("t", 0): 100, ("t", 1): 0}


def test_what_is_there_at_the_start_goes_at_once() -> None:
    rule = Admission(60.0, {"t": 1000})
    assert rule.ends(STARTS, {("t", 0): 110, ("t", 1): 5}, 0.0) == {("t", 0): 110, ("t", 1): 5}


def test_nothing_new_is_no_batch_however_long_it_takes() -> None:
    rule = Admission(60.0, {"t": 1000})
    assert rule.ends(STARTS, dict(STARTS), 1e9) == STARTS


def test_a_batch_waits_for_its_time_or_for_a_full_file() -> None:
    rule = Admission(60.0, {"t": 1000}, began_s=0.0)
    few, many = {("t", 0): 150, ("t", 1): 0}, {("t", 0): 1100, ("t", 1): 7}
    assert rule.ends(STARTS, few, 30.0) == STARTS
    assert rule.ends(STARTS, many, 31.0) == many
    assert rule.began_s == 31.0
    assert rule.ends(STARTS, few, 80.0) == STARTS
    assert rule.ends(STARTS, few, 92.0) == few


def test_a_clock_that_ticks_a_little_early_is_on_time() -> None:
    rule = Admission(1.0, {"t": 1000}, began_s=10.0)
    assert rule.ends(STARTS, {("t", 0): 150, ("t", 1): 0}, 10.98) != STARTS


def test_after_a_long_pause_batches_are_bounded() -> None:
    rule = Admission(60.0, {"t": 10})
    ends = rule.ends(STARTS, {("t", 0): 10_000, ("t", 1): 3}, 0.0)
    assert ends == {("t", 0): 100 + 10 * FILES_PER_PARTITION_MAX, ("t", 1): 3}
    # The rest is more than a full file: the next batch starts at once.
    assert rule.ends(ends, {("t", 0): 10_000, ("t", 1): 3}, 0.0) != ends
