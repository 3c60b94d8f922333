"""Members of groups, of Kafka's Java client, in a JVM of their own, told what to do line by line.

Owns: the process and its lines, which `ConsumerScript.java` describes. Must not know: brokers.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.interop.java_tools import java_command, prepare

TIMEOUT_S = 60.0


class Shown(NamedTuple):
    """A member as it is now."""

    held: frozenset[str]
    """`topic:partition`."""
    generation: int
    error: str
    """The name of the exception that ended it, or empty."""


class Told(NamedTuple):
    """A call of its listener: `assigned`, `revoked` or `lost`."""

    what: str
    parts: frozenset[str]


class ConsumerScript:
    """One JVM with any number of named members."""

    def __init__(self, bootstrap_servers: str) -> None:
        prepare()
        self._process = subprocess.Popen(
            [*java_command(), "ConsumerScript", bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._unread = b""

    def __enter__(self) -> "ConsumerScript":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    # -- what members do -----------------------------------------------------------------------

    def open(self, name: str, group: str, subscription: str, **settings: str) -> None:
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        self._say("open", name, group, subscription, *pairs)

    def show(self, name: str) -> Shown:
        (line,) = self._say("show", name)
        _, held, generation, error = line.split(" ")
        return Shown(_parts(held), int(generation), "" if error == "-" else error)

    def told(self, name: str) -> list[Told]:
        """Since it was last asked; calls about no partition are no news."""
        split = [line.split(" ") for line in self._say("told", name)]
        return [Told(what, _parts(parts)) for what, parts in split if parts != "-"]

    def values(self, name: str) -> list[str]:
        return [line.removeprefix("value ") for line in self._say("values", name)]

    def doubled(self) -> list[str]:
        return self._say("doubled")

    def close(self, name: str) -> None:
        self._say("close", name)

    def until(
        self, what: str, reached: Callable[[], bool], *names: str, timeout_s: float = TIMEOUT_S
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not reached():
            shown = {name: self.show(name) for name in names}
            assert time.monotonic() < deadline, f"not in time: {what}; {shown}"
            time.sleep(0.02)

    def until_shared(self, *names: str, parts: int) -> None:
        """Everybody holds something, and together they hold each partition once."""

        def is_shared() -> bool:
            held = [self.show(name).held for name in names]
            return all(held) and parts == sum(map(len, held)) == len(frozenset().union(*held))

        self.until(f"{names} share {parts} partitions", is_shared, *names)

    # -- lines ---------------------------------------------------------------------------------

    def _say(self, *words: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(words) + "\n").encode())
        self._process.stdin.flush()
        deadline = time.monotonic() + TIMEOUT_S
        told: list[str] = []
        while (line := self._line(deadline)) != "ok":
            assert not line.startswith("failed "), f"{words}: {line}"
            told.append(line)
        return told

    def _line(self, deadline: float) -> str:
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            left_s = deadline - time.monotonic()
            ready = left_s > 0 and select.select([self._process.stdout], [], [], left_s)[0]
            assert ready, "the members said nothing in time"
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            assert piece, "the JVM ended"
            self._unread += piece
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode()


def _parts(text: str) -> frozenset[str]:
    return frozenset() if text == "-" else frozenset(text.split(","))
