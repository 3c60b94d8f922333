"""A DataNode dies while a file comes by WebHDFS: the PUT goes on and completes, byte for byte.

The bytes come through the NameNode (`headrace.webhdfs.proxy`), so that any DataNode of the pipeline
may die, or through a DataNode, which lives.
"""

import getpass
import http.client
import os
import urllib.request
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from tests.faults.test_datanode_kill import (
    MIB,
    SETTINGS,
    Files,
    eventually,
    pipeline_of,
    transfer_port,
)

from headrace.testing.filesystem import LocalFileSystem, LocalProcess

DATA = os.urandom(12 * MIB + 12_345)
BEFORE = 5 * MIB
TIMEOUT_S = 40.0


@pytest.fixture
def dfs() -> Iterator[LocalFileSystem]:
    settings = {**SETTINGS, "headrace.webhdfs.proxy": "true"}
    with LocalFileSystem(datanodes=3, settings=settings) as running:
        yield running


class Put:
    """A CREATE whose body comes in parts."""

    def __init__(self, http_url: str, path: str, length: int) -> None:
        netloc = urlsplit(http_url).netloc
        self._connection = http.client.HTTPConnection(netloc, timeout=TIMEOUT_S)
        query = f"op=CREATE&replication=3&user.name={getpass.getuser()}"
        self._connection.putrequest("PUT", f"/webhdfs/v1{path}?{query}")
        self._connection.putheader("Content-Length", str(length))
        self._connection.endheaders()

    def send(self, data: bytes) -> None:
        self._connection.send(data)

    def status(self) -> tuple[int, bytes]:
        with self._connection.getresponse() as response:
            return response.status, response.read()

    def close(self) -> None:
        self._connection.close()


def read(dfs: LocalFileSystem, path: str) -> bytes:
    url = f"{dfs.http_url}/webhdfs/v1{path}?op=OPEN&user.name={getpass.getuser()}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        return bytes(response.read())


def streaming_nodes(files: Files, path: str) -> list[LocalProcess]:
    """The nodes that the block under way goes to, in no order."""
    eventually(lambda: len(files.blocks(path)) == 1, "a block is being written")
    (block,) = files.blocks(path)
    nodes = files.nodes_of(block)
    assert len(nodes) == 3
    eventually(lambda: all(has_bytes(node, block.b.blockId) for node in nodes), "bytes everywhere")
    return nodes


def has_bytes(node: LocalProcess, block_id: int) -> bool:
    found = node.data.glob(f"data/current/BP-*/current/rbw/blk_{block_id}")
    return any(path.stat().st_size for path in found)


def written(
    dfs: LocalFileSystem,
    http_url: str,
    path: str,
    victim_of: Callable[[list[LocalProcess]], LocalProcess],
) -> None:
    """Write, and kill one of its nodes in the middle."""
    files = Files(dfs)
    put = Put(http_url, path, len(DATA))
    try:
        put.send(DATA[:BEFORE])
        victim = victim_of(streaming_nodes(files, path))
        victim.kill()
        put.send(DATA[BEFORE:])
        assert put.status()[0] == 201
    finally:
        put.close()
    assert read(dfs, path) == DATA
    assert files.read(path) == DATA
    (block,) = files.blocks(path)
    assert block.b.numBytes == len(DATA)
    assert transfer_port(victim) not in {location.id.xferPort for location in block.locs}


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_put_goes_on_when_a_node_of_its_pipeline_dies(
    dfs: LocalFileSystem, position: int
) -> None:
    written(dfs, dfs.http_url, "/by-namenode", lambda nodes: pipeline_of(nodes)[position])


def test_a_put_by_a_datanode_goes_on_without_another(dfs: LocalFileSystem) -> None:
    taker = dfs.datanodes[0]
    url = f"http://{taker.where['http']}"
    written(dfs, url, "/by-datanode", lambda nodes: next(n for n in nodes if n is not taker))


def test_a_put_without_any_node_is_refused_in_words(dfs: LocalFileSystem) -> None:
    files = Files(dfs)
    put = Put(dfs.http_url, "/lost", len(DATA))
    put.send(DATA[:BEFORE])
    for node in streaming_nodes(files, "/lost"):
        node.kill()
    put.send(DATA[BEFORE:])
    status, body = put.status()
    put.close()
    assert status == 403
    assert b"java.io.IOException" in body
    assert b"are bad. Aborting" in body
