"""Fields written by hand are what protobuf reads; whole edits are compared by `test_edits`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from headrace.namespace.protos import edits_pb2 as pb
from headrace.wire.hadoop import fields, rpc_frames

numbers = st.integers(0, 2**63 - 1)


def written(write: object, *values: object) -> bytes:
    out = BytesWriter()
    write(out, *values)  # type: ignore[operator]
    return out.getvalue()


@given(numbers)
def test_varints(value: int) -> None:
    data = written(fields.write_varint, value)
    assert data == rpc_frames.varint(value)
    assert rpc_frames.read_varint64(data, 0) == (value, len(data))


@given(numbers, numbers, st.binary(max_size=300), st.text(max_size=200), st.binary(max_size=300))
def test_a_message_of_them(
    inode_id: int, time_ms: int, client_id: bytes, request: str, result: bytes
) -> None:
    inner = BytesWriter()
    fields.write_number(inner, 0x08, inode_id)
    out = BytesWriter()
    fields.write_message(out, 0x62, inner)
    fields.write_data(out, 0x32A, client_id)
    fields.write_text(out, 0x33A, request)
    fields.write_fixed(out, 0x341, time_ms)
    fields.write_data(out, 0x34A, result)
    edit = pb.Edit(
        delete=pb.Delete(inode_id=inode_id),
        client_id=client_id,
        request=request,
        time_ms=time_ms,
        result=result,
    )
    assert out.getvalue() == edit.SerializeToString()


def test_what_is_zero_or_empty_is_not_written_but_a_message_is() -> None:
    assert written(fields.write_number, 0x08, 0) == b""
    assert written(fields.write_fixed, 0x09, 0) == b""
    assert written(fields.write_data, 0x0A, b"") == b""
    assert written(fields.write_text, 0x0A, "") == b""
    assert written(fields.write_message, 0x0A, BytesWriter()) == b"\x0a\x00"


def test_a_negative_number_has_no_varint() -> None:
    with pytest.raises(ValueError, match="-1 has no varint"):
        written(fields.write_varint, -1)
