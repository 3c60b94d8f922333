"""Numbers of bytes as people write and read them: `1048576`, `1m`, `10g`, `1.5GiB`, `1 TB`.

Every unit is a power of 1024, as with Hadoop's commands.
"""

import re

from headrace.base.errors import UsageError

_UNITS = "kmgtpe"
_SIZE = re.compile(rf"(\d+(?:\.\d+)?)\s*(?:b|([{_UNITS}])(?:i?b)?)?", re.IGNORECASE)
_STEP = 1024


def size_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a size: write 128MiB, 128m or a number of bytes")
    number, unit = found[1], (found[2] or "").lower()
    if "." not in number:
        return int(number) * _factor(unit)
    return int(float(number) * _factor(unit))


def _factor(unit: str) -> int:
    return _STEP ** (_UNITS.index(unit) + 1) if unit else 1


def size_text(size: int) -> str:
    """`1.2 GiB`; below a KiB the number alone."""
    if size < _STEP:
        return str(size)
    value, units = size / _STEP, iter(_UNITS.upper())
    unit = next(units)
    # What would be shown as 1024.0 of one unit is one of the next.
    while value >= _STEP - 0.05 and unit != "E":
        value, unit = value / _STEP, next(units)
    return f"{value:.1f} {unit}iB"
