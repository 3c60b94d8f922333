"""`headrace.fs`: the file system for pandas, pyarrow, duckdb and whoever takes an fsspec one.

    from headrace.fs import FileSystem

    dfs = FileSystem("hdfs://127.0.0.1:8020")
    pandas.read_parquet("/events/part-0.parquet", filesystem=dfs)
    pyarrow.dataset.dataset("/events", filesystem=dfs, format="parquet")

Owns: nothing but the way from a URL to hdfs-native's fsspec file system, and what that one lacks:
copies that never show half of a file, HDFS's checksum, extended attributes. No JVM anywhere.
Works on Apache HDFS as well. fsspec's own entry `hdfs` belongs to hdfs-native: give this one as
`filesystem=`.
"""

import secrets
import shutil
from contextlib import suppress
from typing import Any

from hdfs_native.fsspec import HdfsFileSystem

from headrace.client.file_checksum import file_checksum
from headrace.client.namenode import NameNodeClient, parse_url
from headrace.client.native import SETTINGS

__all__ = ["FileSystem"]


class FileSystem(HdfsFileSystem):
    """An fsspec file system on one HDFS."""

    def __init__(self, url: str, port: int | None = None, **storage_options: Any) -> None:
        if port is None:
            url, port = parse_url(url)
        super().__init__(url, port, **{**SETTINGS, **storage_options})

    @property
    def url(self) -> str:
        return f"hdfs://{self.host}:{self.port}"

    def cp_file(self, path1: str, path2: str, **_kwargs: Any) -> None:
        """Written aside and renamed over the target: readers see the old or the new file."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        folder, _, name = target.rpartition("/")
        aside = f"{folder}/.{name}.{secrets.token_hex(6)}.copying"
        try:
            with self.open(source, "rb") as reader, self.open(aside, "wb") as writer:
                shutil.copyfileobj(reader, writer, 8 * 1024 * 1024)
            self.client.rename(aside, target, True)
        except BaseException:
            with suppress(Exception):
                self.client.delete(aside, False)
            raise

    def checksum(self, path: str) -> str:
        """HDFS's checksum of a file, computed by its DataNodes."""
        with NameNodeClient(self.url) as namenode:
            return str(file_checksum(namenode, self._strip_protocol(path)))

    def getxattrs(self, path: str) -> dict[str, bytes]:
        with NameNodeClient(self.url) as namenode:
            return namenode.xattrs(self._strip_protocol(path))

    def setxattrs(self, path: str, **values: bytes) -> None:
        """`setxattrs(path, origin=b"x")` sets `user.origin`."""
        with NameNodeClient(self.url) as namenode:
            for name, value in values.items():
                namenode.set_xattr(self._strip_protocol(path), f"user.{name}", value)
