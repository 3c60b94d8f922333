"""A quorum's disk without room: a slow disk. What waits is written when there is room."""

import errno

import pytest
from tests.unit.quorum.test_host import FOLDER, Rig

from headrace.quorum.replica import FULL_RETRY_MS
from headrace.quorum.snapshotting import SnapshotPolicy
from headrace.testing.disk import Fault


def no_room(rig: Rig, path_part: str, kind: str = "write") -> Fault:
    fault = Fault(kind, code=errno.ENOSPC, path_part=path_part, is_sticky=True)
    rig.disk.plan(fault)
    return fault


def wait(rig: Rig, delta_ms: int = 2 * FULL_RETRY_MS) -> None:
    rig.timers.advance(delta_ms)
    rig.settle()


def test_entries_wait_for_room_and_keep_their_order() -> None:
    rig = Rig()
    rig.say("before")
    rig.settle()
    fault = no_room(rig, ".log")
    waiting = [rig.say(f"{number}") for number in range(3)]
    wait(rig)
    waiting.append(rig.say("last"))
    wait(rig)
    assert fault.fired_count > 1
    assert not any(promise.settled for promise in waiting)
    assert rig.committed == ["before"]
    rig.disk.heal()
    wait(rig)
    assert [promise.value() for promise in waiting] == ["said 0", "said 1", "said 2", "said last"]
    assert rig.committed == ["before", "0", "1", "2", "last"]
    assert rig.failures == []
    rig.disk.kill()
    rig.open()
    assert rig.host.committed.words == ["before", "0", "1", "2", "last"]


def test_an_election_waits_for_room() -> None:
    rig = Rig()
    rig.say("a")
    rig.settle()
    rig.disk.kill()
    no_room(rig, "quorum-state")
    rig.open()
    wait(rig)
    assert not rig.host.is_active
    rig.disk.heal()
    wait(rig)
    assert rig.host.is_active
    assert rig.failures == []
    answer = rig.say("b")
    rig.settle()
    assert answer.value() == "said b"


@pytest.mark.parametrize("kind", ["open", "write"])
def test_a_snapshot_is_left_out_without_room(kind: str) -> None:
    rig = Rig(policy=SnapshotPolicy(bytes_between=1_000))
    no_room(rig, ".checkpoint", kind)
    for index in range(60):
        rig.say(f"word {index}", "x" * 40)
        wait(rig, 100)
    names = rig.disk.list(FOLDER)
    assert [name for name in names if ".checkpoint" in name] == []
    rig.disk.heal()
    for index in range(60):
        rig.say(f"more {index}", "x" * 40)
        wait(rig, 100)
    assert [name for name in rig.disk.list(FOLDER) if name.endswith(".checkpoint")]
    assert rig.failures == []
    assert len(rig.host.committed.words) == 240
