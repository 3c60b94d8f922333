"""Control records: what a batch with the control bit holds instead of data.

Owns: the key that tells their type, and the value of each. Must not know: transactions, Raft.

    key     version int16 = 0 | type int16
    value   commit and abort: version int16 | EndTxnMarker; all others: the message alone, which
            begins with its own version field
"""

from enum import IntEnum
from struct import Struct
from struct import error as StructError

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.end_txn_marker import EndTxnMarker
from headrace.wire.kafka.messages.kraft_version_record import KraftVersionRecord
from headrace.wire.kafka.messages.leader_change_message import LeaderChangeMessage
from headrace.wire.kafka.messages.snapshot_footer_record import SnapshotFooterRecord
from headrace.wire.kafka.messages.snapshot_header_record import SnapshotHeaderRecord
from headrace.wire.kafka.messages.voters_record import VotersRecord

_KEY = Struct(">hh")
_VERSION = Struct(">h")


class ControlRecordType(IntEnum):
    """The types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_MESSAGES: dict[ControlRecordType, type[Message]] = {
    ControlRecordType.ABORT: EndTxnMarker,
    ControlRecordType.COMMIT: EndTxnMarker,
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KraftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


def encode_control_key(type_: ControlRecordType) -> bytes:
    return _KEY.pack(0, type_)


def decode_control_key(key: bytes | memoryview) -> ControlRecordType:
    """The type; one of the future is a `ProtocolError`."""
    try:
        _, number = _KEY.unpack_from(key)
        return ControlRecordType(number)
    except (StructError, ValueError) as error:
        raise ProtocolError(f"not a control record's key: {bytes(key).hex()}") from error


def encode_control_value(message: Message, version: int = 0) -> bytes:
    body = encode(message, version)
    return _VERSION.pack(version) + body if isinstance(message, EndTxnMarker) else body


def decode_control_value(type_: ControlRecordType, value: bytes | memoryview) -> Message:
    """The message; all of them begin, one way or the other, with their version."""
    message = _MESSAGES[type_]
    try:
        (version,) = _VERSION.unpack_from(value)
    except StructError as error:
        raise ProtocolError("control record is cut short") from error
    return decode(message, value, version, 2 if message is EndTxnMarker else 0)[0]
