import random

import pytest

from headrace.base.errors import CorruptionError
from headrace.log import checkpoints
from headrace.testing.disk import SimulatedDisk

PATH = "/d/file"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    return disk


def test_offsets_are_written_as_kafka_does(disk: SimulatedDisk) -> None:
    offsets = {("orders", 1): 7, ("orders", 0): 1200, ("a topic", 3): 0}
    checkpoints.write_offsets(disk, PATH, offsets)
    assert disk.read_file(PATH) == b"0\n3\na topic 3 0\norders 0 1200\norders 1 7\n"
    assert checkpoints.read_offsets(disk, PATH) == offsets


def test_a_missing_file_is_an_empty_one(disk: SimulatedDisk) -> None:
    assert checkpoints.read_offsets(disk, PATH) == {}
    assert checkpoints.read_epochs(disk, PATH) == []
    assert checkpoints.read_topic_id(disk, PATH) is None
    assert checkpoints.read_meta_properties(disk, PATH) is None
    assert checkpoints.read_clean_shutdown(disk, PATH) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\nt 0 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 12",
        b"0\n1\nt x 1\n",
        b"\xff\n1\n",
        b"x\ny\n",
    ],
)
def test_damaged_offsets_name_the_file(disk: SimulatedDisk, content: bytes) -> None:
    disk.replace_file(PATH, content)
    with pytest.raises(CorruptionError, match=PATH):
        checkpoints.read_offsets(disk, PATH)


def test_epochs(disk: SimulatedDisk) -> None:
    checkpoints.write_epochs(disk, PATH, [(0, 0), (3, 1200)])
    assert disk.read_file(PATH) == b"0\n2\n0 0\n3 1200\n"
    assert checkpoints.read_epochs(disk, PATH) == [(0, 0), (3, 1200)]
    disk.replace_file(PATH, b"0\n2\n3 0\n1 1200\n")
    with pytest.raises(CorruptionError):
        checkpoints.read_epochs(disk, PATH)


def test_topic_id(disk: SimulatedDisk) -> None:
    topic_id = bytes.fromhex("7bd5d47e446fcec2a3d811736110e578")
    checkpoints.write_topic_id(disk, PATH, topic_id)
    assert disk.read_file(PATH) == b"version: 0\ntopic_id: e9XUfkRvzsKj2BFzYRDleA\n"
    assert checkpoints.read_topic_id(disk, PATH) == topic_id
    disk.replace_file(PATH, b"version: 0\ntopic_id: e9XU\n")
    with pytest.raises(CorruptionError):
        checkpoints.read_topic_id(disk, PATH)


def test_a_damaged_copy_of_an_id_is_told_from_another_id() -> None:
    topic_id = bytes.fromhex("7bd5d47e446fcec2a3d811736110e578")
    assert checkpoints.is_damaged_copy(bytes([topic_id[0] ^ 0x41]) + topic_id[1:], topic_id)
    assert not checkpoints.is_damaged_copy(topic_id[::-1], topic_id)


def test_meta_properties_of_either_broker(disk: SimulatedDisk) -> None:
    checkpoints.write_meta_properties(disk, PATH, cluster_id="c1", node_id=3, directory_id="d1")
    properties = {"cluster.id": "c1", "node.id": "3", "directory.id": "d1", "version": "1"}
    assert checkpoints.read_meta_properties(disk, PATH) == properties
    disk.replace_file(
        PATH,
        b"#\n#Sun Nov 15 21:24:32 UTC 2026\nnode.id=3\ndirectory.id=d1\nversion=1\ncluster.id=c1\n",
    )
    assert checkpoints.read_meta_properties(disk, PATH) == properties
    disk.replace_file(PATH, b"node.id=3\nversion=0\n")
    with pytest.raises(CorruptionError):
        checkpoints.read_meta_properties(disk, PATH)


def test_the_clean_shutdown_marker(disk: SimulatedDisk) -> None:
    checkpoints.write_clean_shutdown(disk, PATH, 12)
    assert disk.read_file(PATH) == b'{"version":0,"brokerEpoch":12}'
    assert checkpoints.read_clean_shutdown(disk, PATH) == 12
    disk.replace_file(PATH, b"")
    assert checkpoints.read_clean_shutdown(disk, PATH) == -1


def test_writing_is_atomic_and_durable(disk: SimulatedDisk) -> None:
    """KAFKA-16541: a power cut leaves the old file or the new one, whole."""
    checkpoints.write_epochs(disk, PATH, [(0, 0)])
    disk.sync_directory("")
    for seed in range(20):
        checkpoints.write_epochs(disk, PATH, [(0, 0), (seed + 1, 10)])
        disk.crash(random.Random(seed))
        assert checkpoints.read_epochs(disk, PATH) == [(0, 0), (seed + 1, 10)]
