"""kill -9 of the NameNode when hdfs-native has just closed a new, empty file, or made one to write.

Such a close is answered ahead of the disk (`namespace.ops.complete`): the log may end with the
file's creation, and the next start takes it for closed. The NameNode's log tells whether it did.
"""

from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from headrace.client.namenode import NameNodeClient
from headrace.testing.filesystem import LocalFileSystem

KILLS = 10
KILLS_MAX = 60
"""A disk that takes its time makes every close wait for it: then a kill proves nothing."""
TAKEN = "file_taken_for_closed"


@pytest.fixture
def dfs(tmp_path: Path) -> Iterator[LocalFileSystem]:
    with LocalFileSystem(tmp_path, datanodes=1) as running:
        yield running


def restart(dfs: LocalFileSystem) -> None:
    dfs.namenode.kill()
    dfs.namenode.start()
    dfs.await_datanodes(1)


def test_what_was_closed_stays_closed(dfs: LocalFileSystem) -> None:
    kills = 0
    while kills < KILLS or (kills < KILLS_MAX and TAKEN not in dfs.namenode.log_text()):
        path = f"/f{kills}"
        with hdfs_native.Client(dfs.url).create(path):
            pass
        dfs.namenode.kill()
        kills += 1
        dfs.namenode.start()
        with NameNodeClient(dfs.url) as namenode:
            assert namenode.is_closed(path)
    assert TAKEN in dfs.namenode.log_text(), "no close was ahead of the disk when the kill came"
    client = hdfs_native.Client(dfs.url)
    assert [status.length for status in client.list_status("/")] == [0] * kills


def test_a_writer_that_had_not_closed_goes_on(dfs: LocalFileSystem) -> None:
    options = hdfs_native.WriteOptions(replication=1)
    written = b"goes on" * 1000
    for number in range(KILLS_MAX):
        writer = hdfs_native.Client(dfs.url).create(f"/f{number}", options)
        restart(dfs)
        writer.write(written)
        writer.close()
        with hdfs_native.Client(dfs.url).read(f"/f{number}") as reader:
            assert bytes(reader.read()) == written
        if TAKEN in dfs.namenode.log_text():
            return
    raise AssertionError("no kill came before the log said that the file is open")


def test_an_orderly_stop_takes_nothing_for_granted(dfs: LocalFileSystem) -> None:
    client = hdfs_native.Client(dfs.url)
    with client.create("/closed"):
        pass
    writer = client.create("/open")
    dfs.namenode.stop()
    dfs.namenode.start()
    assert TAKEN not in dfs.namenode.log_text()
    with NameNodeClient(dfs.url) as namenode:
        assert (namenode.is_closed("/closed"), namenode.is_closed("/open")) == (True, False)
    writer.close()
    with NameNodeClient(dfs.url) as namenode:
        assert namenode.is_closed("/open")
