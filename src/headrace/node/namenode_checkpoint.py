"""Checkpoints of a running NameNode: when one is due, the child process that builds it, and after.

Owns: the child. The NameNode goes on meanwhile: the child reads the newest checkpoint and the
log's files, up to an offset that was durable when it was started.
Must not know: the format (`namespace.checkpoint`).

    python -m headrace.node.namenode_checkpoint DIRECTORY END_OFFSET RESERVED_BYTES
"""

import os
import subprocess
import sys

from headrace.base.clock import Clock, Timers
from headrace.base.errors import HeadraceError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.storage import Storage
from headrace.namespace import checkpoint
from headrace.namespace.journal import Journal
from headrace.namespace.room import Room
from headrace.namespace.settings import NamespaceSettings
from headrace.runtime.disk import DiskStorage

_FIRST_LOOK_MS = 100
"""Soon: a NameNode that never lives for long must get rid of its edits, too."""
_LOOK_MS = 10_000
_POLL_MS = 100
_NICENESS = 10


class Checkpoints:
    """Builds a checkpoint when there were enough edits, or enough time with any."""

    def __init__(
        self,
        journal: Journal,
        directory: str,
        settings: NamespaceSettings,
        room: Room,
        *,
        storage: Storage,
        clock: Clock,
        timers: Timers,
        events: EventLog,
    ) -> None:
        self._journal = journal
        self._directory = directory
        self._settings = settings
        self._room = room
        self._storage = storage
        self._clock = clock
        self._timers = timers
        self._events = events
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: list[Promise[bool]] = []
        offsets = checkpoint.image_offsets(storage, directory)
        self._last_offset = offsets[0] if offsets else -1
        self._last_ms = clock.monotonic_ms()
        self._built_offset = self._last_offset
        self.built_ms = 0
        """When the newest one was built; 0: there is none."""
        if offsets:
            self.built_ms = storage.modified_ms(checkpoint.image_path(directory, offsets[0]))

    @property
    def edits_since(self) -> int:
        """Durable edits that the newest one lacks."""
        return self._journal.high_watermark - 1 - self._built_offset

    def start(self) -> None:
        self._timers.call_later(_FIRST_LOOK_MS, self._look)

    def _look(self) -> None:
        edits = self._journal.high_watermark - 1 - self._last_offset
        age_ms = self._clock.monotonic_ms() - self._last_ms
        # A restart alone writes one control record: that is no edit.
        is_due = edits >= self._settings.checkpoint_edits or (
            edits > 1 and age_ms >= self._settings.checkpoint_interval_ms
        )
        # What room there is on a disk that is almost full is for edits; an operator may differ.
        if is_due and self._child is None and not self._room.is_short:
            self.build()
        self._timers.call_later(_LOOK_MS, self._look)

    def build(self) -> Promise[bool]:
        """Begin one now; the promise tells whether it was built."""
        done: Promise[bool] = Promise()
        self._waiting.append(done)
        if self._child is None:
            end_offset = self._journal.high_watermark
            words = (self._directory, str(end_offset), str(self._room.reserved_bytes))
            command = [sys.executable, "-m", __name__, *words]
            self._events.info("checkpoint_started", end_offset=end_offset)
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            self._last_offset, self._last_ms = end_offset - 1, self._clock.monotonic_ms()
            self._timers.call_later(_POLL_MS, self._poll)
        return done

    def _poll(self) -> None:
        child = self._child
        if child is None:
            return
        status = child.poll()
        if status is None:
            self._timers.call_later(_POLL_MS, self._poll)
            return
        self._child = None
        took_ms = self._clock.monotonic_ms() - self._last_ms
        if status == 0:
            self._built_offset, self.built_ms = self._last_offset, self._clock.now_ms()
            checkpoint.retire(
                self._storage, self._directory, self._journal.log, self._clock.now_ms()
            )
            self._events.info("checkpoint_built", offset=self._last_offset, took_ms=took_ms)
        else:
            self._events.error("checkpoint_failed", status=status, took_ms=took_ms)
        waiting, self._waiting = self._waiting, []
        for promise in waiting:
            promise.resolve(status == 0)

    def close(self) -> None:
        """A half-built checkpoint has no name yet: nothing is lost with the child."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def main(arguments: list[str]) -> int:
    directory, end_offset, reserved_bytes = arguments
    settings = NamespaceSettings(resource_reserved_bytes=int(reserved_bytes))
    os.nice(_NICENESS)
    try:
        checkpoint.build(DiskStorage(), directory, int(end_offset), settings)
    except HeadraceError as error:
        print(f"checkpoint failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
