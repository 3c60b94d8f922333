"""`headrace.fs`: the file system for pandas, pyarrow, duckdb and whoever takes an fsspec one.

    from headrace.fs import FileSystem

    dfs = FileSystem("hdfs://127.0.0.1:8020")
    pandas.read_parquet("/events/part-0.parquet", filesystem=dfs)
    pyarrow.dataset.dataset("/events", filesystem=dfs, format="parquet")

Owns: the way from a URL to hdfs-native's fsspec file system, and what that one lacks: exceptions
as fsspec's users know them (FileNotFoundError, PermissionError, …), a connection that fails in
seconds, files that are read by lines, copies that never show half of a file, transactions, HDFS's
checksum, extended attributes. The NameNode is not asked before the first call. No JVM anywhere.
Works on Apache HDFS as well. fsspec's own entry `hdfs` belongs to hdfs-native: give this one as
`filesystem=`.
"""

import errno
import io
import os
import secrets
import shutil
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

from hdfs_native import FileReader, FileWriter, WriteOptions
from hdfs_native.fsspec import BaseFileSystem, HdfsFileSystem

from headrace.client.file_checksum import file_checksum
from headrace.client.namenode import NameNodeClient, parse_url
from headrace.client.native import SETTINGS, telling
from headrace.client.refusals import (
    EXISTS,
    IS_A_DIRECTORY,
    NO_SUCH_FILE,
    NOT_A_DIRECTORY,
    told_as_oserror,
)

__all__ = ["FileSystem"]

_COPY_BYTES = 8 * 1024 * 1024
_BUFFER_BYTES = 256 * 1024


class FileSystem(HdfsFileSystem):
    """An fsspec file system on one HDFS."""

    def __init__(self, url: str, port: int | None = None, **storage_options: Any) -> None:
        if port is None:
            url, port = parse_url(url)
        super().__init__(url, port, **{**SETTINGS, **storage_options})
        self.client = telling(self.client, self.url)

    @property
    def url(self) -> str:
        return f"hdfs://{self.host}:{self.port}"

    # -- looking -----------------------------------------------------------------------------

    def exists(self, path: str, **kwargs: Any) -> bool:
        try:
            self.info(path, **kwargs)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _convert_file_status(self, file_status: Any) -> dict[str, Any]:
        info: dict[str, Any] = super()._convert_file_status(file_status)
        return {**info, "mtime": file_status.modification_time / 1000}

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def created(self, path: str) -> datetime:
        """HDFS keeps no such time: when it was last modified."""
        return self.modified(path)

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if maxdepth is None:
            return super().du(path, total, maxdepth, withdirs, **kwargs)
        return super(BaseFileSystem, self).du(path, total, maxdepth, withdirs, **kwargs)

    # -- names -------------------------------------------------------------------------------

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, EXISTS, self._strip_protocol(path))
        super().mkdir(path, create_parents, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok:
            self.mkdir(path)
        else:
            super().mkdir(path)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Into `path2` if that is a directory. Over a file only with `overwrite=True`."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(target):
            target = f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}"
        self.client.rename(source, target, bool(kwargs.get("overwrite", False)))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """One path, several, or patterns."""
        if maxdepth is not None:
            super(BaseFileSystem, self).rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for name in self.expand_path(path):
            self._delete(name, recursive=recursive)

    def rm_file(self, path: str) -> None:
        self._delete(self._strip_protocol(path), recursive=False)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if self.info(path)["type"] != "directory":
            raise NotADirectoryError(errno.ENOTDIR, NOT_A_DIRECTORY, path)
        self._delete(path, recursive=False)

    def _delete(self, path: str, *, recursive: bool) -> None:
        if self.client.delete(path, recursive):
            return
        if self.exists(path):
            raise PermissionError(errno.EPERM, "can't be deleted", path)
        raise FileNotFoundError(errno.ENOENT, NO_SUCH_FILE, path)

    # -- bytes -------------------------------------------------------------------------------

    def _open(
        self,
        path: str,
        mode: str = "rb",
        overwrite: bool = True,
        replication: int | None = None,
        block_size: int | None = None,
        autocommit: bool = True,
        **_kwargs: Any,
    ) -> Any:
        """Without `autocommit` (fsspec's transactions) a new file has its name after `commit`."""
        path = self._strip_protocol(path)
        if mode == "rb":
            return _BufferedFile(_File(self.client.inner.read(path)), block_size or _BUFFER_BYTES)
        if mode in ("wb", "xb"):
            options = WriteOptions(
                overwrite=overwrite and mode == "wb", replication=replication, block_size=block_size
            )
            if not autocommit:
                return self._aside(path, options)
            return _Writer(self.client.inner.create(path, options))
        if mode == "ab":
            if not autocommit:
                raise ValueError("an append can't be taken back: it has no place in a transaction")
            return _Writer(self.client.inner.append(path))
        raise ValueError(f"mode {mode!r} is not supported: files are read, written or appended to")

    def _aside(self, path: str, options: WriteOptions) -> "_Uncommitted":
        """What `path` would be refused for is told now, not at the commit."""
        found = self.info(path) if self.exists(path) else None
        if found is not None and found["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, IS_A_DIRECTORY, path)
        if found is not None and not options.overwrite:
            raise FileExistsError(errno.EEXIST, EXISTS, path)
        return _Uncommitted(self.client, _aside_of(path), path, options)

    def cp_file(self, path1: str, path2: str, **_kwargs: Any) -> None:
        """Written aside and renamed over the target: readers see the old or the new file."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.info(source)["type"] == "directory":
            self.makedirs(target, exist_ok=True)
            return
        aside = _aside_of(target)
        try:
            with (
                self.open(source, "rb") as reader,
                self.open(aside, "wb", autocommit=True) as writer,
            ):
                shutil.copyfileobj(reader, writer, _COPY_BYTES)
            self.client.rename(aside, target, True)
        except BaseException:
            with suppress(Exception):
                self.client.delete(aside, False)
            raise

    # -- what HDFS has besides ---------------------------------------------------------------

    def checksum(self, path: str) -> str:
        """HDFS's checksum of a file, computed by its DataNodes."""
        path = self._strip_protocol(path)
        with told_as_oserror(path), NameNodeClient(self.url) as namenode:
            return str(file_checksum(namenode, path))

    def getxattrs(self, path: str) -> dict[str, bytes]:
        path = self._strip_protocol(path)
        with told_as_oserror(path), NameNodeClient(self.url) as namenode:
            return namenode.xattrs(path)

    def setxattrs(self, path: str, **values: bytes) -> None:
        """`setxattrs(path, origin=b"x")` sets `user.origin`."""
        path = self._strip_protocol(path)
        with told_as_oserror(path), NameNodeClient(self.url) as namenode:
            for name, value in values.items():
                namenode.set_xattr(path, f"user.{name}", value)


class _File(FileReader):
    """hdfs-native's reader, which panics if it is sought behind the end, and knows no lines."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self.size
        elif whence != os.SEEK_SET:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if offset < 0:
            raise OSError(errno.EINVAL, f"there is nothing before the start: {offset}")
        self._position = offset
        self.inner.seek(min(offset, self.size))
        return offset

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        data = bytes(self.inner.read(size))
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()


class _Writer(FileWriter):
    """hdfs-native's, but that what failed before the close is what is raised."""

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        with suppress(OSError) if kind is not None else nullcontext():
            self.close()


class _Uncommitted(_Writer):
    """One that has its name after `commit`, and is gone after `discard`."""

    def __init__(self, client: Any, aside: str, path: str, options: WriteOptions) -> None:
        super().__init__(client.inner.create(aside, options))
        self._client = client
        self._path = path
        self._aside = aside
        self._overwrite = bool(options.overwrite)

    def commit(self) -> None:
        self.close()
        try:
            self._client.rename(self._aside, self._path, self._overwrite)
        except BaseException:
            self._delete()
            raise

    def discard(self) -> None:
        with suppress(OSError):
            self.close()
        self._delete()

    def _delete(self) -> None:
        with suppress(OSError):
            self._client.delete(self._aside, False)


def _aside_of(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{secrets.token_hex(6)}.copying"


class _BufferedFile(io.BufferedReader):
    """Every read of hdfs-native is a request to a DataNode: lines want a buffer."""

    def __init__(self, raw: _File, buffer_bytes: int) -> None:
        super().__init__(raw, buffer_bytes)
        self.size = raw.size
        self.read_range = raw.read_range
        self.read_range_stream = raw.read_range_stream

    def __len__(self) -> int:
        return int(self.size)
