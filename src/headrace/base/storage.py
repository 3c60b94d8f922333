"""Files as a seam: real in `runtime.disk`, simulated in `testing.disk`.

All paths are `str`. Every operation that the operating system refuses raises `StorageError`
with the path (a missing file in `open`/`remove`/`rename`/`list` raises `FileNotFoundError`).
Durability: `write` reaches the page cache only; data is durable after `sync`, a new name
or a rename after `sync_directory` of its parent. The simulated disk forgets or tears the rest.

The hot path calls `File.write` and hands `(file, position, length)` to the runtime, which
uses `File.fileno()` for sendfile; nothing here copies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.base.errors import StorageError

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Writes append at the end; reads are positional."""

    @property
    def path(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def size(self) -> int:
        """The size in bytes as writes and truncations have made it (no system call)."""
        ...

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Append all buffers in order, whole, by one `writev` where possible.

        A failed or short write that can't be completed truncates back to the size before
        and raises StorageError.
        """
        ...

    def write_out(self, position: int) -> None:
        """What was written from `position` on begins its way to the disk: a sync that comes soon
        waits less. Advice, and no promise."""
        ...

    def write_at(self, position: int, buffer: Buffer) -> None: ...

    def read(self, position: int, length: int) -> bytes:
        """At most `length` bytes; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def preallocate(self, size: int) -> None:
        """Reserve room on disk without changing `size()`."""
        ...

    def fill_ahead(self, step_bytes: int, size: int) -> None:
        """The file ends at `size`, and zeros follow it on disk from now on.

        There are none yet, or what stands behind `size` is zeros. A write that ends behind the
        last of them is followed by `step_bytes` more, so that the next ones change no size, and a
        sync has only their bytes to write. `size()`, `read` and `write` don't know of the zeros;
        another who opens the file finds them. Without room for them the file goes on without.
        `truncate` and `close` take them away (the last reference to an open file does not: it may
        be an old one); 0 steps take them away for good.
        """
        ...

    def fileno(self) -> int:
        """The descriptor, for sendfile. The simulated file has none and raises."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileRegion:
    """Bytes of a file that a response carries: sent by sendfile, never read here."""

    file: File
    position: int
    length: int


class DirectWriter(Protocol):
    """Appends whole pages to one file around the page cache, off the loop, one write at a time.
    After a power cut, too, they are not there without what was written before them.

    Nobody else appends to the file while a write is under way.
    """

    buffer: memoryview
    """What `append` takes its bytes from; for the holder to fill."""

    def append(
        self, start: int, length: int, on_done: Callable[[StorageError | None], None]
    ) -> None:
        """Append buffer[start : start + length], which begins and ends on a page of the buffer, to
        a file that ends on one.

        `on_done` runs on the loop's thread. After an error the file is as it was before.
        """
        ...

    def wait(self) -> None:
        """Return when nothing is under way, and `on_done` has been called."""
        ...

    def close(self) -> None:
        """The buffer is no longer the holder's. Nothing is under way."""
        ...


class Storage(Protocol):
    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def list(self, path: str) -> "list[str]":
        """Names (not paths) in a directory, sorted."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """With parents; fine if it is there."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """With all that is in it."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic, replaces `target`."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Atomic: written beside, fsynced, renamed over, directory fsynced.

        With sync=False nothing is fsynced (still atomic against a process crash).
        """
        ...

    def replace_file_later(
        self,
        path: str,
        content: bytes,
        on_done: Callable[[StorageError | None], None],
        *,
        sync: bool = False,
    ) -> None:
        """`replace_file` off the loop: a rename, and more so a sync, may wait for a busy disk.

        A `replace_file` of the same path that comes after it wins. Of two that are under way at
        once either may win.
        """
        ...

    def sync(
        self,
        file: File,
        on_done: Callable[[StorageError | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        """fdatasync off the loop; `on_done` runs on the loop's thread with the outcome.

        The names in `directories` are made durable with it.

        A failed sync is final: what was written since the last good one must be distrusted.
        """
        ...

    def direct_writer(self, file: File) -> DirectWriter | None:
        """A way around the page cache; None where there is none, or none that pays.

        Its writes are durable after `sync` of `file`, as all others.
        """
        ...

    def sync_directories(
        self, directories: Sequence[str], on_done: Callable[[StorageError | None], None]
    ) -> None:
        """Make names durable off the loop: for files that have been synced and then renamed."""
        ...

    def sync_now(self, file: File) -> None:
        """fdatasync before returning: for start, stop and child processes only."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def boot_id(self) -> str:
        """Another one after each start of the machine; empty where nobody knows."""
        ...

    def total_bytes(self, path: str) -> int: ...
