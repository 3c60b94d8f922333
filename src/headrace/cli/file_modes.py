"""Permissions as people write them: octal (`640`) or as changes (`u+x,go-w`, `a=r`, `+t`).

Must not know: files. Spec: chmod of POSIX and Hadoop's ChmodParser. `X` is x for directories, and
for files that somebody may execute already; letters before the sign: u, g, o, a (none: a); `t` is
the sticky bit. HDFS has no setuid.
"""

import re
from dataclasses import dataclass
from stat import S_ISVTX

from headrace.base.errors import UsageError

_CHANGE = re.compile(r"(?P<who>[ugoa]*)(?P<steps>(?:[-+=][rwxXt]*)+)")
_STEP = re.compile(r"(?P<sign>[-+=])(?P<letters>[rwxXt]*)")
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_BITS = {"r": 4, "w": 2, "x": 1}
_MODE_MAX = 0o1777


@dataclass(frozen=True, slots=True)
class Step:
    who: str
    sign: str
    letters: str

    def of(self, mode: int, *, is_directory: bool) -> int:
        may_execute = is_directory or bool(mode & 0o111)
        wanted = "".join(
            "x" if letter == "X" and may_execute else letter for letter in self.letters
        )
        rights = sum(_BITS[letter] for letter in set(wanted) if letter in _BITS)
        given = sum(rights << _SHIFTS[who] for who in self.who)
        if "t" in wanted:
            given |= S_ISVTX
        if self.sign == "+":
            return mode | given
        if self.sign == "-":
            return mode & ~given
        kept = sum(7 << shift for who, shift in _SHIFTS.items() if who not in self.who)
        return (mode & (kept | S_ISVTX)) | given


@dataclass(frozen=True, slots=True)
class FileMode:
    octal: int | None
    steps: tuple[Step, ...] = ()

    def of(self, mode: int, *, is_directory: bool) -> int:
        """What a file that has `mode` gets."""
        if self.octal is not None:
            return self.octal
        for step in self.steps:
            mode = step.of(mode, is_directory=is_directory)
        return mode


def octal_mode(text: str) -> int:
    mode = _octal(text)
    if mode is None:
        raise UsageError(f"{text!r} is not a permission in octal, such as 750")
    return mode


def file_mode(text: str) -> FileMode:
    mode = _octal(text)
    if mode is not None:
        return FileMode(mode)
    steps: list[Step] = []
    for change in text.split(","):
        found = _CHANGE.fullmatch(change)
        if found is None:
            raise UsageError(
                f"{text!r} is not a permission in octal, such as 750, nor a change, such as "
                "u+x,go-w"
            )
        who = "ugo" if not found["who"] or "a" in found["who"] else "".join(sorted({*found["who"]}))
        steps += [
            Step(who, step["sign"], step["letters"]) for step in _STEP.finditer(found["steps"])
        ]
    return FileMode(None, tuple(steps))


def _octal(text: str) -> int | None:
    if not re.fullmatch("[0-7]{1,5}", text) or int(text, 8) > _MODE_MAX:
        return None
    return int(text, 8)
