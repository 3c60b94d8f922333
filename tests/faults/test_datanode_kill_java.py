"""A DataNode dies while Hadoop's own client writes: its pipeline recovery is the reference.

`hdfs dfs -put` reads from a named pipe, so that the test decides when the bytes come.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.test_datanode_kill import MIB, SETTINGS, Files, eventually, pipeline_of
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.java_tools import ToolResult

from headrace.testing.filesystem import LocalFileSystem

pytestmark = pytest.mark.java


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=4, settings=SETTINGS) as running:
        yield running


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_put_goes_on_when_a_node_of_its_pipeline_dies(
    hadoop: HadoopTools, dfs: LocalFileSystem, tmp_path: Path, position: int
) -> None:
    files = Files(dfs)
    data = os.urandom(MIB) * 24
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    results: list[ToolResult] = []

    def put() -> None:
        settings = {"fs.defaultFS": dfs.url, "dfs.replication": "3"}
        results.append(hadoop.run("dfs", "-put", str(pipe), "/file", settings=settings))

    thread = threading.Thread(target=put)
    thread.start()
    with pipe.open("wb", buffering=0) as source:
        for at in range(0, 8 * MIB, MIB):
            source.write(data[at : at + MIB])
        eventually(lambda: bool(files.blocks("/file._COPYING_")), "a block")
        block = files.blocks("/file._COPYING_")[0]
        pipeline = pipeline_of(files.nodes_of(block))
        assert len(pipeline) == 3
        pipeline[position].kill()
        for at in range(8 * MIB, len(data), MIB):
            source.write(data[at : at + MIB])
    thread.join(90)
    assert results, "the shell did not end"
    assert results[0].status == 0, results[0]
    assert files.read("/file") == data
    assert files.blocks("/file")[0].b.generationStamp > block.b.generationStamp
