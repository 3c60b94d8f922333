"""Records as JSON and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.record_json import (
    INTEGER_MAX,
    BadRecord,
    bytes_to_json,
    json_to_bytes,
    parse_record,
    record_to_json,
)
from headrace.client.consumer import ConsumedRecord

DATA = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


@given(
    DATA,
    DATA,
    st.lists(st.tuples(st.text(max_size=5), DATA), max_size=3),
    st.integers(-1, INTEGER_MAX),
)
def test_what_is_printed_can_be_read_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], stamp: int
) -> None:
    record = ConsumedRecord("t", 1, 2, stamp, key, value, headers)
    parsed = parse_record(json.dumps(record_to_json(record)))
    assert (parsed.key, parsed.value, parsed.headers) == (key, value, headers)
    assert (parsed.partition, parsed.timestamp_ms) == (1, stamp)


def test_bytes_that_are_not_text_are_base64() -> None:
    assert bytes_to_json(b"\xff") == {"base64": "/w=="}
    assert bytes_to_json("ä".encode()) == "ä"
    assert bytes_to_json(None) is None


def test_other_json_is_sent_as_its_text() -> None:
    assert json_to_bytes({"a": [1, "ä"]}) == '{"a":[1,"ä"]}'.encode()
    assert json_to_bytes(7) == b"7"
    assert json_to_bytes(False) == b"false"


def test_headers_may_be_an_object() -> None:
    parsed = parse_record('{"value": "v", "headers": {"a": "1", "b": null}}')
    assert parsed.headers == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON object"),
        ("{}", '"value" or "key"'),
        ('{"vlaue": "v", "kye": "k"}', 'unknown field "vlaue", "kye": a record has .*value'),
        ('{"value": {"base64": "!"}}', "bad base64"),
        ('{"value": {"base64": 7}}', "bad base64"),
        ('{"value": "v", "partition": "0"}', "whole number"),
        ('{"value": "v", "timestamp": true}', "whole number"),
        ('{"value": "v", "timestamp": 9223372036854775808}', "out of range"),
        ('{"value": "v", "timestamp": -2}', "out of range"),
        ('{"value": "\\ud800"}', "not text"),
        ('{"value": ["\\ud800"]}', "not text"),
        ('{"value": "v", "headers": {"\\ud800": "1"}}', "not text"),
        ("[" * 100_000, "not JSON"),
        ('{"value": "v", "headers": [1]}', "a header is"),
        ('{"value": "v", "headers": 1}', '"headers" is a list'),
    ],
)
def test_wrong_records_are_explained(line: str, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        parse_record(line)
