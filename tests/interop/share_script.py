"""Share consumers of Kafka's Java client in a JVM of their own, told what to do line by line.

Owns: the process and its lines, which `ShareScript.java` describes. Must not know: brokers.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.interop.java_tools import java_command, prepare

TIMEOUT_S = 60.0


class Delivered(NamedTuple):
    partition: int
    offset: int
    delivery_count: int
    value: str

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


class ShareScript:
    """One JVM with any number of named consumers."""

    def __init__(self, bootstrap_servers: str) -> None:
        prepare()
        self._process = subprocess.Popen(
            [*java_command(), "ShareScript", bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._unread = b""

    def __enter__(self) -> "ShareScript":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """As kill -9."""
        self._process.kill()
        self._process.communicate()

    # -- what consumers do ---------------------------------------------------------------------

    def open(self, name: str, group: str, topic: str, **settings: str) -> None:
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        assert self._say("open", name, group, topic, *pairs) == ["ok"]

    def poll(self, name: str, timeout_ms: int = 500) -> list[Delivered]:
        *told, outcome = self._say("poll", name, str(timeout_ms))
        assert outcome == "ok", outcome
        found = [line.split(" ", 4) for line in told]
        return [Delivered(int(p), int(o), int(c), value) for _, p, o, c, value in found]

    def acknowledge(self, name: str, records: Iterable[Delivered], kind: str = "accept") -> None:
        for record in records:
            said = self._say("ack", name, kind, str(record.partition), str(record.offset))
            assert said == ["ok"], said

    def commit(self, name: str) -> list[str]:
        """`kept N` or `refused EXCEPTION N` for each partition N."""
        *told, outcome = self._say("commit", name)
        assert outcome == "ok", outcome
        return told

    def close(self, name: str) -> None:
        assert self._say("close", name) == ["ok"]

    def poll_until(
        self, name: str, is_enough: Callable[[list[Delivered]], bool], timeout_s: float = TIMEOUT_S
    ) -> list[Delivered]:
        """The first poll that has something and is enough."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self.poll(name)
            if found and is_enough(found):
                return found
            assert not found, f"not enough: {found}"
        raise AssertionError(f"{name} got nothing in time")

    def poll_some(self, name: str, timeout_s: float = TIMEOUT_S) -> list[Delivered]:
        return self.poll_until(name, lambda _: True, timeout_s)

    # -- lines ---------------------------------------------------------------------------------

    def _say(self, *words: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(words) + "\n").encode())
        self._process.stdin.flush()
        deadline = time.monotonic() + TIMEOUT_S
        told = []
        while True:
            line = self._line(deadline)
            told.append(line)
            if line == "ok" or line.startswith("failed "):
                return told

    def _line(self, deadline: float) -> str:
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            left_s = deadline - time.monotonic()
            ready = left_s > 0 and select.select([self._process.stdout], [], [], left_s)[0]
            assert ready, "the consumers said nothing in time"
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            assert piece, "the JVM ended"
            self._unread += piece
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode()
