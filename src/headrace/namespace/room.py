"""Room for edits: what is free where the edit log is, and when that is too little.

Owns: the verdict and its sentence. Must not know: timers (asked to look), what is refused then.
Spec: NameNodeResourceChecker.

Below the reserve nothing is changed, and reads are served. The reserve is for what comes between
two looks: edits, the zeros ahead of them (`File.fill_ahead`), a checkpoint that was begun.
"""

from typing import Final

from headrace.base.errors import StorageError
from headrace.base.limits import MIB
from headrace.base.storage import Storage

_MARGIN_BYTES_MAX: Final = 4 * MIB
"""So much more than the reserve ends it: zeros that come and go must not switch it on and off."""


class Room:
    def __init__(self, storage: Storage, directory: str, reserved_bytes: int) -> None:
        """0 reserved: there always is room, until the disk says otherwise."""
        self._storage = storage
        self.directory = directory
        self.reserved_bytes = reserved_bytes
        self.free_bytes = -1
        """At the last look; -1: nobody could tell."""
        self.is_short = False

    def look(self) -> bool:
        """Ask the disk; True if the verdict is another one now."""
        try:
            self.free_bytes = self._storage.free_bytes(self.directory)
        except (StorageError, FileNotFoundError):
            return False  # whoever writes there will be told why
        was_short = self.is_short
        self.is_short = self.free_bytes < (self._enough_bytes if was_short else self.reserved_bytes)
        return self.is_short != was_short

    @property
    def _enough_bytes(self) -> int:
        return self.reserved_bytes + min(self.reserved_bytes, _MARGIN_BYTES_MAX)

    @property
    def lack(self) -> str:
        """Why changes are refused; empty if there is room."""
        if not self.is_short:
            return ""
        return (
            f"Resources are low on NN. {self.directory} has {self.free_bytes} bytes left, and "
            f"{self.reserved_bytes} are kept free (dfs.namenode.resource.du.reserved). Free "
            f"{self._enough_bytes - self.free_bytes} bytes there or give that disk more: safe mode "
            "will be turned off automatically then."
        )
