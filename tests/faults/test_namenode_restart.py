"""A NameNode process and its folder: checkpoints by a child process, damage, a second NameNode."""

import getpass
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import hdfs_native
import pytest
from google.protobuf.message import Message
from tests.faults.test_datanode_kill import eventually, is_live

from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.client.namenode import NameNodeClient
from headrace.testing.filesystem import LocalFileSystem, ProcessError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.acl_pb2 import FsPermissionProto


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=0) as running:
        yield running


class Admin:
    def __init__(self, dfs: LocalFileSystem) -> None:
        self._dfs = dfs

    def call(self, method: str, request: Message) -> Any:
        host, port = self._dfs.address.split(":")
        with BlockingRpcClient(host, int(port), getpass.getuser()) as rpc:
            return rpc.call(method, request)

    def mkdirs(self, path: str) -> None:
        request = pb.MkdirsRequestProto(
            src=path, masked=FsPermissionProto(perm=0o755), createParent=True
        )
        assert self.call("mkdirs", request).result is True

    def names(self) -> list[str]:
        request = pb.GetListingRequestProto(src="/", startAfter=b"", needLocation=False)
        listing = self.call("getListing", request).dirList
        return [entry.path.decode() for entry in listing.partialListing]

    def checkpoint(self) -> None:
        """As `hdfs dfsadmin -saveNamespace` does it."""
        for action in (pb.SAFEMODE_ENTER, None, pb.SAFEMODE_LEAVE):
            if action is None:
                saved = self.call("saveNamespace", pb.SaveNamespaceRequestProto())
                assert saved.saved is True
            else:
                self.call("setSafeMode", pb.SetSafeModeRequestProto(action=action))


def images(dfs: LocalFileSystem) -> list[str]:
    folder = dfs.namenode.data / "name"
    return sorted(path.name for path in folder.glob("fsimage_*"))


def test_a_restart_begins_with_the_checkpoint(dfs: LocalFileSystem) -> None:
    admin = Admin(dfs)
    for index in range(3):
        admin.mkdirs(f"/before{index}")
        admin.checkpoint()
    admin.mkdirs("/after")
    expected = admin.names()
    assert len(images(dfs)) == 2
    dfs.namenode.kill()
    # Without the first edits only the checkpoint can tell of them.
    dfs.namenode.start()
    assert Admin(dfs).names() == expected


def test_checkpoints_are_told(dfs: LocalFileSystem) -> None:
    def told() -> tuple[int, int]:
        url = f"{dfs.http_url}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystem"
        with urllib.request.urlopen(url, timeout=10) as answer:
            (bean,) = json.loads(answer.read())["beans"]
        return bean["TransactionsSinceLastCheckpoint"], bean["LastCheckpointTime"]

    admin = Admin(dfs)
    for index in range(5):
        admin.mkdirs(f"/d{index}")
    edits, built_ms = told()
    assert edits >= 5
    assert built_ms == 0
    admin.checkpoint()
    edits, built_ms = told()
    assert edits == 0
    assert built_ms > 1_700_000_000_000
    admin.mkdirs("/more")
    dfs.namenode.kill()
    dfs.namenode.start()
    edits, again_ms = told()
    assert edits == 2, "an edit, and the beginning of the log's next epoch"
    assert abs(again_ms - built_ms) < 60_000


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_taken(dfs: LocalFileSystem) -> None:
    admin = Admin(dfs)
    admin.mkdirs("/a")
    admin.checkpoint()
    admin.mkdirs("/b")
    admin.checkpoint()
    dfs.namenode.kill()
    newest = dfs.namenode.data / "name" / images(dfs)[-1]
    content = bytearray(newest.read_bytes())
    content[-20] ^= 1
    newest.write_bytes(content)
    dfs.namenode.start()
    assert Admin(dfs).names() == ["a", "b"]
    assert "checkpoint_damaged" in dfs.namenode.log_text()


def test_no_start_without_a_whole_checkpoint(dfs: LocalFileSystem) -> None:
    admin = Admin(dfs)
    admin.mkdirs("/a")
    admin.checkpoint()
    dfs.namenode.kill()
    (dfs.namenode.data / "name" / images(dfs)[0]).write_bytes(b"")
    with pytest.raises(ProcessError, match="no checkpoint in this folder is whole"):
        dfs.namenode.start()
    dfs.namenode.kill()


def test_two_namenodes_on_one_folder(dfs: LocalFileSystem) -> None:
    Admin(dfs).mkdirs("/a")
    addresses = ["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
    command = [sys.executable, "-P", "-m", "headrace", "namenode"]
    second = subprocess.run(
        [*command, "--data", str(dfs.namenode.data), *addresses],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 1
    assert "is in use by process" in second.stderr
    assert Admin(dfs).names() == ["a"]


def test_an_old_name_directory_costs_what_it_never_knew_and_nothing_more() -> None:
    """D5, D14: it keeps safe mode on; given up by force, nothing old is taken for something new."""
    with LocalFileSystem(datanodes=2, settings={"dfs.replication": 2}) as dfs:
        client = hdfs_native.Client(dfs.url)
        for index in range(3):
            _write(client, f"/kept-{index}", b"k" * 2_000)
        dfs.namenode.stop()
        name = dfs.namenode.data / "name"
        old = name.with_name("old")
        shutil.copytree(name, old)
        dfs.namenode.start()
        eventually(lambda: is_live(dfs, 2), "both DataNodes")
        for index in range(10):
            _write(client, f"/lost-{index}", b"y" * 2_000)
        dfs.namenode.kill()
        shutil.rmtree(name)
        old.rename(name)
        dfs.namenode.start()
        with NameNodeClient(dfs.url) as admin:
            eventually(lambda: _future_bytes(admin) == 2 * 10 * 2_000, "both reports")
        left = _safemode(dfs, "leave")
        assert (left.returncode, left.stdout.splitlines()[0]) == (1, "safe mode is on")
        assert "40000 bytes of blocks that this NameNode has never heard of" in left.stderr
        assert _safemode(dfs, "force-exit").stdout == "safe mode is off\n"
        for index in range(3):
            _write(client, f"/new-{index}", b"z" * 2_000)
            assert _read(client, f"/new-{index}") == b"z" * 2_000
            assert _read(client, f"/kept-{index}") == b"k" * 2_000
        eventually(lambda: _replica_count(dfs) == 2 * 6, "the deletion of all that is not known")


def _safemode(dfs: LocalFileSystem, action: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", "fs", "safemode", action, "--fs", dfs.url],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )


def _write(client: hdfs_native.Client, path: str, data: bytes) -> None:
    with client.create(path) as file:
        file.write(data)


def _read(client: hdfs_native.Client, path: str) -> bytes:
    with client.read(path) as file:
        return bytes(file.read())


def _future_bytes(admin: NameNodeClient) -> int:
    return int(admin.call("getFsStats", pb.GetFsStatusRequestProto()).blocks_in_future)


def _replica_count(dfs: LocalFileSystem) -> int:
    found = (path for node in dfs.datanodes for path in node.data.rglob("blk_*"))
    return sum(1 for path in found if path.suffix != ".meta")
