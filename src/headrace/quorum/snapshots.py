"""Which snapshots stand beside the log.

Owns: their ids and sizes, which may go, and the state of one being fetched. Must not know: what
they hold, files.
Spec: KIP-630.

Invariants: the log starts at or before the end of the newest snapshot; a snapshot holds committed
entries only; the newest `kept` stay, so that a follower can finish a fetch of the older one.
"""

from dataclasses import dataclass

from headrace.quorum.log_view import SnapshotId


class Snapshots:
    __slots__ = ("_kept", "_sizes")

    def __init__(self, sizes: dict[SnapshotId, int], kept: int) -> None:
        self._sizes = dict(sorted(sizes.items()))
        self._kept = kept

    @property
    def latest(self) -> SnapshotId | None:
        return next(reversed(self._sizes), None)

    def size_of(self, snapshot_id: SnapshotId) -> int | None:
        return self._sizes.get(snapshot_id)

    def add(self, snapshot_id: SnapshotId, size_bytes: int) -> list[SnapshotId]:
        """Those that may be deleted for it."""
        assert self.latest is None or snapshot_id > self.latest
        self._sizes[snapshot_id] = size_bytes
        surplus = list(self._sizes)[: -self._kept]
        for old in surplus:
            del self._sizes[old]
        return surplus


@dataclass(slots=True)
class SnapshotDownload:
    """A snapshot that a lagging replica is fetching, chunk by chunk."""

    snapshot_id: SnapshotId
    position: int = 0
    is_complete: bool = False
    """All chunks are with the driver, which syncs them."""
