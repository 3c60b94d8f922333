"""Users' groups, as this system tells them.

Owns: what is remembered of them. Must not know: who asks, what they may.
"""

import contextlib
import grp
import os
import pwd
from typing import Final

from headrace.base.clock import Clock

_GROUPS_KEPT_MS: Final = 60_000
_USERS_KEPT_MAX: Final = 10_000


class SystemGroups:
    """The groups of a user as this system tells them, remembered for a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[int, tuple[str, ...]]] = {}

    def __call__(self, user: str) -> tuple[str, ...]:
        now_ms = self._clock.monotonic_ms()
        known = self._known.get(user)
        if known is not None and now_ms < known[0]:
            return known[1]
        groups = _system_groups(user)
        if len(self._known) > _USERS_KEPT_MAX:
            self._known.clear()
        self._known[user] = (now_ms + _GROUPS_KEPT_MS, groups)
        return groups

    def forget(self) -> None:
        """An operator changed them: look again."""
        self._known.clear()


def _system_groups(user: str) -> tuple[str, ...]:
    try:
        primary = pwd.getpwnam(user).pw_gid
    except KeyError:
        return ()
    names = []
    for gid in [primary, *os.getgrouplist(user, primary)]:
        with contextlib.suppress(KeyError):
            names.append(grp.getgrgid(gid).gr_name)
    return tuple(dict.fromkeys(names))
