"""What of a value a schema takes up: new fields and wider numbers, and nothing by halves."""

import pytest
from pyspark.sql.types import StructType

from headrace.pipeline import schema_growth
from headrace.pipeline.schema_growth import count, grown

PINNED = StructType().add("id", "long").add("item", "string").add("is_new", "boolean")


def by(*values: str, fields: StructType = PINNED) -> str:
    return grown(fields, values, ("offset", "Key")).simpleString()


SAME = "struct<id:bigint,item:string,is_new:boolean>"


@pytest.mark.parametrize(
    "value",
    [
        '{"id": 9223372036854775807, "item": "a", "is_new": true}',
        "{}",
        '{"id": null, "item": 5, "is_new": null}',
        '{"item": {"any": [1]}}',
        # They tell no type yet.
        '{"more": null, "list": [], "lists": [[], [null]], "object": {}, "nested": {"a": null}}',
        # Not objects, not JSON.
        '[{"more": 1}]',
        "5",
        "null",
        "no JSON",
        "",
        "[" * 100_000,
        # Names that Spark could not tell from others, or that are none.
        '{"ID": 5, "Item": 1, "OFFSET": 1, "key": 1, "": 1}',
    ],
)
def test_what_fits_or_tells_nothing_changes_nothing(value: str) -> None:
    assert by(value) == SAME


@pytest.mark.parametrize(
    "value",
    [
        '{"id": "text", "more": 1}',
        '{"id": true, "more": 1}',
        '{"id": [1], "more": 1}',
        '{"id": {}, "more": 1}',
        '{"is_new": 1, "more": 1}',
        '{"is_new": "true", "more": 1}',
        '{"more": 1, "id": "last"}',
    ],
)
def test_a_value_that_never_fits_adds_none_of_its_fields(value: str) -> None:
    assert by(value) == SAME


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        ("1.5", "double"),
        ("1.0", "double"),
        ("1e3", "double"),
        ("9223372036854775808", "decimal(20,0)"),
        ("-9223372036854775809", "decimal(20,0)"),
        ("1" * 30, "decimal(30,0)"),
        ("1" * 39, "double"),
    ],
)
def test_numbers_widen_as_sparks_inference_has_it(number: str, kind: str) -> None:
    assert by(f'{{"id": {number}}}') == SAME.replace("bigint", kind)
    # And never back.
    assert by(f'{{"id": {number}}}', '{"id": 1}') == SAME.replace("bigint", kind)
    assert by(f'{{"id": {number}}}', '{"id": 1}', '{"id": 0.5}') == SAME.replace("bigint", "double")


def test_new_fields_come_behind_the_others_at_every_depth() -> None:
    text = '{"z": 1, "a": {"b": [{"c": true}, {"d": "x"}], "none": null}, "mixed": [1, "a"]}'
    wanted = "z:bigint,a:struct<b:array<struct<c:boolean,d:string>>>,mixed:array<string>"
    assert by(text) == f"{SAME[:-1]},{wanted}>"
    fields = grown(PINNED, [text], ())
    again = grown(fields, ['{"a": {"b": [{"c": false, "e": 1}], "f": 2}}', '{"z": 1.5}'], ())
    wanted = "z:double,a:struct<b:array<struct<c:boolean,d:string,e:bigint>>,f:bigint>"
    assert again.simpleString() == f"{SAME[:-1]},{wanted},mixed:array<string>>"
    # Text where an object is: the record is a dead letter, with what else it has.
    assert grown(again, ['{"a": "text", "new": 1}'], ()) == again


def test_objects_with_keys_of_their_own_do_not_grow_it_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema_growth, "FIELDS_MAX", 10)
    fields = grown(PINNED, [f'{{"seen": {{"user-{n}": 1}}}}' for n in range(100)], ())
    assert count(fields) == 10
    # Numbers still widen.
    assert grown(fields, ['{"id": 0.5}'], ()).fields[0].dataType.simpleString() == "double"
