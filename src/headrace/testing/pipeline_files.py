"""A simulated file system for pipelines: one dictionary, a look before and after every operation.

Owns: what HDFS promises and nothing more: a rename is one step and never replaces; bytes are
safe once hsynced; a file that is not closed can be listed and may be short. Must not know: batches.

`before` may raise, which is a death before the operation; `after` sees the new state. `power_cut`
takes all bytes that were not hsynced.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.pipeline.target_files import AlreadyThere, Entry, Missing

Look = Callable[[str, str], None]


@dataclass(slots=True)
class SimulatedFile:
    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    closed: bool = False
    facts: dict[str, bytes] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return self.closed and self.synced == len(self.data)


class SimulatedFiles:
    def __init__(self, *, has_sets: bool = True) -> None:
        self.files: dict[str, SimulatedFile] = {}
        self.folders: set[str] = {"/"}
        self.before: Look = lambda _operation, _path: None
        self.after: Look = lambda _operation, _path: None
        self.has_sets = has_sets
        self.lose_reply_of: int | None = None
        """The n-th rename from now is done, but its repetition is what answers."""

    # -- looking -------------------------------------------------------------------------------

    def list(self, folder: str) -> list[Entry]:
        self.before("list", folder)
        prefix = folder.rstrip("/") + "/"
        found: dict[str, Entry] = {}
        for path, file in self.files.items():
            if path.startswith(prefix):
                name, slash, _ = path[len(prefix) :].partition("/")
                size_bytes = 0 if slash else len(file.data)
                found[name] = Entry(prefix + name, size_bytes, bool(slash))
        for path in self.folders:
            if path.startswith(prefix) and path != prefix:
                name = path[len(prefix) :].partition("/")[0]
                found.setdefault(name, Entry(prefix + name, 0, True))
        return [found[name] for name in sorted(found)]

    def walk(self, folder: str) -> Iterator[Entry]:
        self.before("walk", folder)
        prefix = folder.rstrip("/") + "/"
        found = [
            Entry(path, len(file.data), False)
            for path, file in sorted(self.files.items())
            if path.startswith(prefix)
        ]
        yield from found

    def exists(self, path: str) -> bool:
        self.before("exists", path)
        return path in self.files or path in self.folders

    def read(self, path: str) -> bytes:
        self.before("read", path)
        return bytes(self._file(path).data)

    # -- changing ------------------------------------------------------------------------------

    def mkdirs(self, folder: str) -> None:
        self.before("mkdirs", folder)
        self._make(folder)
        self.after("mkdirs", folder)

    def create(self, path: str) -> "SimulatedWriter":
        self.before("create", path)
        if path in self.files:
            raise AlreadyThere(path)
        self._make(path.rsplit("/", 1)[0])
        self.files[path] = SimulatedFile()
        self.after("create", path)
        return SimulatedWriter(self, path)

    def rename(self, source: str, target: str) -> None:
        self.before("rename", target)
        self._rename(source, target)
        self.after("rename", target)
        if self.lose_reply_of is not None:
            self.lose_reply_of -= 1
            if self.lose_reply_of < 0:
                self.lose_reply_of = None
                raise Missing(f"rename source {source} is not found")

    def rename_set(self, renames: Sequence[tuple[str, str]], deletes: Sequence[str] = ()) -> bool:
        self.before("rename_set", f"{len(renames)}")
        if not self.has_sets:
            return False
        for path in deletes:
            self._file(path)
        for source, target in renames:
            self._check_rename(source, target, frozenset(deletes))
        for path in deletes:
            del self.files[path]
        for source, target in renames:
            self.files[target] = self.files.pop(source)
        self.after("rename_set", f"{len(renames)}")
        return True

    def delete(self, path: str) -> None:
        self.before("delete", path)
        prefix = path + "/"
        for each in [p for p in self.files if p == path or p.startswith(prefix)]:
            del self.files[each]
        self.folders -= {p for p in self.folders if p == path or p.startswith(prefix)}
        self.after("delete", path)

    def set_facts(self, path: str, name: str, value: bytes) -> None:
        self.before("set_facts", path)
        self._file(path).facts[name] = value
        self.after("set_facts", path)

    def power_cut(self) -> None:
        """Every machine loses what it had not synced; the namespace is always synced."""
        for file in self.files.values():
            del file.data[file.synced :]

    # -- inside --------------------------------------------------------------------------------

    def _file(self, path: str) -> SimulatedFile:
        if path not in self.files:
            raise Missing(path)
        return self.files[path]

    def _make(self, folder: str) -> None:
        while folder and folder not in self.folders:
            self.folders.add(folder)
            folder = folder.rsplit("/", 1)[0]

    def _rename(self, source: str, target: str) -> None:
        if source in self.folders:
            for path in [p for p in self.files if p.startswith(source + "/")]:
                self.files[target + path[len(source) :]] = self.files.pop(path)
            self.folders = {
                target + p[len(source) :] if (p + "/").startswith(source + "/") else p
                for p in self.folders
            }
            return
        self._check_rename(source, target, frozenset())
        self.files[target] = self.files.pop(source)

    def _check_rename(self, source: str, target: str, gone: frozenset[str]) -> None:
        if source not in self.files:
            raise Missing(f"rename source {source} is not found")
        if target.rsplit("/", 1)[0] not in self.folders:
            raise Missing(f"rename destination parent of {target} not found")
        if target in self.files and target not in gone:
            raise AlreadyThere(f"rename destination {target} already exists")


class SimulatedWriter:
    def __init__(self, files: SimulatedFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._file = files.files[path]

    def write(self, data: bytes) -> int:
        self._files.before("write", self._path)
        self._check()
        self._file.data += data
        self._files.after("write", self._path)
        return len(data)

    def hsync(self) -> None:
        self._files.before("hsync", self._path)
        self._check()
        self._file.synced = len(self._file.data)
        self._files.after("hsync", self._path)

    def close(self) -> None:
        self._files.before("close", self._path)
        self._check()
        self._file.closed = True
        self._files.after("close", self._path)

    def _check(self) -> None:
        """A file that was deleted has no more writer; one that was renamed keeps it."""
        if all(self._file is not each for each in self._files.files.values()):
            raise Missing(self._path)
