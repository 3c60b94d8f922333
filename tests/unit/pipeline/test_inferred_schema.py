"""The pinned schema is one for everybody; it only grows, and what was pinned stays written."""

from typing import Any

import pytest
from pyspark.sql.types import StructType
from tests.unit.pipeline.flushing import ROOMS

from headrace.base.errors import UsageError
from headrace.pipeline import inferred_schema
from headrace.pipeline.inferred_schema import (
    INFER,
    NOTHING_DDL,
    InferredSchema,
    Sample,
    SchemaPin,
    in_turn,
    infer,
    last_of,
)
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.settings import Settings
from headrace.testing.pipeline_files import SimulatedFiles
from headrace.testing.pipeline_simulation import Killed


def test_the_first_pin_stands() -> None:
    files = SimulatedFiles()
    files.mkdirs(ROOMS.checkpoint)
    first, second = SchemaPin(files, ROOMS, "a"), SchemaPin(files, ROOMS, "b")
    assert first.read() is None
    assert first.pin("id BIGINT", 10) == "id BIGINT"
    # Another driver saw other records: it takes what is there, and leaves nothing aside.
    assert second.pin("id STRING", 20) == "id BIGINT"
    assert second.read() == first.read() == "id BIGINT"
    assert files.list(ROOMS.aside) == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format":1}', b'{"format":2,"schema":"a INT"}'])
def test_a_damaged_pin_is_never_inferred_anew(content: bytes) -> None:
    files = SimulatedFiles()
    writer = files.create(ROOMS.schema)
    writer.write(content)
    writer.close()
    with pytest.raises(UsageError, match=r"schema\.json"):
        SchemaPin(files, ROOMS, "a").read()


def test_without_records_there_is_nothing_to_infer_and_without_values_it_is_said() -> None:
    assert infer(None, Sample((), 0)) == NOTHING_DDL  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="first 7 records"):
        infer(None, Sample((), 7))  # type: ignore[arg-type]


def test_a_pin_grows_by_one_behind_the_other_whoever_writes_it() -> None:
    files = SimulatedFiles()
    files.mkdirs(ROOMS.checkpoint)
    first, second = SchemaPin(files, ROOMS, "a"), SchemaPin(files, ROOMS, "b")
    first.pin("id", 10)
    raced: list[str] = []

    def wider(ddl: str) -> str:
        # Another driver grows it between the look and the write.
        if not raced:
            raced.append(second.grow(lambda found: found + " b", 20))
        return ddl + " a"

    assert first.grow(wider, 30) == "id b a"
    assert raced == ["id b"]
    assert first.read() == second.read() == "id b a"
    names = [each.name for each in files.list(ROOMS.checkpoint) if not each.is_folder]
    assert names == ["schema-2.json", "schema-3.json", "schema.json"]
    # What does not grow is not written, and the first pin is nobody's to make again.
    assert first.grow(lambda found: found, 40) == "id b a"
    assert second.pin("other", 1) == "id b a"
    assert len(files.list(ROOMS.checkpoint)) == len(names) + 1
    assert files.list(ROOMS.aside) == []


def test_killed_before_every_operation_the_schema_is_the_old_or_the_new_one() -> None:
    seen: set[str | None] = set()
    for kill_at in range(100):
        files = SimulatedFiles()
        files.mkdirs(ROOMS.checkpoint)
        SchemaPin(files, ROOMS, "a").pin("id", 1)
        left = [kill_at]

        def before(_operation: str, _path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        files.before = before
        try:
            SchemaPin(files, ROOMS, "a").grow(lambda ddl: ddl + " a", 2)
        except Killed:
            files.before = lambda _operation, _path: None
            after = SchemaPin(files, ROOMS, "b")
            seen.add(after.read())
            assert after.grow(lambda ddl: ddl if ddl == "id a" else ddl + " a", 3) == "id a"
            assert after.read() == "id a"
            continue
        assert seen == {"id"}
        return
    pytest.fail("it never came to its end")


def test_the_tenth_schema_is_newer_than_the_ninth() -> None:
    files = SimulatedFiles()
    files.mkdirs(ROOMS.checkpoint)
    pin = SchemaPin(files, ROOMS, "a")
    pin.pin("1", 1)
    for version in range(2, 12):
        assert pin.grow(lambda _, version=version: str(version), 1) == str(version)  # type: ignore[misc]
    assert pin.read() == "11"


def test_the_last_records_are_looked_at_and_partitions_take_turns() -> None:
    assert last_of(OffsetRange("t", 0, 5, 100, "id"), 10) == OffsetRange("t", 0, 90, 100, "id")
    assert last_of(OffsetRange("t", 0, 95, 100), 10).start == 95
    assert last_of(OffsetRange("t", 0, 95, 100), 0).start == 99
    ranges = [OffsetRange("t", each, 0, 1) for each in range(5)]
    turns = [[each.partition for each in in_turn(ranges, turn, 2)] for turn in range(3)]
    assert turns == [[0, 1], [2, 3], [4, 0]]
    assert [each.partition for each in in_turn(ranges, 3, 8)] == [4, 0, 1, 2, 3]
    assert in_turn([], 3, 8) == []


class World:
    """A log's values and a transformation that may refuse; a DDL is the JSON of its fields."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = SimulatedFiles()
        self.files.mkdirs(ROOMS.checkpoint)
        self.values: list[str] = []
        self.dead: list[bytes] = []
        self.said: list[str] = []
        self.refusal: Exception | None = None
        self.fence: Exception | None = None
        self.inferences = self.checks = 0
        made: dict[str, Any] = {
            "sample": lambda _log, _ranges: Sample(tuple(self.values), len(self.values)),
            "infer": self._infer,
            "fields_of": lambda ddl: _fields(ddl),
        }
        for name, value in made.items():
            monkeypatch.setattr(inferred_schema, name, value)
        monkeypatch.setattr(StructType, "toDDL", lambda fields: fields.json())
        monkeypatch.setattr(inferred_schema.transform, "check", self._check)
        monkeypatch.setattr(
            inferred_schema.dead_letters, "newest_values", lambda *_, **__: list(self.dead)
        )

    def driver(self, nonce: str = "a") -> InferredSchema:
        settings = Settings("nowhere:1", "hdfs://nowhere:1/lake", topics=("t",), schema=INFER)
        return InferredSchema(
            None,  # type: ignore[arg-type]
            settings,
            SchemaPin(self.files, ROOMS, nonce),
            check_fence=self._fence,
            say=self.said.append,
        )

    def pins(self) -> int:
        return sum(each.name.startswith("schema") for each in self.files.list(ROOMS.checkpoint))

    def _infer(self, _spark: Any, _taken: Sample) -> str:
        self.inferences += 1
        return StructType().add("id", "long").json()

    def _check(self, _spark: Any, _settings: Settings) -> None:
        self.checks += 1
        if self.refusal is not None:
            raise self.refusal

    def _fence(self) -> None:
        if self.fence is not None:
            raise self.fence


def _fields(ddl: str) -> StructType:
    import json

    return StructType.fromJson(json.loads(ddl))


def types(ddl: str) -> str:
    return _fields(ddl).simpleString()


RANGES = [OffsetRange("t", 0, 0, 10)]


def test_a_batch_with_new_fields_or_wider_numbers_grows_the_schema_before_its_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.values = ['{"id": 1}']
    driver = world.driver()
    first = driver.of(RANGES, had_dead=False)
    assert types(first) == "struct<id:bigint>"
    # The same again: nothing is written, asked or inferred.
    assert driver.of(RANGES, had_dead=False) == first
    assert (world.pins(), world.checks, world.inferences) == (1, 0, 1)
    world.values = ['{"id": 2, "item": "a"}', '{"id": "two", "other": 1}', "no JSON"]
    second = driver.of(RANGES, had_dead=False)
    assert types(second) == "struct<id:bigint,item:string>"
    # Records that were dead letters widen it for those that follow, and for the same sent back.
    world.values, world.dead = ['{"id": 3}'], [b'{"id": 1.5}', b'{"id": "text"}']
    assert driver.of(RANGES, had_dead=False) == second
    third = driver.of(RANGES, had_dead=True)
    assert types(third) == "struct<id:double,item:string>"
    assert (world.pins(), world.inferences) == (3, 1)
    assert sum("the schema grows" in text for text in world.said) == 2
    # Another driver, and one that starts later, has the newest.
    assert world.driver("b").of(RANGES, had_dead=False) == third


def test_a_transformation_that_does_not_take_it_goes_on_with_the_narrower_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.values = ['{"id": 1}']
    driver = world.driver()
    first = driver.of(RANGES, had_dead=False)
    world.refusal = UsageError("two columns of the result have one name: twice")
    world.values = ['{"id": 1, "twice": 2}']
    assert [driver.of(RANGES, had_dead=False) for _ in range(3)] == [first] * 3
    assert world.pins() == world.checks == 1
    (sentence,) = (text for text in world.said if "does not grow" in text)
    assert "two columns" in sentence


def test_a_driver_that_is_out_pins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.values = ['{"id": 1}']
    driver = world.driver()
    world.fence = UsageError("another driver")
    with pytest.raises(UsageError, match="another driver"):
        driver.of(RANGES, had_dead=False)
    assert world.pins() == 0
    world.fence = None
    driver.of(RANGES, had_dead=False)
    world.fence, world.values = UsageError("another driver"), ['{"id": 1, "more": 2}']
    with pytest.raises(UsageError, match="another driver"):
        driver.of(RANGES, had_dead=False)
    assert world.pins() == 1
