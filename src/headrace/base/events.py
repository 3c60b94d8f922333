"""Structured logging: one line an event, `key=value` pairs, the peer named.

    time=2026-01-31T12:00:00.123Z level=info event=connection_closed peer=127.0.0.1:9 reason=…

Owns the form of a line. Where lines go is the caller's: a `write(str)` function. Values are
quoted when they hold spaces, quotes or control characters, so a line stays a line whatever
a peer sent.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from headrace.base.clock import Clock

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class EventLog:
    """Writes events at or above `level`; `bind` adds fields to every line."""

    __slots__ = ("_clock", "_fields", "_level", "_write")

    def __init__(
        self, write: Callable[[str], object], clock: Clock, level: str = "info", fields: str = ""
    ) -> None:
        self._write = write
        self._clock = clock
        self._level = level
        self._fields = fields

    def bind(self, **fields: object) -> "EventLog":
        return EventLog(self._write, self._clock, self._level, self._fields + _render(fields))

    def debug(self, event: str, **fields: object) -> None:
        self._emit("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._emit("error", event, fields)

    def _emit(self, level: str, event: str, fields: dict[str, object]) -> None:
        if _LEVELS[level] < _LEVELS[self._level]:
            return
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
        self._write(f"time={stamp} level={level} event={event}{self._fields}{_render(fields)}\n")


def _render(fields: dict[str, object]) -> str:
    return "".join(f" {key}={_quote(value)}" for key, value in fields.items())


def _quote(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not any(mark in text for mark in ' "='):
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
