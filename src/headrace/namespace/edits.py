"""Edits that are made very often, as plain objects that write their own bytes.

Owns: `PlainEdit`, and the bytes that such edits share. Each kind stands with its operation, and
what it writes are the bytes that the message of `edits.proto` gives, which is the format: a log
does not tell how an edit was made. To build a message and read it again costs nearly twice as much.
Must not know: any kind of edit.

    op 1 to 34: the change, delimited
    | 101 client_id | 102 call_id, zigzag | 103 request | 104 time_ms, fixed | 105 result

As proto3 has it, a field that is zero or empty is not written.
"""

from typing import TYPE_CHECKING

from librt.strings import BytesWriter
from mypy_extensions import i64

from headrace.namespace import acls
from headrace.namespace.inodes import Access
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.values import AclEntry
from headrace.wire.hadoop.fields import write_data, write_fixed, write_number, write_text

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

RetryKey = tuple[bytes, int]
"""Client id and call id."""


class RetryEntry:
    __slots__ = ("request", "result", "time_ms")

    def __init__(self, request: str, time_ms: int, result: bytes) -> None:
        self.request = request
        self.time_ms = time_ms
        self.result = result

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RetryEntry)
            and self.request == other.request
            and self.time_ms == other.time_ms
            and self.result == other.result
        )


class PlainEdit:
    __slots__ = ("retry_entry", "retry_key")

    retry_key: RetryKey
    retry_entry: RetryEntry | None
    """None: it is not the first of an at-most-once decision, and has no key."""

    def write_change(self, out: BytesWriter) -> None:
        """Its operation, with tag and length."""
        raise NotImplementedError

    def replay(self, ns: "Namespace") -> None:
        raise NotImplementedError

    def is_implied(self) -> bool:
        """A start that does not find it in the log takes it for granted."""
        return False

    def encoded(self) -> bytes:
        out = BytesWriter()
        self.write_change(out)
        entry = self.retry_entry
        if entry is not None:
            client_id, call_id = self.retry_key
            _write_retry(out, client_id, call_id, entry)
        return out.getvalue()


Record = Edit | PlainEdit


def _write_retry(out: BytesWriter, client_id: bytes, call_id: i64, entry: RetryEntry) -> None:
    write_data(out, 0x32A, client_id)
    write_number(out, 0x330, call_id << 1 ^ call_id >> 63)
    write_text(out, 0x33A, entry.request)
    write_fixed(out, 0x341, entry.time_ms)
    write_data(out, 0x34A, entry.result)


def write_access(out: BytesWriter, access: Access) -> None:
    """owner = 4, group = 5, mode = 6, of whatever is made."""
    owner, group, mode = access
    write_text(out, 0x22, owner)
    write_text(out, 0x2A, group)
    write_number(out, 0x30, mode)


def write_acl(out: BytesWriter, tag: int, acl: tuple[AclEntry, ...]) -> None:
    for record in acls.to_records(acl):
        data = record.SerializeToString()
        write_data(out, tag, data)
