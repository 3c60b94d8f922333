"""Text of a message that is no UTF-8: refused before anybody takes it for text.

Hadoop's messages are of protobuf's second version, which does not look at text when it parses: what
is no UTF-8 comes out as bytes, in a field that is declared to be text. Java puts question marks
there; a name that nobody gave is worse than a refusal.

Owns: which fields of a message are text, found once for each class. Must not know: methods.
"""

from functools import cache
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

_SHOWN_BYTES: Final = 80
"""Of what is refused: it may be as long as a frame."""


class TextField(NamedTuple):
    name: str
    is_repeated: bool
    inside: Descriptor | None
    """Of a message with text inside; None: text itself."""


@cache
def text_fields(descriptor: Descriptor) -> tuple[TextField, ...]:
    """No message of Hadoop's is inside itself."""
    found: list[TextField] = []
    for field in descriptor.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            found.append(TextField(field.name, field.is_repeated, None))
        elif field.type == FieldDescriptor.TYPE_MESSAGE and text_fields(field.message_type):
            found.append(TextField(field.name, field.is_repeated, field.message_type))
    return tuple(found)


def check_texts(message: Message) -> None:
    """RemoteError for the first text that is none."""
    _check(message, text_fields(message.DESCRIPTOR))


def _check(message: Any, fields: tuple[TextField, ...]) -> None:
    for name, is_repeated, inside in fields:
        if not is_repeated and not message.HasField(name):
            continue
        values = getattr(message, name)
        for value in values if is_repeated else (values,):
            if inside is not None:
                _check(value, text_fields(inside))
            elif type(value) is bytes:
                shown = value[:_SHOWN_BYTES]
                raise RemoteError(java.HADOOP_ILLEGAL_ARGUMENT, f"{name} is not UTF-8: {shown!r}")
