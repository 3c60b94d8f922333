"""Messages to bytes and back, for every class of `messages` and every version.

Owns: the compiled encoders and decoders, made at the first use of a (class, version). Must not
know: frames and headers (`frames`), which versions are served (the broker's registry).

Invariant: `decode` of any bytes gives a message or a `ProtocolError`, and nothing else.
"""

from collections.abc import Callable
from struct import error as StructError
from typing import Any, TypeVar

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.decoder_compiler import Decoder, compile_decoder
from headrace.wire.kafka.encoder_compiler import compile_encoder
from headrace.wire.kafka.message import Message

M = TypeVar("M", bound=Message)

_encoders: dict[tuple[type[Message], int], Callable[[Any, bytearray], None]] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}


def decode(
    message: type[M], buffer: bytes | bytearray | memoryview, version: int, position: int = 0
) -> tuple[M, int]:
    """The message at `position`, and the position behind it. What follows it is ignored."""
    decoder = _decoders.get((message, version)) or _new_decoder(message, version)
    try:
        return decoder(buffer, position, len(buffer))
    except (StructError, IndexError) as error:
        raise ProtocolError(f"{message.__name__} v{version} is cut short") from error


def encode(message: Message, version: int) -> bytes:
    """The message's bytes. Fields that the version lacks are left out; a request that would lose
    a value that Kafka does not call ignorable is a `ValueError`."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Appends the message's bytes to `out`."""
    key = (type(message), version)
    encoder = _encoders.get(key) or _new_encoder(type(message), version)
    encoder(message, out)


def _new_decoder(message: type[Message], version: int) -> Decoder:
    low, high = message.VERSIONS
    if not low <= version <= high:
        raise ProtocolError(f"{message.__name__} has no version {version}")
    decoder = _decoders[message, version] = compile_decoder(message, version)
    return decoder


def _new_encoder(message: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    low, high = message.VERSIONS
    if not low <= version <= high:
        raise ValueError(f"{message.__name__} has no version {version}")
    key = (message, version)
    own: Callable[[Any, int, bytearray], None] | None = getattr(message, "encode_into", None)
    if own is None:
        encoder = compile_encoder(message, version)
    else:  # its bytes, or most of them, are there already

        def encoder(message: Any, out: bytearray) -> None:
            own(message, version, out)

    _encoders[key] = encoder
    return encoder
