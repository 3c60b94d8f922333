"""Turns a message class and a version into a Python function that writes it.

Owns: the byte layout on the way out. Must not know: frames, sockets, which API is served.
Spec: Kafka's protocol guide, KIP-482 (flexible versions and tagged fields).

    classic    string int16 length, bytes and array int32 length, null = length -1
    flexible   the same with unsigned varint length + 1, null = 0; tagged fields end each struct

Runs of fixed-size fields are packed by one struct call, and a classic length joins the run before
it: Python's cost is per call, not per byte.
"""

from collections.abc import Callable
from struct import pack
from typing import Any

from headrace.wire.kafka.message import Field, Message
from headrace.wire.kafka.source import (
    FORMATS,
    SHORT_ARRAY_MAX,
    Source,
    is_nullable,
    is_present,
    is_tagged,
)
from headrace.wire.kafka.varint import encode_unsigned


def compile_encoder(message: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    """A function `encode(message, out)` that appends the message's bytes to `out`."""
    compiler = _EncoderCompiler(message, version)
    return compiler.compile(message)


class _EncoderCompiler:
    def __init__(self, message: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version >= message.FLEXIBLE_SINCE
        # A server fills a response once for all versions: what a version lacks is left out.
        self.is_strict = not message.__name__.endswith("Response")
        self.source = Source({"uvarint": encode_unsigned})
        self.out = "out"
        self._layout = ""
        self._values: list[str] = []

    def compile(self, message: type[Message]) -> Callable[[Any, bytearray], None]:
        with self.source.block("def encode(m, out):"):
            self.struct(message, "m")
            self.flush()
        return self.source.compile("encode")

    # --- runs of fixed-size values

    def fixed(self, layout: str, value: str | None = None) -> None:
        self._layout += layout
        if value is not None:
            self._values.append(value)

    def flush(self) -> None:
        if not self._layout:
            return
        if not self._values:
            self.source.line(f"{self.out} += {bytes(len(self._layout))!r}")
        else:
            pack = self.source.struct_method(self._layout, "pack")
            self.source.line(f"{self.out} += {pack}({', '.join(self._values)})")
        self._layout, self._values = "", []

    def raw(self, value: str) -> None:
        self.flush()
        self.source.line(f"{self.out} += {value}")

    def length(self, classic_layout: str, count: str) -> None:
        """A length that is known not to be null."""
        if not self.flexible:
            self.fixed(classic_layout, count)
            return
        self.flush()
        self.source.line(f"{self.out} += uvarint({count} + 1)")

    def null(self, classic_layout: str) -> None:
        if self.flexible:
            self.raw("b'\\0'")
        else:
            self.raw(repr(b"\xff" * {"h": 2, "i": 4}[classic_layout]))

    # --- structs and fields

    def struct(self, message: type[Message], holder: str) -> None:
        tagged = []
        for field in message.FIELDS:
            if not is_present(field, self.version):
                self.refuse_lost_value(message, field, holder)
            elif is_tagged(field, self.version):
                tagged.append(field)
            else:
                self.field(field, f"{holder}.{field.name}")
        if tagged:
            self.tagged_fields(sorted(tagged, key=lambda f: f.tag), holder)
        elif self.flexible:
            self.fixed("x")

    def refuse_lost_value(self, message: type[Message], field: Field, holder: str) -> None:
        if field.ignorable or not self.is_strict:
            return
        text = f"{message.__name__}.{field.name} is not in version {self.version}"
        self.flush()
        with self.source.block(f"if {self.differs(field, f'{holder}.{field.name}')}:"):
            self.source.line(f"raise ValueError({text!r})")

    def differs(self, field: Field, value: str) -> str:
        """An expression: is the value other than Kafka's default?"""
        is_struct = not isinstance(field.type, str) and not field.array
        if is_struct and field.null_since > self.version:
            return f"{value} != {self.source.constant('default', field.type())}"  # type: ignore[operator]
        if field.default is None:
            return f"{value} is not None"
        if field.array:
            return f"{value} is None or len({value})"
        return f"{value} != {field.default!r}"

    def field(self, field: Field, value: str) -> None:
        nullable = is_nullable(field, self.version)
        if field.array:
            self.sized(value, "i", nullable, lambda v: self.array(field, v))
        elif not isinstance(field.type, str):
            self.nested(field.type, value, nullable)
        elif field.type in FORMATS:
            self.fixed(FORMATS[field.type], value)
        else:
            self.sized(
                value,
                "h" if field.type == "string" else "i",
                nullable,
                lambda v: self.blob(field.type, v),
            )

    def sized(self, value: str, layout: str, nullable: bool, write: Callable[[str], None]) -> None:
        """A value with a length in front, which may say that it is null."""
        local = self.source.fresh("v")
        if not nullable:
            self.source.line(f"{local} = {value}")
            write(local)
            return
        self.flush()
        self.source.line(f"{local} = {value}")
        with self.source.block(f"if {local} is None:"):
            self.null(layout)
        with self.source.block("else:"):
            write(local)
            self.flush()

    def nested(self, type_: type[Message], value: str, nullable: bool) -> None:
        local = self.source.fresh("s")
        self.source.line(f"{local} = {value}")
        if not nullable:
            self.struct(type_, local)
            return
        self.flush()
        with self.source.block(f"if {local} is None:"):
            self.raw("b'\\xff'")
        with self.source.block("else:"):
            self.fixed("b", "1")
            self.struct(type_, local)
            self.flush()

    def blob(self, type_: str | type[Message], value: str) -> None:
        if type_ == "string":
            encoded = self.source.fresh("b")
            self.source.line(f"{encoded} = {value}.encode()")
            self.length("h", f"len({encoded})")
            self.raw(encoded)
        else:
            self.length("i", f"len({value})")
            self.raw(value)

    def array(self, field: Field, value: str) -> None:
        if isinstance(field.type, str) and field.type in FORMATS and field.type != "uuid":
            self.number_array(FORMATS[field.type], value)
            return
        self.length("i", f"len({value})")
        self.flush()
        element = self.source.fresh("e")
        with self.source.block(f"for {element} in {value}:"):
            if not isinstance(field.type, str):
                self.struct(field.type, element)
            elif field.type == "uuid":
                self.raw(element)
            else:
                self.blob(field.type, element)
            self.flush()

    def number_array(self, layout: str, value: str) -> None:
        self.flush()
        count = self.source.fresh("n")
        prefix, offset = ("B", 1) if self.flexible else ("i", 0)
        packs = [
            self.source.names[self.source.struct_method(f"{prefix}{n}{layout}", "pack")]
            for n in range(SHORT_ARRAY_MAX)
        ]
        short = f"packs_{prefix}{layout}"
        self.source.names[short] = packs
        self.source.names["pack"] = pack
        self.source.line(f"{count} = len({value})")
        with self.source.block(f"if {count} < {SHORT_ARRAY_MAX}:"):
            self.source.line(f"{self.out} += {short}[{count}]({count} + {offset}, *{value})")
        with self.source.block("else:"):
            self.length("i", count)
            self.raw(f"pack('>%d{layout}' % {count}, *{value})")

    # --- tagged fields

    def tagged_fields(self, fields: list[Field], holder: str) -> None:
        self.flush()
        count, body = self.source.fresh("c"), self.source.fresh("t")
        self.source.line(f"{count} = 0")
        self.source.line(f"{body} = bytearray()")
        for field in fields:
            value = f"{holder}.{field.name}"
            with self.source.block(f"if {self.differs(field, value)}:"):
                inner, outer = self.source.fresh("o"), self.out
                self.source.line(f"{inner} = bytearray()")
                self.out = inner
                self.field(field, value)
                self.flush()
                self.out = outer
                self.source.line(f"{body} += uvarint({field.tag}) + uvarint(len({inner}))")
                self.source.line(f"{body} += {inner}")
                self.source.line(f"{count} += 1")
        self.raw(f"uvarint({count})")
        self.raw(body)
