"""What sealed segments hold only while they are used: open files and loaded indexes.

Owns: which log files hold a descriptor now, which indexes were loaded last.
Must not know: what is in them.

Letting go means forgetting, not closing: a response on its way still holds the `File` in its
`FileRegion`, and the descriptor is closed with the last reference. So a budget of N may be
exceeded for as long as the answers in flight last, and never cuts one off.

The victim is found as by the clock algorithm: a file used since the hand passed last is
spared once. The hot path pays one attribute for that.

Invariant: at most `limit` files and `INDEXES_MAX` loaded indexes are held.
"""

from typing import Final, Protocol

from headrace.base.errors import StorageError
from headrace.base.storage import File, Storage

INDEXES_MAX: Final = 64
"""Of sealed segments; one of a gibibyte has some five mebibytes of them."""


class IndexOwner(Protocol):
    def let_go_indexes(self) -> None:
        """Forget loaded indexes, unless they are needed for appending."""
        ...


class LazyFile:
    """One file of the log by its path; `get` opens it if need be."""

    __slots__ = ("_budget", "_fill_step_bytes", "_size", "file", "path", "used")

    def __init__(self, budget: "FileBudget", path: str) -> None:
        self._budget = budget
        self.path = path
        self.file: File | None = None
        self.used = False
        self._fill_step_bytes = 0
        self._size = 0
        """Where zeros follow the end and no file is open: the end."""

    def get(self) -> File:
        file = self.file
        if file is None:
            return self._budget.open(self)
        self.used = True
        return file

    def release(self) -> None:
        """Forget the file; it closes when no region holds it any more."""
        if self.file is not None:
            self.forget()
            self._budget.on_released(self)

    def forget(self) -> None:
        if self.file is not None and self._fill_step_bytes:
            self._size = self.file.size()
        self.file = None

    def fill_ahead(self, step_bytes: int, size: int) -> None:
        """Have zeros follow the file's end, see `File.fill_ahead`; 0 steps: no more."""
        file = self.get()
        self._fill_step_bytes = step_bytes
        file.fill_ahead(step_bytes, size)

    def on_opened(self, file: File) -> None:
        if self._fill_step_bytes:
            file.fill_ahead(self._fill_step_bytes, self._size)
        self.file = file
        self.used = True


class FileBudget:
    def __init__(self, storage: Storage, limit: int = 2048) -> None:
        assert limit > 0
        self.storage = storage
        self._limit = limit
        self._open: dict[LazyFile, None] = {}
        """In the order in which the hand meets them."""
        self._indexed: dict[IndexOwner, None] = {}
        """In the order in which they loaded last."""

    @property
    def open_count(self) -> int:
        return len(self._open)

    def open(self, lazy: LazyFile, *, create: bool = False) -> File:
        self._make_room()
        try:
            file = self.storage.open(lazy.path, create=create)
        except FileNotFoundError as error:
            raise StorageError(lazy.path, error) from error
        lazy.on_opened(file)
        self._open[lazy] = None
        return file

    def on_released(self, lazy: LazyFile) -> None:
        self._open.pop(lazy, None)

    def on_indexes_loaded(self, owner: IndexOwner) -> None:
        """The owner loaded its indexes from files; who did so longest ago lets its own go."""
        self._indexed.pop(owner, None)
        self._indexed[owner] = None
        if len(self._indexed) > INDEXES_MAX:
            oldest = next(iter(self._indexed))
            del self._indexed[oldest]
            oldest.let_go_indexes()

    def _make_room(self) -> None:
        # Each file is spared at most once a turn, so the loop ends.
        while len(self._open) >= self._limit:
            lazy = next(iter(self._open))
            del self._open[lazy]
            if lazy.used:
                lazy.used = False
                self._open[lazy] = None
            else:
                lazy.forget()
