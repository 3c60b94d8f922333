"""`quorum-state`: Kafka's file, read and written."""

import pytest

from headrace.base.errors import CorruptionError
from headrace.quorum.election_state import ElectionState, ReplicaKey
from headrace.quorum.quorum_state_file import encode_quorum_state, read_quorum_state
from headrace.testing.disk import SimulatedDisk

STATES = [
    ElectionState(),
    ElectionState(3, 2),
    ElectionState(9, -1, ReplicaKey(4, bytes(range(16)))),
    ElectionState(9, 4, ReplicaKey(4, bytes(range(16)))),
]


def disk_with(content: bytes) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("log")
    disk.replace_file("log/quorum-state", content)
    return disk


@pytest.mark.parametrize("state", STATES)
def test_round_trip(state: ElectionState) -> None:
    assert read_quorum_state(disk_with(encode_quorum_state(state)), "log") == state


def test_no_file_is_no_state() -> None:
    disk = SimulatedDisk()
    disk.make_directory("log")
    assert read_quorum_state(disk, "log") is None


def test_version_0_names_no_directory() -> None:
    content = (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    state = read_quorum_state(disk_with(content), "log")
    assert state == ElectionState(5, -1, ReplicaKey(1, bytes(16)))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"data_version":9}', b'{"leaderId":1,"data_version":1}']
)
def test_damage_is_told(content: bytes) -> None:
    with pytest.raises(CorruptionError):
        read_quorum_state(disk_with(content), "log")
