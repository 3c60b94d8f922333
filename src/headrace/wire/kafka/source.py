"""Python source under construction: what the encoder and decoder compilers share.

Owns: indentation, fresh names, the constants a generated function closes over, and the facts
about primitive types that both directions need. Must not know: how a field is read or written.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from headrace.wire.kafka.message import Field, Message

# Kafka's fixed-size primitives and their struct format, big endian.
FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

# How short an int array must be to be written with a ready-made struct.
SHORT_ARRAY_MAX = 16


class Source:
    """Lines of one generated function and the names they refer to."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._lines: list[str] = []
        self._indent = 0
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._indent += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._indent -= 1

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def struct_method(self, layout: str, method: str) -> str:
        """A name for `pack` or `unpack_from` of a struct; equal layouts share one."""
        name = method + "_" + layout.replace("?", "t")
        self.names[name] = getattr(Struct(">" + layout), method)
        return name

    def compile(self, function: str) -> Callable[..., Any]:
        text = "\n".join(self._lines)
        exec(compile(text, f"<{function}>", "exec"), self.names)
        result: Callable[..., Any] = self.names[function]
        return result


def is_present(field: Field, version: int) -> bool:
    return field.since <= version <= field.until


def is_tagged(field: Field, version: int) -> bool:
    return field.tag >= 0 and field.tagged_since <= version


def is_nullable(field: Field, version: int) -> bool:
    return field.null_since <= version <= field.null_until or field.type == "records"


def size_min(message: type[Message], version: int, flexible: bool) -> int:
    """The fewest bytes that a struct can take, to bound array counts before allocating."""
    total = 1 if flexible else 0
    for field in message.FIELDS:
        if is_present(field, version) and not is_tagged(field, version):
            total += _field_size_min(field, version, flexible)
    return max(total, 1)


def _field_size_min(field: Field, version: int, flexible: bool) -> int:
    if field.array:
        return 1 if flexible else 4
    return element_size_min(field.type, version, flexible, is_nullable(field, version))


def element_size_min(
    type_: str | type[Message], version: int, flexible: bool, nullable: bool = False
) -> int:
    if not isinstance(type_, str):
        return 1 if nullable else size_min(type_, version, flexible)
    if type_ in FORMATS:
        return Struct(">" + FORMATS[type_]).size
    if flexible:
        return 1
    return 2 if type_ == "string" else 4
