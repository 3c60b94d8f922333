"""Plans, what comes next, and their JSON."""

import json

import pytest

from headrace.pipeline import plan as plans
from headrace.pipeline.plan import COMMIT, MANIFEST, PLAN, DamagedBatch, Slice, Step

WHOLE = frozenset({PLAN, MANIFEST, COMMIT})


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({}, (Step.PLAN, 0)),
        ({0: {PLAN}}, (Step.STAGE, 0)),
        ({0: {PLAN, MANIFEST}}, (Step.PUBLISH, 0)),
        ({0: WHOLE}, (Step.PLAN, 1)),
        ({4: WHOLE, 5: {PLAN}}, (Step.STAGE, 5)),
    ],
)
def test_the_next_step_follows_from_what_is_found(
    found: dict[int, set[str]], wanted: tuple[Step, int]
) -> None:
    assert plans.next_step({n: frozenset(kinds) for n, kinds in found.items()}) == wanted


@pytest.mark.parametrize(
    "found",
    [
        {0: {MANIFEST}},
        {0: {PLAN, COMMIT}},
        {0: {PLAN}, 1: {PLAN}},
        {0: WHOLE, 2: WHOLE},
    ],
)
def test_what_does_not_fit_together_stops(found: dict[int, set[str]]) -> None:
    with pytest.raises(DamagedBatch):
        plans.next_step({n: frozenset(kinds) for n, kinds in found.items()})


def test_ranges_are_cut_evenly_and_completely() -> None:
    slices = plans.cut({("t", 0): 10, ("t", 1): 5}, {("t", 0): 111, ("t", 1): 5}, {"t": 40})
    assert slices == (Slice("t", 0, 10, 33), Slice("t", 0, 43, 34), Slice("t", 0, 77, 34))


def test_a_plan_and_a_manifest_survive_their_json() -> None:
    plan = plans.Plan(
        number=7,
        pipeline="p",
        epoch=2,
        topic_ids={"t": "id"},
        origins={("t", 0): 1},
        positions={("t", 0): 10},
        slices=(Slice("t", 0, 1, 9),),
        settings={"codec": "zstd"},
        planned_ms=5,
        leader_epochs={("t", 0): 4},
    )
    assert plans.plan_from_bytes(plans.plan_to_bytes(plan)) == plan
    file = plans.FileFacts("/s/1", "topic=t", "t-0-1-9.parquet", "t", 0, 1, 9, 9, 77, 100)
    facts = plans.SliceFacts("t", 0, 1, 10, 9, filtered=1, dead=2, files=(file,))
    manifest = plans.Manifest(7, 2, (facts,))
    assert plans.manifest_from_bytes(plans.manifest_to_bytes(manifest)) == manifest


def test_a_plan_of_before_has_no_leader_epochs() -> None:
    plan = plans.Plan(0, "p", 1, {}, {}, {("t", 0): 10}, ())
    written = json.loads(plans.plan_to_bytes(plan))
    del written["leader_epochs"]
    assert plans.plan_from_bytes(json.dumps(written).encode()) == plan


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": 99}'])
def test_a_torn_or_newer_record_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedBatch):
        plans.plan_from_bytes(data)


def test_a_manifest_without_a_slice_of_the_plan_is_refused() -> None:
    plan = plans.Plan(0, "p", 1, {}, {}, {}, (Slice("t", 0, 0, 5), Slice("t", 0, 5, 5)))
    with pytest.raises(DamagedBatch):
        plans.check_manifest(plan, [plans.SliceFacts("t", 0, 0, 5, 5)])
