"""The file systems and tools that the HDFS interop tests meet.

`dfs` is the file system under test: ours always; the real HDFS as control among the long tests
or with HEADRACE_CONTROL=1, and it alone with HEADRACE_CONTROL=only.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial

import hdfs_native
import pytest
from tests.conftest import not_run
from tests.interop.conftest import CONTROL, control
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.hdfs.real_hdfs import RealHdfs
from tests.interop.java_tools import JavaMissingError, ToolResult

from headrace.runtime.page_cache import lockable_bytes
from headrace.testing.filesystem import LocalFileSystem

FileSystem = LocalFileSystem | RealHdfs

TARGETS = [
    *([] if CONTROL == "only" else ["headrace"]),
    pytest.param("hdfs", marks=control),
]

SETTINGS = {"dfs.blocksize": "1048576"}
"""Small blocks: files of a few megabytes have several."""
PINNED_BYTES = min(8 << 20, lockable_bytes() or 8 << 20)
"""Memory for cached blocks; Apache's needs a native library for it."""


@pytest.fixture(scope="session", params=TARGETS)
def dfs(request: pytest.FixtureRequest) -> Iterator[FileSystem]:
    """One file system for all tests; each test uses a folder of its own."""
    if request.param == "headrace":
        own = {**SETTINGS, "dfs.datanode.max.locked.memory": PINNED_BYTES}
        target: FileSystem = LocalFileSystem(datanodes=3, settings=own)
    else:
        try:
            target = RealHdfs(datanodes=3, settings=SETTINGS)
        except JavaMissingError as missing:
            not_run(str(missing))
    with target as running:
        yield running


@pytest.fixture
def client(dfs: FileSystem) -> hdfs_native.Client:
    return hdfs_native.Client(dfs.url)


@pytest.fixture
def folder(client: hdfs_native.Client) -> str:
    """A folder that no other test uses."""
    path = f"/test-{uuid.uuid4().hex[:8]}"
    client.mkdirs(path, 0o755, True)
    return path


@pytest.fixture(scope="session")
def hadoop() -> Iterator[HadoopTools]:
    try:
        tools = HadoopTools()
    except JavaMissingError as missing:
        not_run(str(missing))
    yield tools
    tools.close()


Shell = Callable[..., ToolResult]
Fs = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def hdfs(hadoop: HadoopTools, dfs: FileSystem) -> Shell:
    """`hdfs("dfs", "-ls", "/")`, as the script of that name."""
    settings = {
        "fs.defaultFS": dfs.url,
        "dfs.namenode.http-address": dfs.http_address,
        "dfs.blocksize": SETTINGS["dfs.blocksize"],
    }
    return partial(hadoop.run, settings=settings)


@pytest.fixture
def fs(dfs: FileSystem) -> Fs:
    """`headrace fs …`"""

    def run(
        *words: str, stdin: bytes = b"", status: int = 0
    ) -> "subprocess.CompletedProcess[bytes]":
        done = subprocess.run(
            [sys.executable, "-P", "-m", "headrace", "fs", *words],
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, "HEADRACE_FS": dfs.url},
        )
        assert done.returncode == status, done.stderr.decode()
        return done

    return run
