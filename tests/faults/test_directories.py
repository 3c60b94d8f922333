"""A log directory that fails under load takes its own replicas out of service, and nothing else.

Three brokers with two directories each; one of them lies on a file system that the test breaks:

W2  every write fails with EIO
W5  the file system becomes read-only; no name in it can be changed any more; all of it is removed

An idempotent producer writes with acks=all all the while.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from tests.faults.disks import (
    break_disk,
    breakable_disk,
    forbid_changes,
    make_read_only,
    remove_everything,
)
from tests.faults.load import ProduceLoad, TailReader, await_acknowledged, record_poll
from tests.faults.node_rig import NodeRig, rig_of
from tests.faults.readers import end_offsets, invented
from tests.faults.replicas import WAIT_S, Led, await_told, is_whole
from tests.faults.test_replication import tell, verdict
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.nodes import until

from headrace.testing.history import History

PARTITIONS = 6
VICTIM = 2
TOPIC = "on-disks"
BREAKS: dict[str, Callable[[Path], None]] = {
    "W2-eio": break_disk,
    "W5-read-only": make_read_only,
    "W5-unchangeable": forbid_changes,
    "W5-removed": remove_everything,
}


def create(rig: NodeRig) -> None:
    new = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3)
    admin = admin_of(rig.bootstrap_servers)
    admin.create_topics([new])[TOPIC].result(TIMEOUT_S)
    await_told(rig.addresses(), TOPIC, is_whole)


def held_in(folder: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{TOPIC}-[0-9]*")}


@pytest.mark.parametrize(
    "row",
    [row if row == "W2-eio" else pytest.param(row, marks=pytest.mark.long) for row in BREAKS],
)
def test_a_failed_directory_takes_exactly_its_replicas_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    rig = rig_of(tmp_path, directories=2)
    broken = rig.nodes[VICTIM].log_dirs[1]
    kept = rig.nodes[VICTIM].log_dirs[0]
    with breakable_disk(broken), rig:
        history = History()
        create(rig)
        load = ProduceLoad(
            rig.bootstrap_servers, TOPIC, PARTITIONS, history, idempotent=True, pause_s=0.002
        )
        tail = TailReader(rig.bootstrap_servers, TOPIC, PARTITIONS, history)
        tail.start()
        load.start()
        await_acknowledged(history, 300)
        doomed, safe = held_in(broken), held_in(kept)
        assert doomed | safe == set(range(PARTITIONS))
        assert safe
        before = await_told(rig.addresses(), TOPIC, is_whole)
        led_there = {index for index in doomed if before[index].leader == VICTIM}
        led_here = {index for index in safe if before[index].leader == VICTIM}
        assert led_there, "a leadership is to be moved"
        BREAKS[row](broken)

        def has_moved(led: dict[int, Led]) -> bool:
            return bool(led) and all(
                each.leader not in (-1, VICTIM) and VICTIM not in each.isr
                if index in doomed
                else VICTIM in each.isr and len(each.isr) == 3
                for index, each in led.items()
            )

        after = await_told(rig.addresses(), TOPIC, has_moved)
        assert {index for index in safe if after[index].leader == VICTIM} == led_here
        heard = [load.gaps.count(index) for index in range(PARTITIONS)]
        until(
            lambda: all(load.gaps.count(index) > heard[index] for index in range(PARTITIONS)),
            WAIT_S,
        )
        assert "storage_failed" in rig.nodes[VICTIM].log_text(), "void: the disk did not fail"
        assert rig.is_alive(VICTIM)
        load.stop()
        for message in read_all(rig.bootstrap_servers, TOPIC, PARTITIONS):
            record_poll(history, "librdkafka", message)
        tail.drain(end_offsets(history))
        assert tail.errors == []
        assert invented(history) == []
        line = verdict(history, 1, [load.gaps.longest_s()])
    tell(capsys, f"{row}: a directory with {len(doomed)} of {PARTITIONS} replicas failed", line)
