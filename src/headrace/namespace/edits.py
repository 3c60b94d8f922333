"""Edits that are made very often, as plain objects that write their own bytes.

Owns: `PlainEdit`, and the bytes that such edits share. Each kind stands with its operation, and
what it writes are the bytes that the message of `edits.proto` gives, which is the format: a log
does not tell how an edit was made. To build a message and read it again costs nearly twice as much.
Must not know: any kind of edit.

    op 1 to 34: the change, delimited
    | 101 client_id | 102 call_id, zigzag | 103 request | 104 time_ms, fixed | 105 result

As proto3 has it, a field that is zero or empty is not written.
"""

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.namespace import acls
from headrace.namespace.inodes import Access
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.values import AclEntry
from headrace.wire.hadoop.rpc_frames import varint

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

_FIXED64: Final = struct.Struct("<Q")
_CALL_ID_MAX: Final = 2**31
RetryKey = tuple[bytes, int]
"""Client id and call id."""


class RetryEntry(NamedTuple):
    request: str
    time_ms: int
    result: bytes


class PlainEdit:
    __slots__ = ("retry_entry", "retry_key")

    retry_key: RetryKey
    retry_entry: RetryEntry | None
    """None: it is not the first of an at-most-once decision, and has no key."""

    def change(self) -> bytes:
        """Its operation, with tag and length."""
        raise NotImplementedError

    def replay(self, ns: "Namespace") -> None:
        raise NotImplementedError

    def encoded(self) -> bytes:
        entry = self.retry_entry
        if entry is None:
            return self.change()
        client_id, call_id = self.retry_key
        text, time_ms, result = entry
        request = text.encode()
        if not (0 < call_id < _CALL_ID_MAX and len(request) < 0x80 and len(client_id) < 0x80):
            return self.change() + _retry_fields(self.retry_key, entry)
        return b"%b\xaa\x06%c%b\xb0\x06%b\xba\x06%c%b%b%b" % (
            self.change(),
            len(client_id),
            client_id,
            varint(call_id << 1),
            len(request),
            request,
            _retry_time(time_ms),
            _retry_result(result) if result else b"",
        )


Record = Edit | PlainEdit


def _retry_fields(key: RetryKey, entry: RetryEntry) -> bytes:
    """What is rare is left to the message."""
    client_id, call_id = key
    request, time_ms, result = entry
    return Edit(
        client_id=client_id, call_id=call_id, request=request, time_ms=time_ms, result=result
    ).SerializeToString()


def _retry_result(result: bytes) -> bytes:
    return b"\xca\x06%b%b" % (varint(len(result)), result)


@lru_cache(maxsize=16)
def _retry_time(time_ms: int) -> bytes:
    return b"\xc1\x06" + _FIXED64.pack(time_ms) if time_ms else b""


@lru_cache(maxsize=4096)
def number_field(tag: int, value: int) -> bytes:
    """Times, sizes and directories come again."""
    return b"%c%b" % (tag, varint(value)) if value else b""


def text_field(tag: int, text: str) -> bytes:
    if not text:
        return b""
    data = text.encode()
    return b"%c%b%b" % (tag, varint(len(data)), data)


@lru_cache(maxsize=4096)
def access_fields(access: Access) -> bytes:
    """owner = 4, group = 5, mode = 6, of whatever is made."""
    owner, group, mode = access
    return text_field(0x22, owner) + text_field(0x2A, group) + number_field(0x30, mode)


def acl_fields(tag: int, acl: tuple[AclEntry, ...]) -> bytes:
    fields = b""
    for record in acls.to_records(acl):
        data = record.SerializeToString()
        fields += b"%c%b%b" % (tag, varint(len(data)), data)
    return fields
