"""Releases of Hadoop: which one is spoken here, and which of two is the older.

Owns: the order of version texts, as far as Hadoop's own ones need it. Spec: VersionUtil.
Must not know: who may be how old.

    3.5.0   2.1.0-beta   3.6.0-SNAPSHOT        numbers, then perhaps a qualifier

A text with a qualifier comes before the one without; what begins with no number before all others.
"""

import re
from itertools import zip_longest
from typing import Final

SOFTWARE_VERSION: Final = "3.5.0"
"""The Hadoop release whose protocols are spoken: what peers compare."""
SUPPORTED_VERSION_MIN: Final = "2.1.0-beta"
"""The oldest one that speaks them, as Hadoop has it."""
_PARTS: Final = re.compile(r"(\d+(?:\.\d+)*)(?:[-.]?(.*))", re.ASCII | re.DOTALL)


def is_older(version: str, than: str) -> bool:
    numbers, qualifier = _parsed(version)
    other_numbers, other_qualifier = _parsed(than)
    for number, other in zip_longest(numbers, other_numbers, fillvalue=0):
        if number != other:
            return number < other
    if not qualifier or not other_qualifier:
        return bool(qualifier) and not other_qualifier
    return qualifier < other_qualifier


def too_old(remote: str, version: str, minimum: str, here: str) -> str:
    """The words of IncorrectVersionException; `remote` and `here` are NameNode and DataNode."""
    return (
        f"The reported {remote} version is too low to communicate with this {here}. "
        f"{remote} version: '{version}' Minimum {remote} version: '{minimum}'"
    )


def _parsed(version: str) -> tuple[list[int], str]:
    found = _PARTS.match(version)
    if found is None:
        return [-1], ""
    return [int(number) for number in found[1].split(".")], found[2].lower()
