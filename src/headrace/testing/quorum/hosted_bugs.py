"""Mistakes of the driver and the host to be switched on, by which the hosted checks are tested.

Owns: each mistake, with the rules that it may break first. Must not know: how it is found.
"""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.quorum import replica_snapshots, snapshotting
from headrace.quorum.election_state import ElectionState
from headrace.quorum.host import Host
from headrace.quorum.quorum_state_file import QUORUM_STATE, encode_quorum_state
from headrace.quorum.replica_disk import ReplicaDisk
from headrace.quorum.snapshot_files import snapshot_name
from headrace.quorum.snapshotting import Snapshotting
from headrace.testing.quorum.bugs import Bug, Patch

OnDone = Callable[[StorageError | None], None]


def _answers_at_once() -> list[Patch]:
    """A decision is answered when it is appended."""
    original = Host.submit

    def submit(self: Host[Any], decide: Any, *, hold: bool = False) -> Promise[Any]:
        promise = original(self, decide, hold=hold)
        if not promise.settled:
            waiting = self._waiting.pop()
            waiting.promise.resolve(waiting.response)
        return promise

    return [(Host, "submit", submit)]


def _reads_do_not_wait() -> list[Patch]:
    """A read is answered at once, whatever it saw."""
    original = Host.submit

    def submit(self: Host[Any], decide: Any, *, hold: bool = False) -> Promise[Any]:
        before = len(self._pending)
        promise = original(self, decide, hold=hold)
        if not promise.settled and len(self._pending) == before:
            waiting = self._waiting.pop()
            waiting.promise.resolve(waiting.response)
        return promise

    return [(Host, "submit", submit)]


def _state_survives_leadership() -> list[Patch]:
    """What was decided and never committed is built upon by the next term of the same node."""

    def maybe_activate(self: Host[Any]) -> None:
        replica = self.replica
        is_due = not self.is_active and replica.is_leader
        if is_due and self._applied_end > replica.epoch_start_offset:
            kept = getattr(self, "_kept", None)
            self._state = kept if kept is not None else self.committed.copy()
            self._kept = self._state  # type: ignore[attr-defined]
            self._active_epoch = replica.epoch
            self.is_active = True

    return [(Host, "_maybe_activate", maybe_activate)]


def _active_before_own_entry() -> list[Patch]:
    """A new leader decides before all that older leaders left is committed."""
    original = Host._on_leadership

    def on_leadership(self: Host[Any]) -> None:
        original(self)
        if self.replica.is_leader and not self.is_active:
            self._state = self.committed.copy()
            self._active_epoch = self.replica.epoch
            self.is_active = True

    return [(Host, "_on_leadership", on_leadership)]


def _sync_not_awaited() -> list[Patch]:
    """The log is written, and said to be durable."""

    def sync(self: ReplicaDisk, on_done: OnDone) -> None:
        self.write()
        on_done(None)

    return [(ReplicaDisk, "sync", sync)]


def _election_state_not_synced() -> list[Patch]:
    """A vote is told before it is on disk."""

    def keep(self: ReplicaDisk, state: ElectionState, on_done: OnDone) -> None:
        path = f"{self.folder}/{QUORUM_STATE}"
        self.storage.replace_file(path, encode_quorum_state(state), sync=False)
        on_done(None)

    return [(ReplicaDisk, "keep_election_state", keep)]


def _snapshot_not_synced() -> list[Patch]:
    """A snapshot gets its name while its bytes are in the page cache alone."""

    def publish(storage: Any, folder: str, snapshot_id: Any, file: Any, on_done: OnDone) -> None:
        storage.rename(file.path, f"{folder}/{snapshot_name(snapshot_id)}")
        storage.sync_directory(folder)
        on_done(None)

    return [(replica_snapshots, "publish", publish)]


def _snapshot_of_a_moving_state() -> list[Patch]:
    """The state goes on while its snapshot is being written."""
    original = Snapshotting.begin

    def begin(self: Snapshotting, state: Any, end_offset: int) -> bool:
        class Moving:
            last_offset = state.last_offset

            def copy(self) -> Any:
                return state

        return original(self, Moving(), end_offset)  # type: ignore[arg-type]

    # Small slices, so that there is time to move.
    return [(Snapshotting, "begin", begin), (snapshotting, "SLICE_RECORDS_MAX", 5)]


def _commits_from_memory() -> list[Patch]:
    """A leader that lost its term goes on replaying what it had proposed."""
    original = Host._deactivate

    def deactivate(self: Host[Any], reason: BaseException) -> None:
        pending: Sequence[Any] = list(self._pending)
        original(self, reason)
        self._pending.extend(pending)

    return [(Host, "_deactivate", deactivate)]


HOSTED_BUGS = [
    Bug("answered when appended", _answers_at_once, frozenset({"H2"}), 3),
    Bug("reads do not wait", _reads_do_not_wait, frozenset({"H4"}), 5),
    Bug("the leading state survives its term", _state_survives_leadership, frozenset({"H5"}), 30),
    Bug("active before an own entry", _active_before_own_entry, frozenset({"H1", "H5"}), 5),
    Bug("what was proposed is replayed later", _commits_from_memory, frozenset({"H5"}), 30),
    Bug("the log's sync is not awaited", _sync_not_awaited, frozenset({"H1", "H2", "H5"}), 20),
    Bug("a vote is told unsynced", _election_state_not_synced, frozenset({"H1", "H5", "H6"}), 10),
    Bug("a snapshot is named unsynced", _snapshot_not_synced, frozenset({"H6"}), 20),
    Bug("a snapshot of a moving state", _snapshot_of_a_moving_state, frozenset({"H1"}), 30),
]
