"""What every Kafka message class is made of: slots, a schema table and value equality.

Owns: `Message` (the base of all generated classes), `Field` (one row of a schema table) and the
two shared defaults. Must not know: bytes. The codec compiles `FIELDS` into encoders and decoders.

Invariants:
- one class serves all versions of a message; a field outside a version keeps Kafka's default;
- `FIELDS` is in wire order; tagged fields may stand anywhere in it;
- instances are plain mutable values: equal by type and fields, and not hashable.
"""

from typing import Any, ClassVar, NamedTuple

ZERO_UUID = bytes(16)
VERSION_MAX = 32767

# The default of array parameters. A parameter that holds it becomes a fresh list, so that `None`
# stays free to mean the protocol's null.
NEW: list[Any] = []


class Field(NamedTuple):
    """One field of a message: its type and the versions in which it exists.

    `type` is a Kafka primitive ("int32", "string", ...) or a nested message class. A field is on
    the wire in versions `since..until`, may be null in `null_since..null_until`, and is a tagged
    field from `tagged_since` on.
    """

    name: str
    type: "str | type[Message]"
    array: bool = False
    since: int = 0
    until: int = VERSION_MAX
    null_since: int = VERSION_MAX
    null_until: int = VERSION_MAX
    tag: int = -1
    tagged_since: int = VERSION_MAX
    ignorable: bool = False
    default: Any = None


class Message:
    """Base of all message classes; see the module's docstring."""

    __slots__ = ()

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    API_KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int] = VERSION_MAX

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.FIELDS)

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.FIELDS)
        return f"{type(self).__name__}({values})"
