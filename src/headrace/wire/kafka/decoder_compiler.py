"""Turns a message class and a version into a Python function that reads it.

Owns: the byte layout on the way in, and its bounds. Must not know: frames, sockets, APIs.
Spec: as in `encoder_compiler`; where Kafka's own reader is lenient, so is this one:
a classic length below -1 is null, invalid UTF-8 is replaced, unknown tagged fields are skipped.

Invariants of a generated function:
- it never reads behind the buffer: `struct.error` and `IndexError` mean "too short";
- before it makes a list or slices, the length has been checked against the bytes that are left.
"""

from collections.abc import Callable
from struct import Struct, unpack_from
from typing import Any

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.message import Field, Message
from headrace.wire.kafka.source import (
    FORMATS,
    Source,
    element_size_min,
    is_nullable,
    is_present,
    is_tagged,
)
from headrace.wire.kafka.varint import decode_unsigned, finish_unsigned

STRING_BYTES_MAX = 32767

Decoder = Callable[[bytes | bytearray | memoryview, int, int], tuple[Any, int]]


def compile_decoder(message: type[Message], version: int) -> Decoder:
    """A function `decode(buf, p, end) -> (message, position behind it)`."""
    return _DecoderCompiler(message, version).compile(message)


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int, end: int) -> int:
    """The position behind a section of tagged fields that nobody here knows."""
    count, position = decode_unsigned(buffer, position)
    if 2 * count > end - position:
        raise ProtocolError(f"{count} tagged fields in {end - position} bytes")
    for _ in range(count):
        _, position = decode_unsigned(buffer, position)
        size, position = decode_unsigned(buffer, position)
        position += size
        if position > end:
            raise ProtocolError("tagged field is longer than its message")
    return position


def _too_short(what: str, length: int, left: int) -> ProtocolError:
    return ProtocolError(f"{what} has length {length}, {left} bytes are left")


def _null(what: str) -> ProtocolError:
    return ProtocolError(f"{what} is null and must not be")


class _DecoderCompiler:
    def __init__(self, message: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version >= message.FLEXIBLE_SINCE
        self.source = Source(
            {
                "new": object.__new__,
                "finish": finish_unsigned,
                "uvarint": decode_unsigned,
                "skip_tags": skip_tagged_fields,
                "too_short": _too_short,
                "null": _null,
                "unpack_from": unpack_from,
                "ProtocolError": ProtocolError,
            }
        )
        self._layout = ""
        self._targets: list[str] = []

    def compile(self, message: type[Message]) -> Decoder:
        with self.source.block("def decode(buf, p, end):"):
            self.struct(message, "m")
            self.flush()
            self.source.line("return m, p")
        return self.source.compile("decode")

    # --- runs of fixed-size values

    def fixed(self, layout: str, target: str) -> None:
        self._layout += layout
        self._targets.append(target)

    def flush(self) -> None:
        if not self._layout:
            return
        unpack = self.source.struct_method(self._layout, "unpack_from")
        self.source.line(f"{', '.join(self._targets)}, = {unpack}(buf, p)")
        self.source.line(f"p += {Struct('>' + self._layout).size}")
        self._layout, self._targets = "", []

    def length(self, classic_layout: str) -> str:
        """Reads a length into a fresh name; null is any negative value."""
        count = self.source.fresh("n")
        if not self.flexible:
            self.fixed(classic_layout, count)
            self.flush()
            return count
        self.flush()
        self.source.line(f"{count} = buf[p] - 1")
        self.source.line("p += 1")
        with self.source.block(f"if {count} > 126:"):
            self.source.line(f"{count}, p = finish(buf, p, {count} + 1)")
            self.source.line(f"{count} -= 1")
        return count

    # --- structs and fields

    def struct(self, message: type[Message], holder: str) -> None:
        self.source.line(f"{holder} = new({self.source.constant('C', message)})")
        tagged = []
        for field in message.FIELDS:
            target = f"{holder}.{field.name}"
            if not is_present(field, self.version):
                self.default(field, target)
            elif is_tagged(field, self.version):
                self.default(field, target)
                tagged.append(field)
            else:
                self.field(field, target, f"{message.__name__}.{field.name}")
        if tagged:
            self.tagged_fields(message, tagged, holder)
        elif self.flexible:
            self.flush()
            with self.source.block("if buf[p]:"):
                self.source.line("p = skip_tags(buf, p, end)")
            with self.source.block("else:"):
                self.source.line("p += 1")

    def default(self, field: Field, target: str) -> None:
        if field.array and field.default is not None:
            self.source.line(f"{target} = []")
        elif not isinstance(field.type, str) and not field.array and not _may_be_null(field):
            self.source.line(f"{target} = {self.source.constant('C', field.type)}()")
        else:
            self.source.line(f"{target} = {field.default!r}")

    def field(self, field: Field, target: str, what: str) -> None:
        nullable = is_nullable(field, self.version)
        if field.array:
            count = self.length("i")
            self.nullable_block(
                count, nullable, target, what, lambda: self.array(field, count, target, what)
            )
        elif not isinstance(field.type, str):
            self.nested(field.type, target, nullable)
        elif field.type in FORMATS:
            self.fixed(FORMATS[field.type], target)
        else:
            count = self.length("h" if field.type == "string" else "i")
            self.nullable_block(
                count, nullable, target, what, lambda: self.blob(field.type, count, target, what)
            )

    def nullable_block(
        self, count: str, nullable: bool, target: str, what: str, read: Callable[[], None]
    ) -> None:
        with self.source.block(f"if {count} < 0:"):
            self.source.line(f"{target} = None" if nullable else f"raise null({what!r})")
        if not nullable:
            read()
            return
        with self.source.block("else:"):
            read()
            self.flush()

    def nested(self, type_: type[Message], target: str, nullable: bool) -> None:
        local = self.source.fresh("s")
        if not nullable:
            self.flush()
            self.struct(type_, local)
            self.source.line(f"{target} = {local}")
            return
        present = self.source.fresh("n")
        self.fixed("b", present)
        self.flush()
        with self.source.block(f"if {present} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.struct(type_, local)
            self.flush()
            self.source.line(f"{target} = {local}")

    def blob(self, type_: str | type[Message], count: str, target: str, what: str) -> None:
        stop = self.source.fresh("q")
        self.source.line(f"{stop} = p + {count}")
        limit = f" or {count} > {STRING_BYTES_MAX}" if type_ == "string" else ""
        with self.source.block(f"if {stop} > end{limit}:"):
            self.source.line(f"raise too_short({what!r}, {count}, end - p)")
        value = {
            "string": f"str(buf[p:{stop}], 'utf-8', 'replace')",
            "bytes": f"bytes(buf[p:{stop}])",
            "records": f"memoryview(buf)[p:{stop}]",
        }[str(type_)]
        self.source.line(f"{target} = {value}")
        self.source.line(f"p = {stop}")

    def array(self, field: Field, count: str, target: str, what: str) -> None:
        smallest = element_size_min(field.type, self.version, self.flexible)
        with self.source.block(f"if {count} * {smallest} > end - p:"):
            self.source.line(f"raise too_short({what!r}, {count}, end - p)")
        if isinstance(field.type, str) and field.type in FORMATS and field.type != "uuid":
            layout = FORMATS[field.type]
            self.source.line(f"{target} = list(unpack_from('>%d{layout}' % {count}, buf, p))")
            self.source.line(f"p += {count} * {smallest}")
            return
        items, element = self.source.fresh("a"), self.source.fresh("e")
        self.source.line(f"{target} = {items} = []")
        with self.source.block(f"for _ in range({count}):"):
            self.element(field, element, what)
            self.flush()
            self.source.line(f"{items}.append({element})")

    def element(self, field: Field, element: str, what: str) -> None:
        if not isinstance(field.type, str):
            self.struct(field.type, element)
        elif field.type == "uuid":
            self.fixed("16s", element)
        else:
            count = self.length("h" if field.type == "string" else "i")
            with self.source.block(f"if {count} < 0:"):
                self.source.line(f"raise null({what!r})")
            self.blob(field.type, count, element, what)

    # --- tagged fields

    def tagged_fields(self, message: type[Message], fields: list[Field], holder: str) -> None:
        self.flush()
        count, tag = self.source.fresh("n"), self.source.fresh("tag")
        size, stop = self.source.fresh("size"), self.source.fresh("q")
        self.source.line(f"{count}, p = uvarint(buf, p)")
        with self.source.block(f"if 2 * {count} > end - p:"):
            self.source.line(f"raise too_short('tagged fields', {count}, end - p)")
        with self.source.block(f"for _ in range({count}):"):
            self.source.line(f"{tag}, p = uvarint(buf, p)")
            self.source.line(f"{size}, p = uvarint(buf, p)")
            self.source.line(f"{stop} = p + {size}")
            with self.source.block(f"if {stop} > end:"):
                self.source.line(f"raise too_short('tagged field', {size}, end - p)")
            for field in fields:
                with self.source.block(f"if {tag} == {field.tag}:"):
                    what = f"{message.__name__}.{field.name}"
                    self.field(field, f"{holder}.{field.name}", what)
                    self.flush()
                    with self.source.block(f"if p != {stop}:"):
                        self.source.line(f"raise ProtocolError({what + ' has a wrong size'!r})")
            self.source.line(f"p = {stop}")


def _may_be_null(field: Field) -> bool:
    return field.null_since < 32767
