"""The power of a leader fails under load (P1, P2): fewer than `min.insync.replicas` at once.

And the same with a disk that lied (W4): it said that records were synced, and had done nothing.

Three brokers, three replicas, two in sync at least; nothing is synced before it is acknowledged.
The log directory of one broker lies on an ext4 image behind a loop device. A copy of the image,
taken while its process stands still, has what reached the disk and nothing of the page cache: with
it in place of the image, and without the file that knows the machine's last start, the broker
starts as after a cut.

It may lead nothing before it has again what the others have. A cut that cost no bytes is void.
Topics are created up to the cut, and one while the broker is down: all that were acknowledged are
known to everybody afterwards, as are those deleted; the broker that was cut votes in the quorum.

A lie is found by segments that end before the next begins, or before the recovery point: such a
copy is made anew.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from tests.faults.disk_faults import cut_power, injected
from tests.faults.disks import image_at
from tests.faults.load import ProduceLoad, TailReader, await_acknowledged, record_poll
from tests.faults.node_rig import NodeRig, RigNode, rig_of
from tests.faults.readers import end_offsets, held_by, invented
from tests.faults.replicas import WAIT_S, Led, await_told, is_whole
from tests.faults.test_replication import IMPATIENCE, tell, verdict
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.nodes import until

from headrace.testing.history import History

TOPIC, PARTITIONS, VICTIM = "on-disks", 6, 2
SMALL_SEGMENTS = {"internal.segment.bytes": str(16 * 1024)}
"""Each is synced when the next begins."""
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": "500"}


def create(rig: NodeRig, configs: dict[str, str]) -> None:
    new = NewTopic(TOPIC, PARTITIONS, 3, config=configs)
    admin = admin_of(rig.bootstrap_servers)
    admin.create_topics([new])[TOPIC].result(TIMEOUT_S)
    await_told(rig.addresses(), TOPIC, is_whole)


def make_topics(servers: str, names: list[str]) -> None:
    """One after the other, each acknowledged."""
    admin = admin_of(servers)
    for name in names:
        new = NewTopic(name, num_partitions=1, replication_factor=3)
        admin.create_topics([new])[name].result(TIMEOUT_S)


def topics_at(address: str) -> set[str]:
    """As one broker knows them."""
    return set(admin_of(address).list_topics(timeout=TIMEOUT_S).topics)


def have_points_moved(node: RigNode) -> bool:
    """Whether the checkpoint says that something of the topic was synced."""
    path = node.log_dirs[0] / "recovery-point-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    points = [int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} ")]
    return len(points) == PARTITIONS and min(points) > 0


@pytest.mark.long
@pytest.mark.parametrize("cut", range(3))
def test_a_power_cut_of_a_leader_loses_nothing_acknowledged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    line = run_cut(tmp_path, lambda _node, history: await_acknowledged(history, 500 * (cut + 1)))
    tell(capsys, "P1, P2 (min.insync.replicas - 1 = 1)", line)


@pytest.mark.long
def test_w4_a_disk_that_lied_about_its_syncs_is_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lie(node: RigNode, history: History) -> None:
        # An fsync, which is for small files and names, is made: recovery points get to the disk,
        # what they speak of does not.
        with injected(node, "fdatasync", "retval=0"):
            await_acknowledged(history, 1_000)
            until(lambda: have_points_moved(node), WAIT_S)
            await_acknowledged(history, 200)

    line = run_cut(tmp_path, lie, SMALL_SEGMENTS)
    text = (tmp_path / str(VICTIM) / "node.log").read_text(errors="replace")
    assert f"event=storage_failed what={TOPIC}-" in text, "void: nothing that was synced is lost"
    anew = sum("event=replica_made_anew " in each for each in text.splitlines())
    assert anew, "a copy that lacks what was synced stayed as it was"
    tell(capsys, f"W4: {anew} of {PARTITIONS} replicas made anew", line)


def run_cut(
    tmp_path: Path,
    before_cut: Callable[[RigNode, History], None],
    configs: dict[str, str] | None = None,
) -> str:
    """Load, `before_cut`, the cut, a start; everything is judged. What it cost and found."""
    rig = rig_of(tmp_path, directories=1, settings=SETTINGS)
    node = rig.nodes[VICTIM]
    with image_at(Path(node.log_dirs[0])) as image, rig:
        history = History()
        create(rig, configs or {})
        servers = rig.bootstrap_servers
        load = ProduceLoad(
            servers, TOPIC, PARTITIONS, history, idempotent=True, settings=IMPATIENCE, pause_s=0.001
        )
        tail = TailReader(servers, TOPIC, PARTITIONS, history)
        tail.start()
        load.start()
        before_cut(node, history)
        before = await_told(rig.addresses(), TOPIC, is_whole)
        led = {index for index, each in before.items() if each.leader == VICTIM}
        assert led
        made = [f"made-{number}" for number in range(6)]
        make_topics(servers, [*made, "unmade"])
        admin = admin_of(servers)  # held: the answer dies with the client
        admin.delete_topics(["unmade"])["unmade"].result(TIMEOUT_S)
        cost_bytes = cut_power(node, image)
        assert cost_bytes > 0, "void: everything had reached the disk"
        make_topics(",".join(rig.addresses(VICTIM)), ["made-meanwhile"])
        rig.launch(node)

        def is_led_by_others(told: dict[int, Led]) -> bool:
            return bool(told) and all(told[index].leader not in (-1, VICTIM) for index in led)

        await_told(rig.addresses(VICTIM), TOPIC, is_led_by_others)
        rig.await_started(node)
        await_told(rig.addresses(), TOPIC, is_whole)
        await_acknowledged(history, 300)
        load.stop()
        for message in read_all(servers, TOPIC, PARTITIONS):
            record_poll(history, "librdkafka", message)
        tail.drain(end_offsets(history))
        assert tail.errors == []
        assert invented(history) == []
        await_told(rig.addresses(), TOPIC, is_whole)
        for partition in range(PARTITIONS):
            held = [held_by(each, TOPIC, partition) for each in rig.nodes.values()]
            assert held[0] == held[1] == held[2]
        for address in rig.addresses():
            known = topics_at(address)
            assert known >= {TOPIC, *made, "made-meanwhile"}, f"{address} forgot a topic"
            assert "unmade" not in known, f"{address} has a deleted topic again"
        line = verdict(history, 1, [0.0])
    return f"cost {cost_bytes} bytes of one of three, {len(made) + 1} topics are kept: {line}"
