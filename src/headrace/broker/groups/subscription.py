"""The topics a consumer subscribed to, read from its JoinGroup metadata.

    ConsumerProtocolSubscription: version int16 | topics [string] | user data, owned … (ignored)

Owns: reading that prefix, the same in every version. Must not know: groups.
The metadata of a group is the clients' own; what can't be read is not an error but unknown.
"""

import struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_PREFIX = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topic names, or None when the bytes are not a consumer's subscription."""
    if len(metadata) < _PREFIX.size:
        return None
    version, count = _PREFIX.unpack_from(metadata)
    if version < 0 or count < 0 or count > (len(metadata) - _PREFIX.size) // _LENGTH.size:
        return None
    position = _PREFIX.size
    topics = []
    for _ in range(count):
        if position + _LENGTH.size > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(metadata):
            return None
        topics.append(metadata[position : position + length].decode("utf-8", "replace"))
        position += length
    return frozenset(topics)
