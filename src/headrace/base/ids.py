"""Ids of sixteen bytes, as on the wire: the well-known ones, and how people read them."""

import base64

NO_TOPIC_ID = bytes(16)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The fixed id of `__cluster_metadata`, as Kafka's."""


def uuid_text(uuid: bytes) -> str:
    """As Kafka prints ids: base64url without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The reverse of `uuid_text`; ValueError if it is no id."""
    uuid = base64.urlsafe_b64decode(text + "==")
    if len(uuid) != 16:
        raise ValueError(f"not an id: {text!r}")
    return uuid
