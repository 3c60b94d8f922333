"""The numbers in a client's telemetry: OTLP metrics, as far as clients send them.

Owns: finding names and numbers in the protobuf of opentelemetry.proto.metrics.v1.MetricsData.
Must not know: clients, subscriptions. Histograms and summaries are left out: no Kafka client
sends them.

    MetricsData.1 resource_metrics > .2 scope_metrics > .2 metrics
    Metric      .1 name  .5 gauge  .7 sum        gauge, sum  .1 data_points   sum .2 temporality
    data point  .4 as_double fixed64  .6 as_int sfixed64

Invariant: whatever the bytes are, reading ends, with numbers or with `TelemetryError`.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from headrace.base.errors import ProtocolError

_DOUBLE = Struct("<d")
_SFIXED64 = Struct("<q")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DELTA = 1
_NAME, _GAUGE, _SUM = 1, 5, 7

Field = tuple[int, int, int | bytes]


class TelemetryError(ProtocolError):
    """Bytes that are no OTLP metrics."""


class MetricPoint(NamedTuple):
    name: str
    value: float
    is_delta: bool
    """Since the last push, not since the start."""


def read_points(content: bytes) -> Iterator[MetricPoint]:
    for resource in _messages(content, 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                yield from _points(metric)


def _points(metric: bytes) -> Iterator[MetricPoint]:
    name = b"".join(value for value in _messages(metric, _NAME))
    for number in (_GAUGE, _SUM):
        for data in _messages(metric, number):
            is_delta = any(
                field == 2 and kind == _VARINT and value == _DELTA
                for field, kind, value in _fields(data)
            )
            total = 0.0
            count = 0
            for point in _messages(data, 1):
                value = _number(point)
                if value is not None:
                    total += value
                    count += 1
            if count:
                yield MetricPoint(name.decode("utf-8", "replace"), total, is_delta)


def _number(point: bytes) -> float | None:
    for field, kind, value in _fields(point):
        if kind == _FIXED64 and isinstance(value, bytes):
            if field == 4:
                return float(_DOUBLE.unpack(value)[0])
            if field == 6:
                return float(_SFIXED64.unpack(value)[0])
    return None


def _messages(content: bytes, number: int) -> Iterator[bytes]:
    for field, kind, value in _fields(content):
        if field == number and kind == _BYTES:
            assert isinstance(value, bytes)
            yield value


def _fields(content: bytes) -> Iterator[Field]:
    position = 0
    try:
        while position < len(content):
            tag, position = _varint(content, position)
            kind = tag & 7
            if kind == _VARINT:
                number, position = _varint(content, position)
                yield tag >> 3, kind, number
                continue
            if kind == _BYTES:
                size, position = _varint(content, position)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise TelemetryError(f"wire type {kind}")
            if position + size > len(content):
                raise TelemetryError("a field is cut short")
            yield tag >> 3, kind, content[position : position + size]
            position += size
    except (IndexError, StructError) as error:
        raise TelemetryError("cut short") from error


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise TelemetryError("varint is longer than 10 bytes")
