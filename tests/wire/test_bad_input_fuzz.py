"""Every API the broker advertises, in every version, with requests that were tampered with.

A whole request is written by kio with something in every field, then bytes are flipped, cut out,
put in and repeated, by a seeded hand. The broker may answer, refuse or close; it may not fall
silent for the others, keep a socket, or write an error to its log (the fixture looks).
"""

import random
import typing
from typing import Any

import pytest
from tests.wire.conftest import Target
from tests.wire.raw import Connection, correlation_of, encode_body, frame, header, message_type
from tests.wire.serving import assert_serves

SEED = 20_250
MUTATIONS = 25
NAMES = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    42: "delete_groups",
    44: "incremental_alter_configs",
    47: "offset_delete",
    60: "describe_cluster",
    75: "describe_topic_partitions",
}


def filled(schema: Any) -> Any:
    """kio's dataclass with one element in every array and something in every field."""
    values = {}
    for name, hint in typing.get_type_hints(schema).items():
        if name.startswith("__"):
            continue
        values[name] = _filled_value(schema.__dataclass_fields__[name], hint)
    return values


def _filled_value(field: Any, hint: Any) -> Any:
    kafka_type = field.metadata.get("kafka_type")
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if typing.get_origin(hint) is tuple:
        return [filled(options[0])] if kafka_type is None else [_scalar(kafka_type)]
    if kafka_type is None:
        inner = options[0] if options else hint
        if typing.get_origin(inner) is tuple:
            return [filled(typing.get_args(inner)[0])]
        return filled(inner)
    if options and typing.get_origin(options[0]) is tuple:
        return [_scalar(kafka_type)]
    return _scalar(kafka_type)


def _scalar(kafka_type: str) -> Any:
    if kafka_type == "string":
        return "fuzz"
    if kafka_type in {"bytes", "records"}:
        return b"\x00\x01fuzz"
    if kafka_type == "bool":
        return True
    if kafka_type == "uuid":
        return None
    return 1


def whole_request(api: str, version: int) -> bytes:
    """Header and body, without the size."""
    schema = message_type(api, version, "request")
    body = encode_body(api, version, **filled(schema))
    return (
        header(schema.__api_key__, version, flexible=schema.__header_schema__.__flexible__) + body
    )


def tampered(data: bytes, hand: random.Random) -> bytes:
    """Some bytes wrong; the first four, which name the API, stay."""
    wrong = bytearray(data)
    for _ in range(hand.randint(1, 3)):
        position = hand.randrange(4, len(wrong))
        match hand.randrange(5):
            case 0:
                wrong[position] ^= 1 << hand.randrange(8)
            case 1:
                wrong[position] = hand.choice((0x00, 0x7F, 0x80, 0xFF))
            case 2:
                del wrong[position : position + hand.randint(1, 8)]
            case 3:
                wrong[position:position] = hand.randbytes(hand.randint(1, 8))
            case _:
                wrong[position:position] = wrong[position : position + 8]
        if len(wrong) <= 5:
            break
    return bytes(wrong)


def served_versions(target: Target) -> dict[int, range]:
    with Connection(target.address) as connection:
        entries = connection.call("api_versions", 0).api_keys
    ranges = {entry.api_key: range(entry.min_version, entry.max_version + 1) for entry in entries}
    ranges[0] = range(3, ranges[0].stop)  # told as 0 for old clients, served from 3
    return ranges


@pytest.mark.parametrize("key", sorted(NAMES), ids=NAMES.__getitem__)
def test_tampered_requests(target: Target, key: int) -> None:
    ranges = served_versions(target)
    if key not in ranges:
        pytest.skip("not served")
    hand = random.Random(SEED + key)
    for version in ranges[key]:
        data = whole_request(NAMES[key], version)
        for _ in range(MUTATIONS):
            shoot(target, tampered(data, hand))
    assert_serves(target.address)


@pytest.mark.parametrize("key", sorted(NAMES), ids=NAMES.__getitem__)
def test_untampered_requests_are_answered(target: Target, key: int) -> None:
    """Else the test above would tamper with what is refused anyway."""
    ranges = served_versions(target)
    if key not in ranges:
        pytest.skip("not served")
    with Connection(target.address) as connection:
        for version in ranges[key]:
            connection.send(frame(whole_request(NAMES[key], version)))
            assert correlation_of(connection.read_frame()) == 1, version


def shoot(target: Target, content: bytes) -> None:
    """Send one frame and take whatever comes, for a moment."""
    with Connection(target.address) as connection:
        connection.socket.settimeout(0.02)
        try:
            connection.socket.sendall(frame(content))
            while connection.socket.recv(1 << 16):
                connection.socket.settimeout(0.001)
        except (TimeoutError, ConnectionError):
            pass


def test_random_frames(target: Target) -> None:
    hand = random.Random(SEED)
    for _ in range(300):
        shoot(target, hand.randbytes(hand.randint(1, 200)))
    assert_serves(target.address)
