"""Configuration keys: their types, defaults, rules and words, and how text becomes values.

Owns: `ConfigKey` (one key), `ConfigDef` (a set of keys), the validators, and `ConfigError`.
Must not know: which keys exist (`topic_config`, `broker_keys`), where texts come from
(`config_sources`), who asks.
Spec: Kafka's ConfigDef as clients see it in DescribeConfigs (types, importance, null values).

Invariants: `parse` returns a value for every key of the set; a value that was parsed is
written back by `format_value` as a text that parses to the same value.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple, Protocol

from headrace.base.errors import UsageError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Who may change a broker's key while it runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(UsageError):
    """A key that does not exist or a value that it refuses: `key` and the `reason`."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
        self.reason = reason


class Validator(Protocol):
    def refusal(self, value: Any) -> str | None:
        """Why the (not null) value is refused, or None."""
        ...

    def __str__(self) -> str:
        """The rule, for people."""
        ...


class Range(NamedTuple):
    """A number from `low` to `high`, both included; `also` lists values let in beside them."""

    low: float | None = None
    high: float | None = None
    also: tuple[int, ...] = ()

    def refusal(self, value: Any) -> str | None:
        if value in self.also:
            return None
        if self.low is not None and value < self.low:
            return f"value must be at least {self.low}"
        if self.high is not None and value > self.high:
            return f"value must be no more than {self.high}"
        return None

    def __str__(self) -> str:
        low = "" if self.low is None else f"{self.low},"
        high = "" if self.high is None else f",{self.high}"
        beside = "".join(f" or {value}" for value in self.also)
        return f"[{low}...{high}]{beside}"


class OneOf(NamedTuple):
    """One of a few words; `any_case` forgives capitals."""

    words: tuple[str, ...]
    any_case: bool = False

    def refusal(self, value: Any) -> str | None:
        if value in self.words or (self.any_case and value.lower() in self.words):
            return None
        return f"value must be one of: {', '.join(self.words)}"

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


class ListOf(NamedTuple):
    """A list of known words."""

    words: tuple[str, ...]
    may_be_empty: bool = True

    def refusal(self, value: Any) -> str | None:
        if not value and not self.may_be_empty:
            return "the list must not be empty"
        for word in value:
            if word not in self.words:
                return f"'{word}' is not one of: {', '.join(self.words)}"
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


class _Same:
    """The type of `SAME`: our default is Kafka's."""

    def __repr__(self) -> str:
        return "SAME"


SAME = _Same()


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One configuration key.

    `synonyms` are the broker keys that a topic key falls back to, most specific first.
    `kafka_default` tells Kafka's default where ours is another. `honoured` is False for keys
    that are accepted so that existing files work, and change nothing here.
    """

    name: str
    type: ConfigType
    default: Any
    doc: str
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[str, ...] = ()
    kafka_default: Any = SAME
    honoured: bool = True
    internal: bool = False

    @property
    def dynamic(self) -> bool:
        return self.update_mode is not UpdateMode.READ_ONLY

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, raw: Any) -> Any:
        """The typed value of a text (or of a TOML value). Raises ConfigError with the reason."""
        try:
            value = _READERS[self.type](raw)
        except ValueError as error:
            raise self._refused(raw, str(error)) from None
        if self.validator is not None and value is not None:
            reason = self.validator.refusal(value)
            if reason is not None:
                raise self._refused(raw, reason)
        return value

    def _refused(self, raw: Any, reason: str) -> ConfigError:
        shown = "[hidden]" if self.sensitive else raw
        return ConfigError(
            self.name, f"Invalid value {shown} for configuration {self.name}: {reason}"
        )


def format_value(value: Any) -> str | None:
    """A typed value as the text that clients see; null stays null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ",".join(str(item) for item in value)
    if isinstance(value, float):
        return repr(value).replace("e+", "E")
    return str(value)


class ConfigDef:
    """A set of keys: parses, refuses what it does not know, and fills in defaults."""

    __slots__ = ("keys", "subject")

    def __init__(self, subject: str, keys: Iterable[ConfigKey]) -> None:
        self.subject = subject
        self.keys: dict[str, ConfigKey] = {}
        for key in keys:
            assert key.name not in self.keys, f"{key.name} is defined twice"
            self.keys[key.name] = key

    def key(self, name: str) -> ConfigKey:
        found = self.keys.get(name)
        if found is None:
            # Only a refusal pays for this import: a broker's start is measured.
            from difflib import get_close_matches

            close = get_close_matches(name, self.keys, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(name, f"Unknown {self.subject} config name: {name}{hint}")
        return found

    def parse_one(self, name: str, raw: Any) -> Any:
        return self.key(name).parse(raw)

    def parse_given(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values of the keys in `raw` alone."""
        return {name: self.key(name).parse(value) for name, value in raw.items()}

    def parse(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values of all keys: from `raw`, else the default."""
        values = {name: key.default for name, key in self.keys.items()}
        values.update(self.parse_given(raw))
        return values


def _read_boolean(raw: Any) -> bool | None:
    if raw is None or isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word in ("true", "false"):
        return word == "true"
    raise ValueError("expected true or false")


def _read_whole(raw: Any, bits: int, type_name: str) -> int | None:
    if raw is None:
        return None
    if isinstance(raw, bool | float):
        raise ValueError(f"not a number of type {type_name}")
    text = str(raw).strip()
    # int() forgives underscores and other alphabets' digits, which Kafka does not.
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"not a number of type {type_name}")
    value = int(text)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"not a number of type {type_name} ({bits} bits)")
    return value


def _read_short(raw: Any) -> int | None:
    return _read_whole(raw, 16, "SHORT")


def _read_int(raw: Any) -> int | None:
    return _read_whole(raw, 32, "INT")


def _read_long(raw: Any) -> int | None:
    return _read_whole(raw, 64, "LONG")


def _read_double(raw: Any) -> float | None:
    if raw is None:
        return None
    try:
        value = float(str(raw).strip())
    except ValueError:
        raise ValueError("not a number of type DOUBLE") from None
    if value != value:
        raise ValueError("not a number of type DOUBLE")
    return value


def _read_string(raw: Any) -> str | None:
    if raw is None:
        return None
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, list | tuple):
        return ",".join(str(item) for item in raw)
    return str(raw).strip()


def _read_list(raw: Any) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if isinstance(raw, list | tuple):
        return tuple(str(item).strip() for item in raw)
    text = str(raw).strip()
    return tuple(item.strip() for item in text.split(",")) if text else ()


_READERS = {
    ConfigType.BOOLEAN: _read_boolean,
    ConfigType.STRING: _read_string,
    ConfigType.INT: _read_int,
    ConfigType.SHORT: _read_short,
    ConfigType.LONG: _read_long,
    ConfigType.DOUBLE: _read_double,
    ConfigType.LIST: _read_list,
    ConfigType.CLASS: _read_string,
    ConfigType.PASSWORD: _read_string,
}
