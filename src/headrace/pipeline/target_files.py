"""The file system as a pipeline sees it: the few operations that publication rests on.

Owns: the seam `TargetFiles` and its real form on any HDFS: hdfs-native for bytes, our RPC client
for extended attributes and for renames of a whole set. Must not know: batches, Parquet, Spark.
The simulated form is `testing.pipeline_files`.

What the protocol relies on: `rename` never replaces a file and is all or nothing; a file that was
hsynced and closed keeps its bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlsplit

from headrace.base.errors import HeadraceError
from headrace.client.hadoop_rpc import RpcConnectionError
from headrace.client.namenode import NameNodeClient, parse_url
from headrace.client.native import native_client
from headrace.client.refusals import no_room
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    import hdfs_native


class FilesError(HeadraceError):
    """The file system refused or did not answer; the message says what and where."""


class AlreadyThere(FilesError):
    """A rename found its target taken."""


class Missing(FilesError):
    """No such file or folder."""


class NoRoom(FilesError):
    """No DataNode takes a block: they are full, too few, or down."""


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    size_bytes: int
    is_folder: bool
    modified_ms: int = 0

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class Writer(Protocol):
    def write(self, data: bytes) -> int: ...

    def hsync(self) -> None: ...

    def close(self) -> None: ...


class TargetFiles(Protocol):
    def list(self, folder: str) -> list[Entry]:
        """Empty if there is no such folder."""
        ...

    def walk(self, folder: str) -> Iterator[Entry]:
        """All files below, at any depth."""
        ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def mkdirs(self, folder: str) -> None: ...

    def create(self, path: str) -> Writer:
        """A new file; its folders are made. Raises AlreadyThere."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Raises AlreadyThere, or Missing for the source or the target's folder."""
        ...

    def rename_set(self, renames: Sequence[tuple[str, str]], deletes: Sequence[str] = ()) -> bool:
        """All or none at once. False: this file system can't; nothing was done."""
        ...

    def delete(self, path: str) -> None:
        """With all below it; nothing if it is not there."""
        ...

    def set_facts(self, path: str, name: str, value: bytes) -> None:
        """An extended attribute `user.headrace.NAME`."""
        ...


T = TypeVar("T")

ATTRIBUTE_PREFIX = "user.headrace."


def split_url(url: str) -> tuple[str, str]:
    """`hdfs://host:port/folder` as (`hdfs://host:port`, `/folder`)."""
    host, port = parse_url(url)
    return f"hdfs://{host}:{port}", "/" + urlsplit(url).path.strip("/")


class HdfsFiles:
    """Any HDFS, ours or Apache's."""

    def __init__(self, url: str, *, block_bytes: int | None = None) -> None:
        self.url = url
        self._block_bytes = block_bytes
        self._client: hdfs_native.Client = _told(url, lambda: native_client(url))
        self._namenode = NameNodeClient(url)
        self._has_sets: bool | None = None

    def close(self) -> None:
        self._namenode.close()

    def list(self, folder: str) -> list[Entry]:
        try:
            return _told(folder, lambda: [_entry(e) for e in self._client.list_status(folder)])
        except Missing:
            return []

    def walk(self, folder: str) -> Iterator[Entry]:
        try:
            found = _told(
                folder, lambda: [_entry(e) for e in self._client.list_status(folder, True)]
            )
        except Missing:
            return
        yield from (each for each in found if not each.is_folder)

    def exists(self, path: str) -> bool:
        try:
            _told(path, lambda: self._client.get_file_info(path))
        except Missing:
            return False
        return True

    def read(self, path: str) -> bytes:
        return _told(path, lambda: self._client.read(path).read())

    def open(self, path: str) -> "hdfs_native.FileReader":
        return _told(path, lambda: self._client.read(path))

    def mkdirs(self, folder: str) -> None:
        _told(folder, lambda: self._client.mkdirs(folder, 0o755, True))

    def create(self, path: str) -> Writer:
        import hdfs_native

        options = hdfs_native.WriteOptions(
            block_size=self._block_bytes, overwrite=False, create_parent=True
        )
        return _HdfsWriter(path, _told(path, lambda: self._client.create(path, options)))

    def rename(self, source: str, target: str) -> None:
        _told(f"{source} to {target}", lambda: self._client.rename(source, target, False))

    def rename_set(self, renames: Sequence[tuple[str, str]], deletes: Sequence[str] = ()) -> bool:
        if self._has_sets is False:
            return False
        try:
            self._namenode.rename_set(renames, deletes)
        except RemoteError as error:
            if _is_unknown_protocol(error):
                self._has_sets = False
                return False
            raise _refused(f"{len(renames)} renames", error.class_name, str(error)) from None
        except RpcConnectionError as error:
            raise FilesError(f"file system {self.url}: {error}") from None
        self._has_sets = True
        return True

    def delete(self, path: str) -> None:
        try:
            _told(path, lambda: self._client.delete(path, True))
        except Missing:
            return

    def set_facts(self, path: str, name: str, value: bytes) -> None:
        try:
            self._namenode.set_xattr(path, ATTRIBUTE_PREFIX + name, value)
        except (RemoteError, RpcConnectionError) as error:
            raise FilesError(f"{path}: its attributes can't be set: {error}") from None

    def facts(self, path: str, name: str) -> bytes | None:
        try:
            return self._namenode.xattrs(path).get(ATTRIBUTE_PREFIX + name)
        except (RemoteError, RpcConnectionError) as error:
            raise FilesError(f"{path}: its attributes can't be read: {error}") from None


class _HdfsWriter:
    def __init__(self, path: str, inner: "hdfs_native.FileWriter") -> None:
        self._path = path
        self._inner = inner

    def write(self, data: bytes) -> int:
        return _told(self._path, lambda: self._inner.write(data))

    def hsync(self) -> None:
        _told(self._path, self._inner.hsync)

    def close(self) -> None:
        _told(self._path, self._inner.close)


def write_whole(files: TargetFiles, aside: str, path: str, data: bytes) -> bool:
    """A file that appears whole or not at all, and never instead of another: False then.

    A create alone would leave an empty file if the writer dies in between. The answer to a rename
    may be lost and its repetition be refused: the file's bytes say whose it is.
    """
    writer = files.create(aside)
    writer.write(data)
    writer.hsync()
    writer.close()
    try:
        files.rename(aside, path)
    except (AlreadyThere, Missing):
        if not files.exists(path):
            raise
        files.delete(aside)
        return files.read(path) == data
    return True


def _entry(status: "hdfs_native.FileStatus") -> Entry:
    return Entry(status.path, status.length, status.isdir, status.modification_time)


def _is_unknown_protocol(error: RemoteError) -> bool:
    return error.class_name.rsplit(".", 1)[-1] in (
        "RpcNoSuchProtocolException",
        "RpcNoSuchMethodException",
    )


def _refused(what: str, class_name: str, text: str) -> FilesError:
    kind = class_name.rsplit(".", 1)[-1]
    if kind == "FileAlreadyExistsException":
        return AlreadyThere(f"{what}: {text}")
    if kind == "FileNotFoundException":
        return Missing(f"{what}: {text}")
    return _failed(what, text)


def _failed(what: str, text: str) -> FilesError:
    advice = no_room(text)
    return FilesError(f"{what}: {text}") if advice is None else NoRoom(f"{what}: {advice}")


def _told(what: str, work: Callable[[], T]) -> T:
    """hdfs-native's failures as ours."""
    try:
        return work()
    except FileNotFoundError as error:
        raise Missing(f"{what}: {error}") from None
    except FileExistsError as error:
        raise AlreadyThere(f"{what}: {error}") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise _failed(what, str(error)) from None
