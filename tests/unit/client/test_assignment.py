"""The range assignor and its messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import ProtocolError
from headrace.client.assignment import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    range_assign,
)


def test_the_first_members_get_one_more() -> None:
    assigned = range_assign({"b": ["t"], "a": ["t"], "c": ["t"]}, {"t": 7})
    assert assigned == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4]}, "c": {"t": [5, 6]}}


def test_each_topic_goes_to_its_subscribers() -> None:
    assigned = range_assign({"a": ["x", "y"], "b": ["y"], "c": ["gone"]}, {"x": 1, "y": 2})
    assert assigned == {"a": {"x": [0], "y": [0]}, "b": {"y": [1]}, "c": {}}


@given(
    st.dictionaries(st.text(max_size=4), st.lists(st.sampled_from("xyz"), unique=True), min_size=1),
    st.fixed_dictionaries({topic: st.integers(0, 12) for topic in "xyz"}),
)
def test_every_partition_of_a_wanted_topic_has_one_reader(
    subscriptions: dict[str, list[str]], counts: dict[str, int]
) -> None:
    given_out = [
        (topic, index)
        for member, assignment in range_assign(subscriptions, counts).items()
        for topic, indexes in assignment.items()
        for index in indexes
        if topic in subscriptions[member]
    ]
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    assert sorted(given_out) == [(t, i) for t in sorted(wanted) for i in range(counts[t])]


def test_messages_round_trip() -> None:
    assert decode_subscription(encode_subscription(["a", "b"])) == ["a", "b"]
    assert decode_assignment(encode_assignment({"a": [0, 2], "b": []})) == {"a": [0, 2], "b": []}
    assert decode_assignment(b"") == {}


def test_a_newer_subscription_reads_by_its_known_fields() -> None:
    known = encode_subscription(["a"])[2:]
    appended = known + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x07" + b"\xff\xff" + b"news"
    assert decode_subscription(b"\x00\x09" + appended) == ["a"]


@pytest.mark.parametrize("data", [b"\x00", b"\xff\xff", b"\x00\x00\x7f\xff\xff\xff"])
def test_garbage_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(data)
