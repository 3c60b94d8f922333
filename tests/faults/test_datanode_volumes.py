"""Volumes that go, and volumes that are full in mid-write: what was acknowledged stays."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import not_run
from tests.faults.test_datanode_flush_java import CLOSE, HFLUSH, SteeredWriter, seen_by_readers
from tests.faults.test_datanode_kill import MIB, SETTINGS, Files, eventually, options
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.java_tools import JavaMissingError

from headrace.testing.filesystem import LocalFileSystem, LocalProcess


def break_volume(path: Path) -> None:
    """The disk is gone: a file lies where the folder was, so that nothing below can be reached."""
    path.rename(path.with_name(path.name + ".gone"))
    path.write_bytes(b"")


def replicas_in(volume: Path) -> set[int]:
    found = volume.glob("current/BP-*/current/finalized/*/*/blk_*")
    return {int(path.name[4:]) for path in found if path.suffix != ".meta"}


def test_the_blocks_of_a_lost_volume_are_copied_and_its_node_serves_on() -> None:
    with LocalFileSystem(datanodes=3, volumes=2, settings=SETTINGS) as dfs:
        files = Files(dfs)
        data = os.urandom(MIB)
        paths = [f"/file-{index}" for index in range(6)]
        for path in paths:
            with files.client.create(path, options(2)) as file:
                file.write(data)
        # Where replicas go is drawn by lot: one node may have none.
        node = max(dfs.datanodes, key=lambda each: len(replicas_in(each.data / "data-0")))
        victim = node.data / "data-0"
        lost = replicas_in(victim)
        kept = replicas_in(node.data / "data-1")
        assert lost, "volumes take turns"
        break_volume(victim)

        def on_disk(block_id: int) -> int:
            volumes = [each.data / f"data-{i}" for each in dfs.datanodes for i in range(2)]
            return sum(block_id in replicas_in(volume) for volume in volumes)

        eventually(lambda: all(on_disk(block) == 2 for block in lost | kept), "two replicas each")
        assert node.is_alive
        assert dfs.health()["live_datanodes"] == 3
        for path in paths:
            assert files.read(path) == data
        assert kept <= replicas_in(node.data / "data-1")


def has_ended(node: LocalProcess) -> bool:
    return not node.is_alive


def test_more_failed_volumes_than_tolerated_end_the_node() -> None:
    settings = {**SETTINGS, "dfs.datanode.failed.volumes.tolerated": 0}
    with LocalFileSystem(datanodes=1, volumes=2, settings=settings) as dfs:
        node = dfs.datanodes[0]
        break_volume(node.data / "data-1")
        eventually(lambda: has_ended(node), "the DataNode's end")
        assert "too many volumes failed" in node.log_text()
        node.kill()


def told_of_volumes(node: LocalProcess) -> tuple[list[str], str]:
    """What `/health` and `/metrics` of a DataNode say of the volumes that failed."""
    http = node.where["http"]
    try:
        response = urllib.request.urlopen(f"http://{http}/health", timeout=5)
    except urllib.error.HTTPError as degraded:
        response = degraded
    with response:
        failed: list[str] = json.loads(response.read())["failed_volumes"]
    with urllib.request.urlopen(f"http://{http}/metrics", timeout=5) as response:
        lines = response.read().decode().splitlines()
    (metric,) = [line for line in lines if line.startswith("headrace_datanode_volumes_failed")]
    return failed, metric.split()[1]


def replaced_by_a_file(volume: Path) -> None:
    break_volume(volume)


def mounted_read_only(volume: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(volume)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        not_run("a read-only file system can't be mounted here")


def unmount(volume: Path) -> None:
    subprocess.run(["umount", "-l", str(volume)], capture_output=True, check=False)


@pytest.mark.parametrize("damage", [replaced_by_a_file, mounted_read_only])
@pytest.mark.parametrize("tolerated", [-1, 1])
def test_a_node_starts_without_a_volume_that_cannot_be_opened(
    damage: Callable[[Path], None], tolerated: int
) -> None:
    settings = {**SETTINGS, "dfs.datanode.failed.volumes.tolerated": tolerated}
    with LocalFileSystem(datanodes=2, volumes=2, settings=settings) as dfs:
        files = Files(dfs)
        data = os.urandom(MIB)
        paths = [f"/file-{index}" for index in range(6)]
        for path in paths:
            with files.client.create(path, options(2)) as file:
                file.write(data)
        node = dfs.datanodes[0]
        node.stop()
        victim = node.data / "data-1"
        lost, kept = replicas_in(victim), replicas_in(node.data / "data-0")
        damage(victim)
        try:
            node.start()
            assert told_of_volumes(node) == ([str(victim)], "1.0")
            assert "event=volume_failed" in node.log_text()
            eventually(
                lambda: replicas_in(node.data / "data-0") == lost | kept, "copies of what was lost"
            )
            for path in paths:
                assert files.read(path) == data
        finally:
            unmount(victim)


def test_a_node_with_too_few_volumes_says_so_and_does_not_start() -> None:
    settings = {**SETTINGS, "dfs.datanode.failed.volumes.tolerated": 0}
    with LocalFileSystem(datanodes=1, volumes=2, settings=settings) as dfs:
        node = dfs.datanodes[0]
        node.stop()
        break_volume(node.data / "data-1")
        node.launch()
        eventually(lambda: has_ended(node), "the DataNode's end")
        assert "too many volumes failed: 1 of 2 can't be opened" in node.log_text()
        node.kill()


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """The volume of the first DataNode, with room for 24 MiB."""
    volume = tmp_path / "datanode-0" / "data"
    volume.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(volume)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        not_run("a small file system can't be mounted here")
    yield volume
    subprocess.run(["umount", "-l", str(volume)], check=True)


@pytest.mark.java
def test_a_disk_fills_up_in_mid_write(small_volume: Path, tmp_path: Path) -> None:
    """The full node leaves the pipeline, another one takes its place, nothing flushed is lost."""
    try:
        hadoop = HadoopTools()
    except JavaMissingError as missing:
        not_run(str(missing))
    settings = {**SETTINGS, "dfs.blocksize": 16 * MIB}
    data = os.urandom(MIB) * 12
    try:
        with LocalFileSystem(tmp_path, datanodes=3, settings=settings) as dfs:
            files = Files(dfs)
            with SteeredWriter(
                hadoop, dfs, tmp_path, "create", "/file", {"dfs.blocksize": str(16 * MIB)}
            ) as writer:
                writer.write(data[: 2 * MIB])
                writer.do(HFLUSH)
                full = dfs.datanodes[0]
                assert full in files.nodes_of(files.blocks("/file")[0])
                fourth = dfs.add_datanode()
                fourth.start()
                dfs.await_datanodes(4)
                fill(small_volume)
                writer.write(data[2 * MIB : 8 * MIB])
                writer.do(HFLUSH)
                assert seen_by_readers(files, "/file") == [data[: 8 * MIB]] * 3
                assert full not in files.nodes_of(files.blocks("/file")[0])
                writer.write(data[8 * MIB :])
                writer.do(CLOSE)
            assert files.read("/file") == data
            assert full.is_alive
            assert "volume_failed" not in full.log_text()
    finally:
        hadoop.close()


def fill(volume: Path) -> None:
    with (volume / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(64 * 1024))
        except OSError:
            return
