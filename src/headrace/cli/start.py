"""Where to begin reading: `beginning`, `end`, an offset, a time, or so long ago.

Must not know: clusters. A start is either an offset or a ListOffsets timestamp.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.base.errors import UsageError
from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

FORMS = "beginning, end, an OFFSET, a time (2026-01-31T12:00:00Z) or an age (15m, 2h, 7d)"

_WORDS = {
    "beginning": EARLIEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "end": LATEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
}
_AGE = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Start:
    """`value` is an offset if `is_offset`, else a timestamp as ListOffsets takes it."""

    value: int
    is_offset: bool


BEGINNING = Start(EARLIEST_TIMESTAMP, is_offset=False)
END = Start(LATEST_TIMESTAMP, is_offset=False)


def parse_start(text: str, now_ms: int) -> Start:
    word = text.strip().lower()
    if word in _WORDS:
        return Start(_WORDS[word], is_offset=False)
    if word.isdecimal():
        return Start(int(word), is_offset=True)
    age = _AGE.fullmatch(word)
    if age:
        return Start(max(0, now_ms - int(age[1]) * _UNIT_MS[age[2]]), is_offset=False)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is not a place to start: {FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Start(int(moment.timestamp() * 1000), is_offset=False)
