"""Who asks, as one node tells another: the principal in an Envelope.

    +---------------+----------------------------------------------+
    | version int16 | DefaultPrincipalData: type, name, token flag |
    +---------------+----------------------------------------------+

Owns: this form and the name of everybody as long as nobody is authenticated.
"""

import struct

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.messages.default_principal_data import DefaultPrincipalData

ANONYMOUS = "User:ANONYMOUS"

_VERSION = struct.Struct(">h")


def encode_principal(principal: str) -> bytes:
    kind, _, name = principal.partition(":")
    version = DefaultPrincipalData.VERSIONS[1]
    return _VERSION.pack(version) + encode(DefaultPrincipalData(type=kind, name=name), version)


def decode_principal(data: bytes | memoryview | None) -> str:
    if not data:
        return ANONYMOUS
    if len(data) < _VERSION.size:
        raise ProtocolError("a principal without its version")
    (version,) = _VERSION.unpack_from(data)
    principal, _ = decode(DefaultPrincipalData, data, version, _VERSION.size)
    return f"{principal.type}:{principal.name}"
