"""A schema of JSON values that grows: new fields, and numbers that need a wider type.

Owns: what of a value a schema can take up. Must not know: where values come from, where schemas
are kept, Spark's sessions (its types are values here).

The types are those that Spark's own inference gives. What grows: an object's field that the schema
does not have, at any depth; BIGINT to DOUBLE by a fraction, to DECIMAL by a whole number beyond 64
bits. Nothing else does: a value that still does not fit (text for a number) changes nothing at
all, because its record goes to the dead letters, with all its fields. So a grown schema takes every
value that the one before took.

A field that is null, or holds nothing yet (`[]`, `{}`), is taken up when it has a value. Spark
knows no difference between upper and lower case: a field whose name another one has is left out.
"""

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

FIELDS_MAX = 1000
"""At all depths. Objects with keys of their own for each record would never stop growing."""
LONG_DIGITS = 20
DECIMAL_DIGITS_MAX = 38


class _DoesNotFit(Exception):
    pass


def grown(fields: StructType, values: Iterable[str], taken: Iterable[str]) -> StructType:
    """`fields`, or wider ones that hold the values too; `taken` are names of other columns."""
    names = frozenset(name.lower() for name in taken)
    for text in values:
        fields = _grown_by(fields, text, names)
    return fields


def count(kind: DataType) -> int:
    """The fields at all depths."""
    if isinstance(kind, ArrayType):
        return count(kind.elementType)
    if isinstance(kind, StructType):
        return sum(1 + count(field.dataType) for field in kind.fields)
    return 0


def _grown_by(fields: StructType, text: str, taken: frozenset[str]) -> StructType:
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            return fields
        wider = _struct(fields, value, taken)
    except (ValueError, RecursionError, _DoesNotFit):
        return fields
    is_too_many = count(wider) > max(FIELDS_MAX, count(fields))
    return fields if is_too_many else wider


def _struct(kind: StructType, value: dict[str, Any], taken: frozenset[str]) -> StructType:
    fields = {field.name: field for field in kind.fields}
    names = taken | {name.lower() for name in fields}
    for name, inner in value.items():
        if name in fields:
            wider = _wider(fields[name].dataType, inner)
            if wider is not fields[name].dataType:
                fields[name] = StructField(name, wider)
            continue
        new = _type_of(inner)
        if new is not None and name and name.lower() not in names:
            fields[name] = StructField(name, new)
            names |= {name.lower()}
    if list(fields.values()) == kind.fields:
        return kind
    return StructType(list(fields.values()))


def _wider(kind: DataType, value: Any) -> DataType:
    """The type itself if it holds the value."""
    if value is None or isinstance(kind, StringType):
        # Spark hands any value as the text it is.
        return kind
    if isinstance(kind, StructType) and isinstance(value, dict):
        return _struct(kind, value, frozenset())
    if isinstance(kind, ArrayType) and isinstance(value, list):
        element = kind.elementType
        for each in value:
            element = _wider(element, each)
        return kind if element is kind.elementType else ArrayType(element)
    if isinstance(kind, BooleanType) and isinstance(value, bool):
        return kind
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _wider_number(kind, _type_of_number(value))
    raise _DoesNotFit


def _wider_number(kind: DataType, other: DataType) -> DataType:
    if isinstance(kind, DoubleType):
        return kind
    if isinstance(kind, LongType | DecimalType) and isinstance(other, DoubleType):
        return other
    if isinstance(kind, LongType):
        return kind if isinstance(other, LongType) else other
    if isinstance(kind, DecimalType):
        is_wider = isinstance(other, DecimalType) and other.precision > kind.precision
        return other if is_wider else kind
    raise _DoesNotFit


def _type_of_number(value: int | float) -> DataType:
    if isinstance(value, float):
        return DoubleType()
    if -(1 << 63) <= value < 1 << 63:
        return LongType()
    digits = len(str(abs(value)))
    return DecimalType(max(LONG_DIGITS, digits)) if digits <= DECIMAL_DIGITS_MAX else DoubleType()


def _type_of(value: Any) -> DataType | None:
    """None: it does not tell."""
    if isinstance(value, bool):
        return BooleanType()
    if isinstance(value, str):
        return StringType()
    if isinstance(value, int | float):
        return _type_of_number(value)
    if isinstance(value, dict):
        found = _struct(StructType([]), value, frozenset())
        return found if found.fields else None
    if isinstance(value, list):
        known = [each for each in value if _type_of(each) is not None]
        if not known:
            return None
        element = _type_of(known[0])
        assert element is not None
        try:
            for each in known[1:]:
                element = _wider(element, each)
        except _DoesNotFit:
            # As Spark does for a list of this and that: there is no column yet to be kept.
            element = StringType()
        return ArrayType(element)
    return None
