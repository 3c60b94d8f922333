"""One open file of the real disk.

Owns: its descriptor, its size, and the system calls that write, read, cut and sync it.
Must not know: what is in it, who waits for a sync (`disk`).

A file closes when it is told to, or with its last reference: a region on its way to a
socket keeps the descriptor it needs alive.
"""

import ctypes
import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from os import POSIX_FADV_DONTNEED, posix_fadvise
from typing import Final

from headrace.base.errors import DiskFullError, StorageError
from headrace.base.storage import Buffer, File

IOV_MAX: Final = 1024
FALLOC_FL_KEEP_SIZE: Final = 1
_NEVER: Final = 1 << 63
_PAGE_BYTES: Final = 4096

_fallocate: Final = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class DiskFile:
    __slots__ = ("_fd", "_fill_from", "_fill_step_bytes", "_path", "_size")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._fill_step_bytes = 0
        self._fill_from = _NEVER
        """A write that ends behind this is followed by zeros."""

    @property
    def path(self) -> str:
        return self._path

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def size(self) -> int:
        return self._size

    def write(self, buffers: Sequence[Buffer]) -> None:
        count = len(buffers)
        try:
            if count == 1:
                expected = len(buffers[0])
                written = os.pwrite(self._fd, buffers[0], self._size)
            else:
                expected = sum(map(len, buffers))
                written = os.pwritev(self._fd, buffers, self._size) if count <= IOV_MAX else 0
        except OSError as error:
            raise self.undone(error) from error
        if written != expected:
            self._write_rest(buffers, written)
        self._size = size = self._size + expected
        if size > self._fill_from:
            self._fill()

    def write_out(self, position: int) -> None:
        length = self._size - position
        # The kernel's advice to forget pages begins to write them, and keeps those that are not
        # whole; of more than a page it would look for pages to forget.
        if 0 < length < _PAGE_BYTES:
            try:
                posix_fadvise(self._fd, position, length, POSIX_FADV_DONTNEED)
            except OSError:
                return  # a sync will tell

    def _write_rest(self, buffers: Sequence[Buffer], written: int) -> None:
        """Go on after a short write; a second refusal undoes all of it."""
        position = self._size + written
        pending = _skip(buffers, written)
        try:
            while pending:
                count = os.pwritev(self._fd, pending[:IOV_MAX], position)
                if count == 0:
                    raise OSError(errno.EIO, "nothing was written")
                position += count
                pending = _skip(pending, count)
        except OSError as error:
            raise self.undone(error) from error

    def grown(self, size: int) -> None:
        """Bytes were appended by another descriptor."""
        self._size = size

    def undone(self, error: OSError) -> StorageError:
        """The file is as it was before the write; where it is not, that is more than a full disk,
        and recovery cuts the rest at the next start."""
        try:
            self._cut(self._size)
        except OSError:
            return StorageError(self._path, error)
        return refused(self._path, error)

    def write_at(self, position: int, buffer: Buffer) -> None:
        view = memoryview(buffer)
        try:
            while len(view):
                count = os.pwrite(self._fd, view, position)
                position += count
                view = view[count:]
        except OSError as error:
            raise StorageError(self._path, error) from error
        self._size = max(self._size, position)

    def read(self, position: int, length: int) -> bytes:
        if self._fill_step_bytes and position + length > self._size:
            length = max(0, self._size - position)
        try:
            data = os.pread(self._fd, length, position)
            if len(data) == length or not data:
                return data
            parts = [data]
            length -= len(data)
            while length and parts[-1]:
                position += len(parts[-1])
                parts.append(os.pread(self._fd, length, position))
                length -= len(parts[-1])
        except OSError as error:
            raise StorageError(self._path, error) from error
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        try:
            self._cut(size)
        except OSError as error:
            raise StorageError(self._path, error) from error
        self._size = size

    def _cut(self, size: int) -> None:
        """What is behind `size` goes, zeros too."""
        os.ftruncate(self._fd, size)
        if self._fill_step_bytes:
            self._fill_from = size

    def preallocate(self, size: int) -> None:
        if size <= self._size:
            return
        # Python's posix_fallocate would change the size, and cutting it back frees the blocks.
        result = _fallocate(self._fd, FALLOC_FL_KEEP_SIZE, self._size, size - self._size)
        if result != 0:
            code = ctypes.get_errno()
            if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise refused(self._path, OSError(code, os.strerror(code)))

    def fill_ahead(self, step_bytes: int, size: int) -> None:
        self._size, self._fill_step_bytes = size, step_bytes
        try:
            if step_bytes:
                self._fill_from = os.fstat(self._fd).st_size
            else:
                self._fill_from = _NEVER
                self._cut(size)
        except OSError as error:
            raise StorageError(self._path, error) from error

    def _fill(self) -> None:
        """The write before this is whole, whatever comes of it."""
        size, step_bytes = self._size, self._fill_step_bytes
        try:
            self._fill_from = size + os.pwrite(self._fd, bytes(step_bytes), size)
        except OSError:
            # The room that is left is for what will be written: no zeros for a while.
            with suppress(OSError):
                self._cut(size)
            self._fill_from = size + step_bytes

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fill_step_bytes and self._fd >= 0:
            with suppress(OSError):  # who opens it next finds the zeros and knows them
                self._cut(self._size)
        self._release()

    def _release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # Not `close`: the file may be open once more, and longer by now than this one knows.
        self._release()

    def sync(self) -> None:
        if self._fd < 0:
            raise StorageError(self._path, "closed before it was synced")
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise StorageError(self._path, error) from error


def sync_now(file: File) -> None:
    assert isinstance(file, DiskFile)
    file.sync()


def _skip(buffers: Sequence[Buffer], count: int) -> list[Buffer]:
    """The buffers without their first `count` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        if count >= len(buffer):
            count -= len(buffer)
        elif count:
            rest.append(memoryview(buffer)[count:])
            count = 0
        else:
            rest.append(buffer)
    return rest


_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Without a descriptor nothing is written either, nothing is broken, and it may be tried again."""


def refused(path: str, error: OSError) -> StorageError:
    is_full = error.errno in _NO_ROOM
    return DiskFullError(path, error) if is_full else StorageError(path, error)
