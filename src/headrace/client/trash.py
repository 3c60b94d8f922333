"""The trash, from a client's side: files that are moved there instead of deleted, and emptied.

Owns: what may be moved and under which name, and what an expunge makes of it.
Must not know: what is printed, the NameNode's own emptier (`namespace.trash`).
Spec: Hadoop's Trash and TrashPolicyDefault. Paths are compared by their names; Hadoop compares
text, so that it takes `/user/annabel` for something that holds the trash of `anna`.
"""

import posixpath
import time
from datetime import tzinfo

from headrace.base.errors import HeadraceError, UsageError
from headrace.client.namenode import NameNodeClient
from headrace.client.refusals import NO_SUCH_FILE
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.trash_names import (
    CURRENT,
    DIRECTORY_MODE,
    checkpoint_name,
    checkpoint_time_ms,
    trash_root,
)

_MOVES_MAX = 2
"""The second one where a checkpoint was made between mkdirs and rename."""
_NAMES_MAX = 1_000
_FILE_IN_THE_WAY = (exceptions.PARENT_NOT_DIRECTORY, exceptions.FILE_ALREADY_EXISTS)


class Trash:
    """One user's, kept for `interval_min` minutes unless the server says otherwise."""

    def __init__(
        self, namenode: NameNodeClient, interval_min: int = 0, zone: tzinfo | None = None
    ) -> None:
        self._namenode = namenode
        self._zone = zone
        self.interval_min = namenode.trash_interval_min() or interval_min
        self.root = trash_root(namenode.user)

    @property
    def is_enabled(self) -> bool:
        return self.interval_min > 0

    def move(self, path: str) -> str | None:
        """Where it is now; None: it stays to be deleted, since it is in the trash already or there
        is none."""
        if not self.is_enabled:
            return None
        # POSIX leaves two leading slashes as they are.
        path = "/" + posixpath.normpath(posixpath.join(posixpath.dirname(self.root), path)).lstrip(
            "/"
        )
        if _is_at_or_below(path, self.root):
            return None
        if _is_at_or_below(self.root, path):
            raise UsageError(
                f"{path} can't be moved to the trash, which it contains ({self.root}); "
                "say --skip-trash to delete it for good"
            )
        if not self._namenode.exists(path):
            raise HeadraceError(f"{path}: {NO_SUCH_FILE}")
        try:
            return self._move(path)
        except RemoteError as error:
            raise HeadraceError(
                f"{path} can't be moved to the trash: {error.message}; "
                "say --skip-trash to delete it for good"
            ) from error

    def _move(self, path: str) -> str:
        parent, name = posixpath.split(path)
        folder = f"{self.root}/{CURRENT}{parent.rstrip('/')}"
        for attempt in range(_MOVES_MAX):
            folder = self._make_folder(folder)
            target = self._free_name(f"{folder}/{name}")
            try:
                self._namenode.rename(path, target, to_trash=True)
            except RemoteError:
                if attempt == _MOVES_MAX - 1 or self._namenode.exists(folder):
                    raise
            else:
                return target
        raise AssertionError("unreachable")

    def _make_folder(self, folder: str) -> str:
        """The folder, or where a file is in its way one beside that: both get the time."""
        for _ in range(_NAMES_MAX):
            try:
                self._namenode.mkdirs(folder, DIRECTORY_MODE)
            except RemoteError as error:
                if error.class_name not in _FILE_IN_THE_WAY:
                    raise
                folder = self._beside_file(folder)
            else:
                return folder
        raise HeadraceError(f"no free name for {folder}")

    def _beside_file(self, folder: str) -> str:
        names = folder.split("/")
        for depth in range(2, len(names) + 1):
            path = "/".join(names[:depth])
            if not self._namenode.is_directory(path):
                return "/".join([f"{path}{_now_ms()}", *names[depth:]])
        return folder  # the file is gone by now

    def _free_name(self, path: str) -> str:
        free = path
        for _ in range(_NAMES_MAX):
            if not self._namenode.exists(free):
                return free
            free = f"{path}{_now_ms()}"
        raise HeadraceError(f"no free name for {path}")

    # -- emptying ----------------------------------------------------------------------------

    def expunge(self, *, immediate: bool = False) -> tuple[list[str], str | None]:
        """Checkpoints deleted, and the one that was made of what was thrown away last.

        Without `immediate` only old ones go, and the new one stays; with it nothing does.
        """
        if not self._namenode.exists(self.root):
            return [], None
        if immediate:
            made = self._make_checkpoint()
            return self._delete_checkpoints(None), made
        deleted = self._delete_checkpoints(self.interval_min)
        return deleted, self._make_checkpoint()

    def _make_checkpoint(self) -> str | None:
        current = f"{self.root}/{CURRENT}"
        if not self._namenode.exists(current):
            return None
        base = f"{self.root}/{checkpoint_name(_now_ms(), self._zone)}"
        for attempt in range(_NAMES_MAX):
            target = f"{base}-{attempt}" if attempt else base
            try:
                self._namenode.rename(current, target)
            except RemoteError as error:
                if error.class_name != exceptions.FILE_ALREADY_EXISTS:
                    raise
            else:
                return target
        raise HeadraceError(f"no free name for a checkpoint {base}")

    def _delete_checkpoints(self, older_than_min: int | None) -> list[str]:
        """None: all. A server in another zone may have made some that seem to be of tomorrow."""
        now_ms = _now_ms()
        deleted = []
        for name in list(self._namenode.names_in(self.root)):
            made_ms = None if name == CURRENT else checkpoint_time_ms(name, self._zone)
            if made_ms is None:
                continue
            if older_than_min is not None and now_ms - made_ms < older_than_min * 60_000:
                continue
            path = f"{self.root}/{name}"
            self._namenode.delete(path)
            deleted.append(path)
        return deleted


def _is_at_or_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _now_ms() -> int:
    return int(time.time() * 1000)
