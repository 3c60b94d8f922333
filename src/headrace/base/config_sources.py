"""Where configuration texts come from, and which one wins.

Owns: readers of TOML and `.properties`, the names of environment variables, and the
precedence flag > environment > file > default.
Must not know: files and processes (texts and mappings are handed in), what a key means.

Invariant: a flag or a file names only known keys; environment variables that are no key of
ours are left alone, since commands read `HEADRACE_…` variables of their own.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from headrace.base.config import ConfigDef, ConfigError

ENVIRONMENT_PREFIX = "HEADRACE_"


class Source(Enum):
    """Where a value comes from. `DYNAMIC_…` are set by the alter APIs while the node runs."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"
    DYNAMIC_CLUSTER = "dynamic cluster-wide"
    DYNAMIC_BROKER = "dynamic per-broker"


class Resolved(NamedTuple):
    """Typed values of all keys, and where each came from."""

    values: dict[str, Any]
    sources: dict[str, Source]


def environment_name(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "_").replace("-", "_")


def resolve(
    definition: ConfigDef,
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Mapping[str, Any] | None = None,
) -> Resolved:
    """Flag over environment over file over default; raises ConfigError."""
    values = definition.parse({})
    sources = dict.fromkeys(values, Source.DEFAULT)
    layers = (
        (Source.FILE, file or {}),
        (Source.ENVIRONMENT, _from_environment(definition, environment or {})),
        (Source.FLAG, flags or {}),
    )
    for source, raw in layers:
        for name, value in _parse_layer(definition, source, raw).items():
            values[name] = value
            sources[name] = source
    return Resolved(values, sources)


def read_config_text(text: str, file_name: str) -> dict[str, Any]:
    """Raw values of a configuration file: `.properties` by its name, TOML otherwise."""
    if file_name.endswith(".properties"):
        return dict(read_properties(text))
    return read_toml(text, file_name)


def read_toml(text: str, file_name: str = "configuration") -> dict[str, Any]:
    """Flat TOML with quoted keys. A nested table is refused with the hint to quote."""
    # Imported here: a node without a configuration file starts without a TOML parser.
    import tomllib

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("", f"{file_name} is not valid TOML: {error}") from None
    for name, value in content.items():
        if isinstance(value, dict):
            path, leaf = _first_leaf(name, value)
            raise ConfigError(
                name,
                f'{file_name}: nested table [{name}]: quote the whole key, as "{path}" = {leaf}',
            )
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            raise ConfigError(name, f"{file_name}: {name} holds a nested value")
    return content


def read_properties(text: str) -> dict[str, str]:
    """Java's properties: `key=value`, `key: value`, comments with # or !, lines joined by \\."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split_property(line)
        values[name] = value
    return values


def _from_environment(definition: ConfigDef, environment: Mapping[str, str]) -> dict[str, str]:
    by_name = {environment_name(name): name for name in definition.keys}
    return {by_name[name]: value for name, value in environment.items() if name in by_name}


def _parse_layer(definition: ConfigDef, source: Source, raw: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return definition.parse_given(raw)
    except ConfigError as error:
        raise ConfigError(error.key, f"{error.reason} (from the {source.value})") from None


def _first_leaf(name: str, value: Any) -> tuple[str, str]:
    path = name
    while isinstance(value, dict) and value:
        step, value = next(iter(value.items()))
        path = f"{path}.{step}"
    return path, "…" if isinstance(value, dict) else repr(value).replace("'", '"')


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for raw in text.splitlines():
        line = pending + raw.strip()
        pending = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            pending = line[:-1]
            continue
        lines.append(line)
    if pending:
        lines.append(pending)
    return lines


def _split_property(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t":
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip()
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip()
    return _unescape(line[:position]), _unescape(rest)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position >= len(text):
            out.append(char)
            continue
        escaped = text[position]
        position += 1
        code = text[position : position + 4]
        if escaped == "u" and len(code) == 4 and all(c in "0123456789abcdefABCDEF" for c in code):
            out.append(chr(int(code, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)
