"""A DataNode dies after an hflush, or in an append: Hadoop's client replaces it and goes on.

With three replicas the client insists on a fourth node there. What was flushed before the death is
seen by readers at every moment after it, and the whole file is right in the end.
"""

import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pytest
from tests.faults.test_datanode_kill import MIB, SETTINGS, Files, options, pipeline_of
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.java_tools import ToolResult
from tests.wire.hadoop_transfer.peer import Peer

from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.testing.filesystem import LocalFileSystem
from headrace.wire.hadoop.protos.client_datanode_pb2 import GetReplicaVisibleLengthRequestProto
from headrace.wire.hadoop.rpc_protocols import CLIENT_DATANODE
from headrace.wire.hadoop.transfer import ExtendedBlock

pytestmark = pytest.mark.java

HFLUSH, HSYNC, CLOSE = 0, -1, -2
JOIN_S = 90.0


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=4, settings=SETTINGS) as running:
        yield running


class SteeredWriter:
    """Hadoop's client in the resident JVM, told by a pipe what to do next."""

    def __init__(
        self,
        hadoop: HadoopTools,
        dfs: LocalFileSystem,
        folder: Path,
        verb: str,
        path: str,
        settings: dict[str, str] | None = None,
    ) -> None:
        self._results: list[ToolResult] = []
        pipes = [folder / "commands", folder / "answers"]
        for pipe in pipes:
            os.mkfifo(pipe)

        def write() -> None:
            words = (verb, path, str(pipes[0]), str(pipes[1]))
            chosen = {"fs.defaultFS": dfs.url, "dfs.replication": "3", **(settings or {})}
            self._results.append(
                hadoop.run("steered-writer", *words, settings=chosen, timeout_s=JOIN_S)
            )

        self._thread = threading.Thread(target=write)
        self._thread.start()
        self._commands: BinaryIO = pipes[0].open("wb", buffering=0)
        self._answers: BinaryIO = pipes[1].open("rb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._commands.close()
        self._thread.join(JOIN_S)
        self._answers.close()
        if error is None:
            assert self._results, "the writer did not end"
            assert self._results[0].status == 0, self._results[0]

    def write(self, data: bytes) -> None:
        self._commands.write(struct.pack(">i", len(data)) + data)

    def do(self, command: int) -> None:
        """hflush, hsync or close, and its end."""
        self._commands.write(struct.pack(">i", command))
        assert self._answers.readline() == b"done\n", "the writer failed"


def seen_by_readers(files: Files, path: str) -> list[bytes]:
    """What each live node of the file's only block shows a reader: as long as it says it is."""
    (block,) = files.blocks(path)
    contents = []
    for location, node in zip(block.locs, files.nodes_of(block), strict=True):
        if node.is_alive:
            with BlockingRpcClient(location.id.ipAddr, location.id.ipcPort, "reader") as rpc:
                ask = GetReplicaVisibleLengthRequestProto(block=block.b)
                length = rpc.call("getReplicaVisibleLength", ask, CLIENT_DATANODE).length
            name = ExtendedBlock(
                block.b.poolId, block.b.blockId, block.b.generationStamp, int(length)
            )
            with Peer((location.id.ipAddr, location.id.xferPort)) as peer:
                contents.append(peer.read(name))
    return contents


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_node_dies_after_an_hflush(
    hadoop: HadoopTools, dfs: LocalFileSystem, tmp_path: Path, position: int
) -> None:
    files = Files(dfs)
    data = os.urandom(MIB) * 8
    half = 4 * MIB + 300  # inside a chunk
    with SteeredWriter(hadoop, dfs, tmp_path, "create", "/file") as writer:
        writer.write(data[:half])
        writer.do(HFLUSH)
        assert seen_by_readers(files, "/file") == [data[:half]] * 3
        pipeline = pipeline_of(files.nodes_of(files.blocks("/file")[0]))
        assert len(pipeline) == 3
        pipeline[position].kill()
        assert seen_by_readers(files, "/file") == [data[:half]] * 2
        writer.write(data[half : half + 1000])
        writer.do(HSYNC)
        assert seen_by_readers(files, "/file") == [data[: half + 1000]] * 3
        (block,) = files.blocks("/file")
        now = files.nodes_of(block)
        assert len(now) == 3
        assert pipeline[position] not in now
        writer.write(data[half + 1000 :])
        writer.do(CLOSE)
    assert files.read("/file") == data


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_node_dies_in_an_append(
    hadoop: HadoopTools, dfs: LocalFileSystem, tmp_path: Path, position: int
) -> None:
    files = Files(dfs)
    data = os.urandom(MIB) * 6
    old = 2 * MIB + 77
    with files.client.create("/file", options(3)) as file:
        file.write(data[:old])
    stamp = files.blocks("/file")[0].b.generationStamp
    with SteeredWriter(hadoop, dfs, tmp_path, "append", "/file") as writer:
        writer.write(data[old : 4 * MIB])
        writer.do(HFLUSH)
        assert seen_by_readers(files, "/file") == [data[: 4 * MIB]] * 3
        pipeline = pipeline_of(files.nodes_of(files.blocks("/file")[0]))
        pipeline[position].kill()
        writer.write(data[4 * MIB :])
        writer.do(CLOSE)
    assert files.read("/file") == data
    (block,) = files.blocks("/file")
    assert block.b.generationStamp > stamp + 1  # one for the append, one for its recovery
