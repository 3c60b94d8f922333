"""A disk in memory that forgets what was never synced, and fails when asked to.

Owns: a tree of directories and files with, for each, the operations since its last sync.
A `crash` keeps a random prefix of those, the last one torn at any byte, perhaps followed by
zeros, or, where it overwrites, any of its sectors; a `kill` keeps them all (the page cache outlives
a process). Zeros ahead of a file's end are an operation too: a crash may leave all of them, some or
none. Faults are planned with `plan`.

Invariants: what was synced is there after a crash, byte for byte; a name or a rename only
after `sync_directory`; a handle from before a crash refuses all work.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.base.errors import DiskFullError, StorageError
from headrace.base.limits import DIRECT_BUFFER_BYTES, PAGE_BYTES
from headrace.base.storage import Buffer, File

Write = tuple[int, bytes]
"""Position and bytes; a truncation has its size and no bytes, marked by `_Cut`."""
_SECTOR_BYTES = 512
_DIRECT_BUFFER_BYTES = DIRECT_BUFFER_BYTES // 2
"""Half of a real one: short stories come to its end as well."""


class _Cut(bytes):
    """Marks a truncation among the operations of a file."""


@dataclass(eq=False, slots=True)
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)
    settled_count: int = 0
    """Operations that have left `pending`, since the beginning."""
    modified_ms: int = 0

    def write(self, position: int, content: bytes) -> None:
        _apply(self.data, position, content)
        self.pending.append((position, content))

    @property
    def written_count(self) -> int:
        return self.settled_count + len(self.pending)

    def sync(self, count: int) -> None:
        """Make the oldest `count` pending operations durable."""
        for position, content in self.pending[:count]:
            _apply(self.durable, position, content)
        self.forget(count)

    def forget(self, count: int) -> None:
        self.settled_count += len(self.pending[:count])
        del self.pending[:count]

    def crash(self, rng: random.Random, tear: bool) -> None:
        kept = rng.randint(0, len(self.pending))
        torn = self.pending[kept] if tear and kept < len(self.pending) else None
        self.sync(kept)
        if torn is not None and not isinstance(torn[1], _Cut):
            position, content = torn
            if position + len(content) <= len(self.durable) and rng.random() < 0.5:
                self._scatter(position, content, rng)
            else:
                size = rng.randint(0, len(content))
                _apply(self.durable, position, content[:size])
                if rng.random() < 0.3:
                    _apply(self.durable, position + size, bytes(len(content) - size))
        self.pending.clear()
        self.data = bytearray(self.durable)

    def _scatter(self, position: int, content: bytes, rng: random.Random) -> None:
        """In place nothing tells a disk which sector to write first."""
        first = position // _SECTOR_BYTES * _SECTOR_BYTES
        for sector in range(first, position + len(content), _SECTOR_BYTES):
            start = max(sector, position)
            if rng.random() < 0.5:
                piece = content[start - position : sector + _SECTOR_BYTES - position]
                _apply(self.durable, start, piece)


def _apply(data: bytearray, position: int, content: bytes) -> None:
    if isinstance(content, _Cut):
        del data[position:]
        data.extend(bytes(position - len(data)))
        return
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(content)] = content


@dataclass(eq=False, slots=True)
class _Directory:
    entries: "dict[str, _Inode | _Directory]" = field(default_factory=dict)
    durable: "dict[str, _Inode | _Directory]" = field(default_factory=dict)
    pending: "list[dict[str, _Inode | _Directory | None]]" = field(default_factory=list)
    """Each operation: names that change together, None for one that goes."""

    def change(self, names: "dict[str, _Inode | _Directory | None]") -> None:
        _rename(self.entries, names)
        self.pending.append(names)

    def sync(self) -> None:
        for names in self.pending:
            _rename(self.durable, names)
        self.pending.clear()

    def crash(self, rng: random.Random, tear: bool) -> None:
        del self.pending[rng.randint(0, len(self.pending)) :]
        self.sync()
        self.entries = dict(self.durable)
        for entry in self.entries.values():
            entry.crash(rng, tear)


def _rename(
    entries: "dict[str, _Inode | _Directory]", names: "dict[str, _Inode | _Directory | None]"
) -> None:
    for name, entry in names.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry


@dataclass(slots=True)
class Fault:
    """The `countdown`-th operation of `kind` on a path with `path_part` fails, once or for ever."""

    kind: str
    """write, read, sync, open, rename, remove, sync_directory, fill (zeros ahead of the end)"""
    code: int = errno.EIO
    countdown: int = 1
    path_part: str = ""
    is_sticky: bool = False
    fired_count: int = 0

    def strikes(self, kind: str, path: str) -> bool:
        if kind != self.kind or self.path_part not in path or self.countdown <= 0:
            return False
        self.countdown -= 1
        if self.countdown > 0:
            return False
        self.fired_count += 1
        if self.is_sticky:
            self.countdown = 1
        return True


class SimulatedFile:
    def __init__(self, disk: "SimulatedDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._life = disk.life
        self._closed = False
        self._fill_step_bytes = 0
        self._end = 0
        """Where zeros follow: the end without them."""
        self._fill_from = 0

    @property
    def path(self) -> str:
        return self._path

    @property
    def closed(self) -> bool:
        return self._closed

    def size(self) -> int:
        return self._end if self._fill_step_bytes else len(self._inode.data)

    def write(self, buffers: Sequence[Buffer]) -> None:
        self._use("write")
        content = b"".join(buffers)
        end = self.size() + len(content)
        self._disk.take_room(self._path, max(0, end - len(self._inode.data)))
        self._put(self.size(), content)
        self._end = end
        if self._fill_step_bytes and end > self._fill_from:
            self._fill()

    def write_out(self, position: int) -> None:
        assert 0 <= position <= self.size(), f"{position} is behind the end of {self._path}"
        self._disk.written_out_count += 1

    def write_at(self, position: int, buffer: Buffer) -> None:
        self._use("write")
        self._put(position, bytes(buffer))
        self._end = max(self._end, position + len(buffer))

    def read(self, position: int, length: int) -> bytes:
        self._use("read")
        return bytes(self._inode.data[position : min(position + length, self.size())])

    def truncate(self, size: int) -> None:
        self._use("write")
        self._cut(size)

    def _cut(self, size: int) -> None:
        if self._fill_step_bytes:
            self._disk.give_room(len(self._inode.data) - self._end)
        self._put(size, _Cut())
        self._end = self._fill_from = size

    def fill_ahead(self, step_bytes: int, size: int) -> None:
        behind = bytes(self._inode.data[size:])
        assert not behind.strip(b"\x00"), f"{self._path} has more than zeros behind {size}"
        self._fill_step_bytes, self._end = step_bytes, size
        self._fill_from = len(self._inode.data)
        if not step_bytes and behind:
            self._use("write")
            self._disk.give_room(len(behind))
            self._cut(size)

    def _fill(self) -> None:
        step_bytes = self._fill_step_bytes
        self._fill_from = self._end + step_bytes
        try:
            self._disk.strike("fill", self._path)
            self._disk.take_room(self._path, step_bytes)
        except StorageError:
            return
        self._put(self._end, bytes(step_bytes))

    def preallocate(self, size: int) -> None:
        self._use("write")
        self._disk.take_room(self._path, max(0, size - self.size()), keep=False)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor")

    def close(self) -> None:
        if self._fill_step_bytes and self._life == self._disk.life and not self._closed:
            self._cut(self._end)
        self._closed = True

    @property
    def inode(self) -> _Inode:
        return self._inode

    def _put(self, position: int, content: bytes) -> None:
        self._inode.write(position, content)
        self._inode.modified_ms = self._disk.now_ms

    def _use(self, kind: str) -> None:
        assert not self._closed, f"{self._path} is closed"
        assert self._life == self._disk.life, f"{self._path} was opened before a crash"
        self._disk.strike(kind, self._path)


class SimulatedDirectWriter:
    """`base.storage.DirectWriter`; its writes complete with the syncs."""

    def __init__(self, disk: "SimulatedDisk", file: SimulatedFile) -> None:
        self.buffer = memoryview(bytearray(_DIRECT_BUFFER_BYTES))
        self._disk = disk
        self._file = file
        self._under_way: Callable[[], None] | None = None

    def append(
        self, start: int, length: int, on_done: Callable[[StorageError | None], None]
    ) -> None:
        assert self._under_way is None, "one write at a time"
        assert not (start | length | self._file.size()) % PAGE_BYTES, "whole pages"

        def complete() -> None:
            if self._under_way is not complete:
                return
            self._under_way = None
            outcome: StorageError | None = None
            try:
                self._file.write([self.buffer[start : start + length]])
            except StorageError as error:
                outcome = error
            on_done(outcome)

        self._under_way = complete
        self._disk.complete_later(complete)

    def wait(self) -> None:
        if self._under_way is not None:
            self._under_way()

    def close(self) -> None:
        assert self._under_way is None, "closed while it writes"


class SimulatedDisk:
    """`base.storage.Storage` in memory."""

    def __init__(self, *, capacity_bytes: int | None = None, defer_syncs: bool = False) -> None:
        self.life = 0
        self.now_ms = 0
        self.capacity_bytes = capacity_bytes
        self.defer_syncs = defer_syncs
        self.sync_count = 0
        self.directory_sync_count = 0
        self.write_count = 0
        self.written_out_count = 0
        self._faults: list[Fault] = []
        self._root = _Directory()
        self._locks: dict[str, int] = {}
        self._deferred: list[Callable[[], None]] = []
        self._replaced: dict[str, int] = {}
        self._boot_count = 1

    # -- what a test does ----------------------------------------------------------------------

    def plan(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        self._faults.clear()

    def crash(self, rng: random.Random, *, tear: bool = True) -> None:
        """Power loss. Waiting syncs never complete."""
        self.kill()
        self._boot_count += 1
        self._root.crash(rng, tear)

    def kill(self) -> None:
        """The process ends, the system lives on."""
        self.life += 1
        self._deferred.clear()

    def complete_syncs(self, count: int | None = None) -> int:
        """Complete the oldest deferred syncs; how many did."""
        due = self._deferred[:count]
        del self._deferred[: len(due)]
        for complete in due:
            complete()
        return len(due)

    @property
    def deferred_count(self) -> int:
        """Syncs that are asked for and not done."""
        return len(self._deferred)

    def tree(self) -> dict[str, bytes]:
        """All files by path."""
        found: dict[str, bytes] = {}

        def visit(path: str, directory: _Directory) -> None:
            for name, entry in directory.entries.items():
                if isinstance(entry, _Directory):
                    visit(f"{path}/{name}", entry)
                else:
                    found[f"{path}/{name}"] = bytes(entry.data)

        visit("", self._root)
        return found

    def overwrite(self, path: str, content: bytes) -> None:
        """Damage a file as bit rot would, durably."""
        inode = self._inode(path)
        inode.pending.clear()
        inode.data = bytearray(content)
        inode.durable = bytearray(content)

    def strike(self, kind: str, path: str) -> None:
        self.write_count += kind == "write"
        for fault in self._faults:
            if fault.strikes(kind, path):
                refused = OSError(fault.code, os.strerror(fault.code))
                is_full = fault.code == errno.ENOSPC and kind not in ("sync", "sync_directory")
                raise DiskFullError(path, refused) if is_full else StorageError(path, refused)

    def take_room(self, path: str, size: int, *, keep: bool = True) -> None:
        if self.capacity_bytes is None:
            return
        if size > self.capacity_bytes:
            raise DiskFullError(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        if keep:
            self.capacity_bytes -= size

    def give_room(self, size: int) -> None:
        if self.capacity_bytes is not None:
            self.capacity_bytes += size

    # -- Storage -------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimulatedFile:
        self.strike("open", path)
        directory, name = self._parent(path)
        entry = directory.entries.get(name)
        if entry is None:
            if not create or read_only:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            entry = _Inode(modified_ms=self.now_ms)
            directory.change({name: entry})
        if not isinstance(entry, _Inode):
            raise StorageError(path, OSError(errno.EISDIR, "is a directory"))
        return SimulatedFile(self, path, entry)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def list(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def make_directory(self, path: str) -> None:
        directory = self._root
        for name in _parts(path):
            entry = directory.entries.get(name)
            if entry is None:
                entry = _Directory()
                directory.change({name: entry})
            if not isinstance(entry, _Directory):
                raise StorageError(path, OSError(errno.ENOTDIR, "not a directory"))
            directory = entry

    def remove(self, path: str) -> None:
        self.strike("remove", path)
        directory, name = self._parent(path)
        self._inode(path)
        directory.change({name: None})

    def remove_directory(self, path: str) -> None:
        self.strike("remove", path)
        self._directory(path)
        directory, name = self._parent(path)
        directory.change({name: None})

    def rename(self, source: str, target: str) -> None:
        self.strike("rename", source)
        entry = self._find(source)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        from_directory, from_name = self._parent(source)
        to_directory, to_name = self._parent(target)
        assert from_directory is to_directory, "renames across directories are not simulated"
        from_directory.change({from_name: None, to_name: entry})

    def read_file(self, path: str) -> bytes:
        self.strike("read", path)
        return bytes(self._inode(path).data)

    def replace_file(self, path: str, content: bytes, *, sync: bool = True) -> None:
        self._replaced[path] = self._replaced.get(path, 0) + 1
        self._replace(path, content, sync=sync)

    def _replace(self, path: str, content: bytes, *, sync: bool) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write([content])
        if sync:
            self.sync_now(file)
        self.rename(temporary, path)
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

        def complete() -> None:
            if self._replaced.get(path, 0) != expected:
                on_done(None)  # something newer stands there by now
                return
            try:
                self._replace(path, content, sync=sync)
            except StorageError as error:
                on_done(error)
            else:
                on_done(None)

        if sync:
            self.complete_later(complete)
        else:
            complete()

    def sync(
        self,
        file: File,
        on_done: Callable[[StorageError | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        assert isinstance(file, SimulatedFile)
        written_count = file.inode.written_count
        self.complete_later(lambda: on_done(self._sync(file, written_count, directories)))

    def complete_later(self, complete: Callable[[], None]) -> None:
        if self.defer_syncs:
            self._deferred.append(complete)
        else:
            complete()

    def direct_writer(self, file: File) -> SimulatedDirectWriter:
        assert isinstance(file, SimulatedFile)
        return SimulatedDirectWriter(self, file)

    def sync_directories(
        self, directories: Sequence[str], on_done: Callable[[StorageError | None], None]
    ) -> None:
        self.complete_later(lambda: on_done(self._sync_names(directories)))

    def sync_now(self, file: File) -> None:
        assert isinstance(file, SimulatedFile)
        error = self._sync(file, file.inode.written_count)
        if error is not None:
            raise error

    def sync_together(self, files: Sequence[File], directories: Sequence[str]) -> None:
        for file in files:
            self.sync_now(file)
        for path in directories:
            self.sync_directory(path)

    def sync_directory(self, path: str) -> None:
        self.strike("sync_directory", path)
        self.directory_sync_count += 1
        self._directory(path).sync()

    def lock(self, path: str) -> str | None:
        """As `runtime.disk`: one holder in each life."""
        self.open(path, create=True)
        if self._locks.get(path) == self.life:
            return "another process"
        self._locks[path] = self.life
        return None

    def boot_id(self) -> str:
        return f"boot-{self._boot_count}"

    def free_bytes(self, path: str) -> int:
        self._directory(path)
        return 1 << 40 if self.capacity_bytes is None else self.capacity_bytes

    def total_bytes(self, path: str) -> int:
        self._directory(path)
        return 1 << 40

    # -- the tree ------------------------------------------------------------------------------

    def _sync(
        self, file: SimulatedFile, written_count: int, directories: Sequence[str] = ()
    ) -> StorageError | None:
        self.sync_count += 1
        count = max(0, written_count - file.inode.settled_count)
        try:
            self.strike("sync", file.path)
        except StorageError as error:
            # The pages are marked clean and lost, as Linux does: no later sync brings them back.
            file.inode.forget(count)
            return error
        file.inode.sync(count)
        return self._sync_names(directories)

    def _sync_names(self, directories: Sequence[str]) -> StorageError | None:
        for path in directories:
            try:
                self.sync_directory(path)
            except StorageError as error:
                return error
            except FileNotFoundError as error:
                return StorageError(path, error)
        return None

    def _find(self, path: str) -> _Inode | _Directory | None:
        entry: _Inode | _Directory | None = self._root
        for name in _parts(path):
            if not isinstance(entry, _Directory):
                return None
            entry = entry.entries.get(name)
        return entry

    def _directory(self, path: str) -> _Directory:
        entry = self._find(path)
        if not isinstance(entry, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return entry

    def _inode(self, path: str) -> _Inode:
        entry = self._find(path)
        if not isinstance(entry, _Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return entry

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name]
