"""The trash, as clients and NameNode agree on it: where it is and what its parts are called.

    /user/NAME/.Trash/Current/PATH        what was put there last
    /user/NAME/.Trash/yyMMddHHmmss/PATH   a checkpoint: what was `Current` until that second
    /user/NAME/.Trash/yyMMddHHmmss-1      another one of the same second

Must not know: who empties it. Spec: Hadoop's TrashPolicyDefault; `yyMMddHHmm` is how Hadoop 1
called a checkpoint. The names are of local time (a zone of None): clients and the NameNode of a
cluster live in one time zone, or trash goes too early or too late by what they differ. Java's
reader of dates takes a month 13 and any text behind the digits; here such a name is not a
checkpoint's, and what bears it is left alone.
"""

import re
from datetime import datetime, tzinfo

HOMES = "/user"
TRASH = ".Trash"
CURRENT = "Current"
DIRECTORY_MODE = 0o700
_CENTURY = 2000
_CHECKPOINT = re.compile(r"([0-9]{10})([0-9]{2})?(?:-[0-9]{1,4})?")


def trash_root(user: str) -> str:
    return f"{HOMES}/{user}/{TRASH}"


def checkpoint_name(time_ms: int, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(time_ms // 1000, zone).strftime("%y%m%d%H%M%S")


def checkpoint_time_ms(name: str, zone: tzinfo | None) -> int | None:
    """When a checkpoint of that name was made; None: it is none."""
    found = _CHECKPOINT.fullmatch(name)
    if found is None:
        return None
    digits = found[1] + (found[2] or "00")
    year, month, day, hour, minute, second = (
        int(digits[index : index + 2]) for index in range(0, 12, 2)
    )
    try:
        made = datetime(_CENTURY + year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        return None
    return int(made.timestamp()) * 1000
