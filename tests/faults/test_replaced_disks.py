"""Copies that are gone or damaged when a broker starts again: not electable, and made anew.

Three brokers with two directories each, three replicas. A broker is killed, something happens to
one of its disks, and it is started again:

W6  the disk is replaced by an empty one, after all three were killed, and it starts first
B1  bits are flipped in the middle of a segment
B2  a segment loses its end
B3  the end of a segment is zeros
B4  a segment is deleted

What was acknowledged is there, once and in order, and in the end every replica holds the same.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from tests.faults.load import ProduceLoad, await_acknowledged, record_poll
from tests.faults.node_rig import NodeRig, rig_of
from tests.faults.readers import invented
from tests.faults.replicas import Led, await_told, is_whole
from tests.faults.test_network import held_by
from tests.faults.test_replication import IMPATIENCE, tell, verdict
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all

from headrace.testing.history import History, Send

PARTITIONS = 4


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeRig]:
    with rig_of(tmp_path_factory.mktemp("disks"), directories=2) as running:
        yield running


def written(rig: NodeRig, topic: str, history: History) -> None:
    new = NewTopic(topic, PARTITIONS, 3, config={"segment.bytes": str(1 << 20)})
    admin = admin_of(rig.bootstrap_servers)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    await_told(rig.addresses(), topic, is_whole)
    load_for(rig, topic, history, 2_000)


def load_for(rig: NodeRig, topic: str, history: History, count: int) -> None:
    load = ProduceLoad(
        rig.bootstrap_servers, topic, PARTITIONS, history, idempotent=True, settings=IMPATIENCE
    )
    load.sent_count = sum(1 for _ in history.events(Send))  # values that nobody has used
    load.start()
    await_acknowledged(history, count)
    load.stop()


def check(rig: NodeRig, topic: str, history: History) -> str:
    await_told(rig.addresses(), topic, is_whole)
    for message in read_all(rig.bootstrap_servers, topic, PARTITIONS):
        record_poll(history, "librdkafka", message)
    assert invented(history) == []
    for partition in range(PARTITIONS):
        held = [held_by(node, topic, partition) for node in rig.nodes.values()]
        assert held[0]
        assert held[0] == held[1] == held[2]
    return verdict(history, 1, [0.0])


def held_in(folder: Path, topic: str) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{topic}-[0-9]")}


@pytest.mark.long
def test_w6_a_replaced_disk_is_refilled_and_not_elected_before(
    rig: NodeRig, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, victim, history = "replaced", 2, History()
    written(rig, topic, history)
    disk = rig.nodes[victim].log_dirs[1]
    lost = held_in(disk, topic)
    before = await_told(rig.addresses(), topic, is_whole)
    led = {index for index in lost if before[index].leader == victim}
    assert led, "void: it led nothing there"
    for node in rig.nodes:
        rig.kill(node)
    shutil.rmtree(disk)
    disk.mkdir()
    rig.launch(rig.nodes[victim])
    for node in (1, 3):
        rig.launch(rig.nodes[node])
    for node in rig.nodes.values():
        rig.await_started(node)

    def is_led_by_others(told: dict[int, Led]) -> bool:
        return bool(told) and all(told[index].leader in (1, 3) for index in lost)

    await_told(rig.addresses(), topic, is_led_by_others)
    load_for(rig, topic, history, 400)
    line = check(rig, topic, history)
    assert held_in(disk, topic) | held_in(rig.nodes[victim].log_dirs[0], topic) == set(range(4))
    assert "replica_made_anew" in rig.nodes[victim].log_text() or held_in(disk, topic)
    tell(capsys, f"W6: an empty disk in place of one with {len(lost)} replicas", line)


def flip(log: Path, chance: random.Random) -> None:
    content = bytearray(log.read_bytes())
    for _ in range(8):
        content[chance.randrange(len(content) // 4, len(content) * 3 // 4)] ^= 0x10
    log.write_bytes(bytes(content))


def cut(log: Path, chance: random.Random) -> None:
    with log.open("r+b") as file:
        file.truncate(chance.randrange(log.stat().st_size // 2, log.stat().st_size))


def zero(log: Path, chance: random.Random) -> None:
    content = log.read_bytes()
    kept = chance.randrange(len(content) // 2, len(content) - 1)
    log.write_bytes(content[:kept] + bytes(len(content) - kept))


def delete(log: Path, _chance: random.Random) -> None:
    log.unlink()


DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {
    "B1-flip": flip,
    "B2-cut": cut,
    "B3-zeros": zero,
    "B4-delete": delete,
}


@pytest.mark.long
@pytest.mark.parametrize("row", DAMAGE)
def test_a_damaged_copy_is_found_and_harms_nobody(
    rig: NodeRig, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    """The copy of a leader: what it had is judged against what the others have."""
    topic, history, chance = row.lower(), History(), random.Random(row)
    written(rig, topic, history)
    before = await_told(rig.addresses(), topic, is_whole)
    partition = chance.randrange(PARTITIONS)
    victim = before[partition].leader
    rig.kill(victim)
    (folder,) = [
        path
        for directory in rig.nodes[victim].log_dirs
        for path in directory.glob(f"{topic}-{partition}")
    ]
    logs = sorted(folder.glob("*.log"))
    DAMAGE[row](logs[0], chance)
    rig.start(victim)
    load_for(rig, topic, history, 400)
    line = check(rig, topic, history)
    tell(capsys, row, line)
