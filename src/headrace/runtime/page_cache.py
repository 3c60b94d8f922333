"""The system's page cache: advice about a file's pages, and pages that may not leave memory.

Owns: `posix_fadvise`, `sync_file_range`, and `mmap` with `mlock`, which Python's own mmap lacks.
Must not know: blocks, why a file is wanted in memory.

A pinned file's pages are the page cache's own: whoever reads the file, by sendfile too, finds
them there.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import resource

from headrace.base.errors import StorageError
from headrace.base.storage import File

PAGE_BYTES = mmap.PAGESIZE
_PROT_READ = 1
_MAP_SHARED = 1
_MAP_FAILED = ctypes.c_void_p(-1).value
_SYNC_FILE_RANGE_WRITE = 2
_SYNC_FILE_RANGE_WAIT = 1 | 4
"""For what is being written already, and for what that call begins to write."""

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_munmap = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_mlock = _libc.mlock
_mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_sync_file_range = _libc.sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class SystemPageCache:
    """Advice: what the system does not take is left."""

    def will_need(self, file: File, position: int, length: int) -> None:
        with contextlib.suppress(OSError):
            os.posix_fadvise(file.fileno(), position, length, os.POSIX_FADV_WILLNEED)

    def drop(self, file: File, position: int, length: int) -> None:
        with contextlib.suppress(OSError):
            os.posix_fadvise(file.fileno(), position, length, os.POSIX_FADV_DONTNEED)

    def write_out(self, file: File, position: int, length: int) -> None:
        _sync_file_range(file.fileno(), position, length, _SYNC_FILE_RANGE_WRITE)


def write_out_and_wait(file: File, position: int, length: int) -> None:
    """Not for the loop's thread. OSError if the disk did not take it: no sync will tell again."""
    flags = _SYNC_FILE_RANGE_WAIT | _SYNC_FILE_RANGE_WRITE
    if _sync_file_range(file.fileno(), position, length, flags) != 0:
        error = _last_error()
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ESPIPE):
            raise error


class PinnedFile:
    """A file's first `length` bytes, held in memory until `release`."""

    __slots__ = ("_address", "length", "path")

    def __init__(self, file: File, length: int) -> None:
        """Reads the file: not for the loop's thread. StorageError if it can't be held."""
        self.path = file.path
        self.length = length
        address = _mmap(None, length, _PROT_READ, _MAP_SHARED, file.fileno(), 0)
        if address is None or address == _MAP_FAILED:
            raise StorageError(file.path, _last_error())
        self._address: int | None = address
        if _mlock(address, length) != 0:
            error = _last_error()
            self.release()
            raise StorageError(file.path, error)

    def release(self) -> None:
        address, self._address = self._address, None
        if address is not None:
            _munmap(address, self.length)  # which unlocks as well


def _last_error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


def lockable_bytes() -> int | None:
    """How much this process may lock; None: as much as there is."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return None if limit == resource.RLIM_INFINITY or os.geteuid() == 0 else limit
