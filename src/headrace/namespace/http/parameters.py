"""Parameters of a WebHDFS request: read by name, with WebHDFS's defaults and refusals."""

import re
from urllib.parse import parse_qsl

from headrace.base.web import WebRequest
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

_MODE_MAX = 0o1777
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


class Parameters:
    """The query of one request."""

    def __init__(self, request: WebRequest) -> None:
        self._query = request.query
        self._raw_query = request.raw_query

    def text(self, name: str, default: str = "") -> str:
        return self._query.get(name, default)

    def required(self, name: str) -> str:
        value = self._query.get(name, "")
        if not value:
            raise invalid(f"Required param {name} is missing or empty")
        return value

    def all(self, name: str) -> list[str]:
        """The values of a parameter that may come several times."""
        pairs = parse_qsl(self._raw_query, keep_blank_values=True)
        return [value for key, value in pairs if key.lower() == name]

    def number(self, name: str, default: int) -> int:
        value = self._query.get(name, "")
        if value in ("", "null"):
            return default
        # Java's Long: nothing that only Python would take for a number, nothing beyond 64 bits.
        if _NUMBER.fullmatch(value) is None or not _LONG_MIN <= int(value) <= _LONG_MAX:
            raise invalid(f'Failed to parse "{value[:40]}" for the parameter {name}')
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._query.get(name, "").lower()
        if value in ("", "null"):
            return default
        if value not in ("true", "false"):
            raise invalid(f'Failed to parse "{value}" to Boolean for the parameter {name}')
        return value == "true"

    def mode(self, name: str, default: int) -> int:
        value = self._query.get(name, "")
        if value in ("", "null"):
            return default
        mode = int(value, 8) if re.fullmatch(r"[0-7]{1,5}", value) else -1
        if not 0 <= mode <= _MODE_MAX:
            raise invalid(f'Invalid value for webhdfs parameter "{name}": {value}')
        return mode


def invalid(message: str) -> RemoteError:
    return RemoteError(java.ILLEGAL_ARGUMENT, message)
