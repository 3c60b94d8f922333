"""Parameters of a WebHDFS request: read by name, with WebHDFS's defaults and refusals."""

from headrace.base.web import WebRequest
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

DEFAULT_USER = "dr.who"
"""Who a request without `user.name` comes from, as with Apache's."""

_MODE_MAX = 0o1777


class Parameters:
    """The query of one request."""

    def __init__(self, request: WebRequest) -> None:
        self._query = request.query

    def text(self, name: str, default: str = "") -> str:
        return self._query.get(name, default)

    def required(self, name: str) -> str:
        value = self._query.get(name, "")
        if not value:
            raise invalid(f"Required param {name} is missing or empty")
        return value

    def has(self, name: str) -> bool:
        return name in self._query

    def number(self, name: str, default: int) -> int:
        value = self._query.get(name, "")
        if value in ("", "null"):
            return default
        try:
            return int(value)
        except ValueError:
            raise invalid(f'Failed to parse "{value}" for the parameter {name}') from None

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
        try:
            mode = int(value, 8)
        except ValueError:
            mode = -1
        if not 0 <= mode <= _MODE_MAX:
            raise invalid(f'Invalid value for webhdfs parameter "{name}": {value}')
        return mode

    @property
    def user(self) -> str:
        return self.text("doas") or self.text("user.name") or DEFAULT_USER


def invalid(message: str) -> RemoteError:
    return RemoteError(java.ILLEGAL_ARGUMENT, message)
