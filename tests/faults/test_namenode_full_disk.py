"""A NameNode whose disk fills up: changes are refused with the reason, reads are served, and it
goes on when there is room again; also when it starts on such a disk.

The disk is a small file system that the test fills and frees. What was acknowledged must be there.
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.disks import MIB, fill, small_disk
from tests.faults.test_namenode_restart import Admin
from tests.interop.nodes import until

from headrace.base.errors import HeadraceError
from headrace.testing.filesystem import LocalFileSystem
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb

DISK_MIB = 24
RESERVED = 8 * MIB
CHECK_MS = 200
WAIT_S = 30


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_MIB) as folder:
        yield folder


def filesystem(disk: Path, data: Path | None = None) -> LocalFileSystem:
    settings = {
        "dfs.namenode.resource.du.reserved": str(RESERVED),
        "dfs.namenode.resource.check.interval": str(CHECK_MS),
    }
    if data is not None:
        settings["dfs.namenode.name.dir"] = str(disk / "name")
    return LocalFileSystem(data or disk, datanodes=0, settings=settings)


def refusal(dfs: LocalFileSystem, path: str) -> str:
    with pytest.raises(RemoteError) as caught:
        Admin(dfs).mkdirs(path)
    assert caught.value.class_name == java.SAFE_MODE
    return str(caught.value)


def is_short(dfs: LocalFileSystem) -> bool:
    return bool(dfs.health()["name_dir_full"])


def gauge(dfs: LocalFileSystem, name: str) -> float:
    with urllib.request.urlopen(f"{dfs.http_url}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


def safe_mode(dfs: LocalFileSystem, action: Any) -> bool:
    answer = Admin(dfs).call("setSafeMode", pb.SetSafeModeRequestProto(action=action))
    return bool(answer.result)


def cli(dfs: LocalFileSystem, *arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "headrace", "fs", *arguments, "--fs", dfs.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_a_full_disk_refuses_changes_and_heals(disk: Path) -> None:
    with filesystem(disk) as dfs:
        Admin(dfs).mkdirs("/before")
        ballast = fill(disk, leave_bytes=RESERVED // 2)
        until(lambda: is_short(dfs), WAIT_S)
        words = refusal(dfs, "/meanwhile")
        assert str(disk) in words
        assert "dfs.namenode.resource.du.reserved" in words
        assert Admin(dfs).names() == ["before"]
        assert safe_mode(dfs, pb.SAFEMODE_GET) is True
        assert safe_mode(dfs, pb.SAFEMODE_LEAVE) is True, "a word makes no room"
        assert "bytes left" in cli(dfs, "safemode")
        told = dfs.health()
        assert told["status"] == "degraded"
        assert told["safe_mode_tip"] in words or "bytes left" in told["safe_mode_tip"]
        assert gauge(dfs, "headrace_name_dir_full") == 1
        assert 0 < gauge(dfs, "headrace_name_dir_free_bytes") < RESERVED
        ballast.unlink()
        until(lambda: not is_short(dfs), WAIT_S)
        assert safe_mode(dfs, pb.SAFEMODE_GET) is False
        Admin(dfs).mkdirs("/after")
        assert Admin(dfs).names() == ["after", "before"]


@pytest.mark.parametrize("leave_bytes", [0, RESERVED // 2], ids=["to-the-last-byte", "a-little"])
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_a_start_on_a_full_disk_serves_reads(
    disk: Path, leave_bytes: int, *, is_killed: bool
) -> None:
    with filesystem(disk) as dfs:
        admin = Admin(dfs)
        for index in range(50):
            admin.mkdirs(f"/d{index:02d}")
        expected = admin.names()
        ballast = fill(disk, leave_bytes)
        until(lambda: is_short(dfs), WAIT_S)
        if is_killed:
            dfs.namenode.kill()
        else:
            dfs.namenode.stop()
        ballast.unlink()
        ballast = fill(disk, leave_bytes)  # what the stop gave back, too
        dfs.namenode.start()
        assert Admin(dfs).names() == expected
        refusal(dfs, "/meanwhile")
        assert dfs.namenode.is_alive
        ballast.unlink()
        until(lambda: not is_short(dfs), WAIT_S)
        Admin(dfs).mkdirs("/after")
        dfs.namenode.kill()
        dfs.namenode.start()
        assert Admin(dfs).names() == sorted(["after", *expected])


def test_a_disk_that_fills_faster_than_anybody_looks_costs_nothing_acknowledged(
    disk: Path, tmp_path: Path
) -> None:
    """The journal's own end: the process stops, and the next one knows all that was answered."""
    with filesystem(disk, tmp_path / "data") as dfs:
        dfs.settings["dfs.namenode.resource.check.interval"] = "3600000"
        dfs.namenode.stop()
        dfs.namenode.start()
        ballast = fill(disk)
        acknowledged = []
        for index in range(20_000):
            path = f"/d{index:05d}" + "x" * 200
            try:
                Admin(dfs).mkdirs(path)
            except (OSError, HeadraceError, RemoteError):
                break
            acknowledged.append(path[1:])
        until(lambda: not dfs.namenode.is_alive, WAIT_S)
        assert "fatal" in dfs.namenode.log_text()
        dfs.namenode.kill()
        dfs.namenode.start()
        assert is_short(dfs)
        page = json.dumps(Admin(dfs).names())
        assert all(name in page for name in acknowledged[:900])
        ballast.unlink()
