"""`hdfs fsck -move` and `-delete`, and our own, on a file of which a block is lost."""

import os
import subprocess
import sys
import time
from pathlib import Path

import hdfs_native
import pytest
from tests.interop.hdfs.conftest import FileSystem, Shell

from headrace.client.namenode import NameNodeClient
from headrace.testing.filesystem import LocalFileSystem

pytestmark = pytest.mark.java

MIB = 1 << 20
WAIT_S = 40.0
IMPATIENT = ("-D", "dfs.client.retry.window.base=10")


@pytest.fixture
def local(dfs: FileSystem) -> LocalFileSystem:
    if not isinstance(dfs, LocalFileSystem):
        pytest.skip("the replicas of Apache's DataNodes are not ours to take away")
    return dfs


def damaged(local: LocalFileSystem, hdfs: Shell, path: str, tmp_path: Path) -> bytes:
    """A file of three blocks, of which the middle one is gone and known to be; its bytes."""
    content = os.urandom(3 * MIB - 100)
    (tmp_path / "content").write_bytes(content)
    put = ("-D", "dfs.replication=1", "-put", str(tmp_path / "content"), path)
    hdfs("dfs", *put).check()
    with NameNodeClient(local.url) as namenode:
        middle = namenode.block_locations(path).blocks[1].b.blockId
    for node in local.datanodes:
        for replica in node.data.glob(f"data/current/BP-*/current/finalized/*/*/blk_{middle}*"):
            replica.unlink()
    deadline = time.monotonic() + WAIT_S
    while "is CORRUPT" not in hdfs("fsck", path).stdout:
        # A reader that finds nothing is what tells a DataNode that its replica is gone.
        hdfs("dfs", *IMPATIENT, "-cat", path)
        assert time.monotonic() < deadline, "the NameNode does not hear of the lost block"
    return content


def test_hadoop_s_fsck_moves_and_deletes(
    local: LocalFileSystem, hdfs: Shell, client: hdfs_native.Client, folder: str, tmp_path: Path
) -> None:
    path, kept = f"{folder}/f", f"/lost+found{folder}/f"
    hdfs("dfs", "-touchz", f"{folder}/good").check()
    content = damaged(local, hdfs, path, tmp_path)
    try:
        refused = hdfs("fsck", folder, "-delete", user="eve").stdout
        assert "Superuser privilege is required" in refused
        assert f"Fsck on path '{folder}' FAILED" in refused
        moved = hdfs("fsck", folder, "-move")
        assert f"{path}: MOVED, 2 of 3 blocks are in {kept}" in moved.stdout
        assert (moved.status, "is CORRUPT" in moved.stdout) == (1, True)
        assert client.read(f"{kept}/0").read() == content[:MIB]
        assert client.read(f"{kept}/1").read() == content[2 * MIB :]
        assert len(list(client.list_status(kept))) == 2
        again = hdfs("fsck", folder, "-move")
        assert f"{kept} is there already" in again.stdout
        assert f"Fsck on path '{folder}' FAILED" in again.stdout
        assert hdfs("dfs", "-test", "-e", path).status == 0
        told = hdfs("fsck", folder, "-delete").stdout
        assert f"{path}: DELETED" in told
    finally:
        hdfs("dfs", "-rm", "-r", "-f", "-skipTrash", path, "/lost+found").check()
    assert "is HEALTHY" in hdfs("fsck", folder).check().stdout
    assert hdfs("dfs", "-test", "-e", f"{folder}/good").status == 0


def test_our_fsck_does_both_at_once(
    local: LocalFileSystem, hdfs: Shell, client: hdfs_native.Client, folder: str, tmp_path: Path
) -> None:
    path, kept = f"{folder}/f", f"/lost+found{folder}/f"
    content = damaged(local, hdfs, path, tmp_path)
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-m", "headrace", "fs", "fsck", folder),
                *("--move", "--delete", "--http", local.http_address),
            ],
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, "HEADRACE_FS": local.url},
        )
        assert done.returncode == 1
        assert (
            f"{path}: MOVED, 2 of 3 blocks are in {kept}\n{path}: DELETED" in done.stdout.decode()
        )
        assert client.read(f"{kept}/1").read() == content[2 * MIB :]
    finally:
        hdfs("dfs", "-rm", "-r", "-f", "-skipTrash", path, "/lost+found").check()
    assert "is HEALTHY" in hdfs("fsck", folder).check().stdout
