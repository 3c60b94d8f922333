"""The real disk behind `base.storage`.

Owns: files by their names, the ring that syncs, and the few threads that wait for fdatasync where
there is no ring. Must not know: what is in a file, how it is written (`disk_file`).
"""

import asyncio
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

from headrace.base.errors import DiskFullError, StorageError
from headrace.base.storage import File
from headrace.runtime import disk_file
from headrace.runtime.direct_writer import DirectWriters, DiskDirectWriter
from headrace.runtime.disk_file import DiskFile, refused
from headrace.runtime.uring import RingOnDemand

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
SYNC_THREADS = 4
RING_ENTRIES = 64
"""Direct writes and syncs under way at once; what is beyond goes by threads."""


def _write_whole(path: str, content: bytes, sync: bool) -> None:
    with open(path, "wb", buffering=0) as file:
        view = memoryview(content)
        while len(view):
            view = view[file.write(view) :]
        if sync:
            os.fsync(file.fileno())


class DiskStorage:
    """Storage on the local file system. Without a loop, `sync` completes before it returns.

    `syncs_by_ring` is for who syncs many files at once, as a DataNode does: threads that ask for
    the interpreter after each take a fifth of its CPU.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None = None, *, syncs_by_ring: bool = False
    ) -> None:
        self._loop = loop
        self._syncs_by_ring = syncs_by_ring
        self._threads: ThreadPoolExecutor | None = None
        self._by_threads = 0
        self._ring = RingOnDemand(loop, RING_ENTRIES)
        self._direct = DirectWriters(loop, self._ring)
        self._locks: list[DiskFile] = []
        self._replacing = threading.Lock()
        self._replaced: dict[str, int] = {}
        """How often `replace_file` has replaced each path: a later one is not undone."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT
        try:
            return DiskFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644))
        except OSError as error:  # as `_failing`, without its price: every read opens two files
            if not create and isinstance(error, FileNotFoundError):
                raise
            raise refused(path, error) from error

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        with _failing(path):
            return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        with _failing(path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, path: str) -> list[str]:
        with _failing(path):
            return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        with _failing(path):
            os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        with _failing(path):
            os.remove(path)

    def remove_directory(self, path: str) -> None:
        with _failing(path):
            shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        with _failing(source):
            os.rename(source, target)

    def read_file(self, path: str) -> bytes:
        with _failing(path), open(path, "rb", buffering=0) as file:
            return file.read()

    def replace_file(self, path: str, content: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        with _failing(path, may_miss=False):
            _write_whole(temporary, content, sync)
            with self._replacing:
                self._replaced[path] = self._replaced.get(path, 0) + 1
                os.rename(temporary, path)
            if sync:
                self.sync_directory(os.path.dirname(path))

    def replace_file_later(
        self,
        path: str,
        content: bytes,
        on_done: Callable[[StorageError | None], None],
        *,
        sync: bool = False,
    ) -> None:
        expected = self._replaced.get(path, 0)

        def run() -> StorageError | None:
            temporary = path + ".later.tmp"
            try:
                with _failing(path, may_miss=False):
                    _write_whole(temporary, content, sync)
                    with self._replacing:
                        if self._replaced.get(path, 0) == expected:
                            os.rename(temporary, path)
                        else:
                            os.remove(temporary)  # something newer stands there by now
                    if sync:
                        self.sync_directory(os.path.dirname(path))
            except StorageError as error:
                return error
            return None

        self._off_the_loop(run, on_done)

    def sync(
        self,
        file: File,
        on_done: Callable[[StorageError | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        assert isinstance(file, DiskFile)
        self._sync_all(file, directories, on_done)

    def direct_writer(self, file: File) -> DiskDirectWriter | None:
        assert isinstance(file, DiskFile)
        return self._direct.open(file)

    def sync_directories(
        self, directories: Sequence[str], on_done: Callable[[StorageError | None], None]
    ) -> None:
        self._sync_all(None, directories, on_done)

    def _sync_all(
        self,
        file: DiskFile | None,
        directories: Sequence[str],
        on_done: Callable[[StorageError | None], None],
    ) -> None:
        """All at once by the ring; one after the other by a thread."""
        left = len(directories) + (file is not None)
        if not left or not self._syncs_by_ring or self._ring.get() is None:
            self._off_the_loop(lambda: self._outcome(file, directories), on_done)
            return
        failed: StorageError | None = None

        def settle(error: StorageError | None) -> None:
            nonlocal left, failed
            left -= 1
            failed = failed or error
            if left == 0:
                on_done(failed)

        if file is not None:
            # A descriptor of its own: the file's may be closed before the sync begins.
            duplicate = partial(os.dup, file.fileno())
            by_thread = partial(self._outcome, file, ())
            self._sync_by_ring(file.path, duplicate, by_thread, settle, data_only=True)
        for path in directories:
            opening = partial(_open_directory, path)
            by_thread = partial(self._outcome, None, (path,))
            self._sync_by_ring(path, opening, by_thread, settle, data_only=False)

    def _sync_by_ring(
        self,
        path: str,
        descriptor: Callable[[], int],
        by_thread: Callable[[], StorageError | None],
        settle: Callable[[StorageError | None], None],
        *,
        data_only: bool,
    ) -> None:
        """What the ring does not take a thread does, and says why it can't be done."""
        ring = self._ring.get()
        if ring is None:
            self._off_the_loop(by_thread, settle)
            return

        def on_done(result: int) -> None:
            with suppress(OSError):
                os.close(fd)
            if result >= 0:
                settle(None)
            elif result == -errno.ECANCELED:  # never begun: the kernel may have no more threads
                self._off_the_loop(by_thread, settle)
            else:
                settle(StorageError(path, OSError(-result, os.strerror(-result))))

        try:
            fd = descriptor()
        except OSError:
            self._off_the_loop(by_thread, settle)
            return
        try:
            ring.sync(fd, on_done, data_only=data_only)
        except OSError:
            os.close(fd)
            self._off_the_loop(by_thread, settle)

    def _off_the_loop(
        self,
        action: Callable[[], StorageError | None],
        on_done: Callable[[StorageError | None], None],
    ) -> None:
        if self._loop is None:
            on_done(action())
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="fdatasync")
        self._by_threads += 1
        loop = self._loop

        def run() -> None:
            outcome = action()
            # On a loop that has been closed nobody waits any more.
            if not loop.is_closed():
                loop.call_soon_threadsafe(on_done, outcome)

        self._threads.submit(run)

    def _outcome(self, file: DiskFile | None, directories: Sequence[str]) -> StorageError | None:
        try:
            if file is not None:
                file.sync()
            for path in directories:
                self.sync_directory(path)
        except StorageError as error:
            return error
        except FileNotFoundError as error:
            return StorageError(str(error.filename), error)
        return None

    sync_now = staticmethod(disk_file.sync_now)

    def sync_together(self, files: Sequence[File], directories: Sequence[str]) -> None:
        """Sync all before returning, several at a time; the first failure is raised."""

        def sync(target: File | str) -> None:
            if isinstance(target, str):
                self.sync_directory(target)
            else:
                self.sync_now(target)

        with ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="fdatasync") as threads:
            for _ in threads.map(sync, [*files, *directories]):
                pass

    def sync_directory(self, path: str) -> None:
        try:
            with _failing(path):
                fd = _open_directory(path)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
        except DiskFullError as error:  # a failed sync is not to be tried again
            raise StorageError(path, error.cause) from error

    @property
    def done_beside(self) -> tuple[int, int]:
        """Writes and syncs that were done beside the loop: by the ring, and by threads."""
        return self._ring.begun, self._by_threads + self._direct.by_threads

    def boot_id(self) -> str:
        try:
            with open(BOOT_ID_PATH, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def free_bytes(self, path: str) -> int:
        with _failing(path):
            state = os.statvfs(path)
        return state.f_bavail * state.f_frsize

    def total_bytes(self, path: str) -> int:
        with _failing(path):
            state = os.statvfs(path)
        return state.f_blocks * state.f_frsize

    def lock(self, path: str) -> str | None:
        """Hold a lock file until `close`; who holds it if somebody else does."""
        file = self.open(path, create=True)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = file.read(0, 32).decode("ascii", "replace").strip()
            return f"process {pid}" if pid else "another process"
        except OSError as error:
            raise StorageError(path, error) from error
        file.truncate(0)
        with suppress(DiskFullError):  # who is refused does not hear by whom then
            file.write([f"{os.getpid()}\n".encode()])
        self._locks.append(file)
        return None

    def close(self) -> None:
        """Wait for the syncs and writes under way; give the locks back."""
        self._ring.close()
        self._direct.close()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        for file in self._locks:
            file.close()
        self._locks.clear()


def _open_directory(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@contextmanager
def _failing(path: str, *, may_miss: bool = True) -> Iterator[None]:
    """An error of the system as a StorageError; a missing file stays what it is."""
    try:
        yield
    except OSError as error:
        if may_miss and isinstance(error, FileNotFoundError):
            raise
        raise refused(path, error) from error
