"""Leaders behind a network that is cut, deaf, mute, lossy or slow, under a load of acks=all.

Three brokers, each in a network namespace of its own, every one a controller too; three replicas,
two in sync at least. An idempotent librdkafka producer writes to every partition from outside while
the leader of one is hurt, round after round; one consumer reads along, another everything in the
end, and the files of all replicas are compared. The rows have the names of docs/TESTING.md.

A round whose fault struck nothing, or after which nobody else took over where somebody should, is
void, and fails. Each run prints one line of counts. `HEADRACE_REPLICATION_ROUNDS` says how many
rounds a long row has.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from tests.faults.load import ProduceLoad, TailReader, await_acknowledged, record_poll, value_of
from tests.faults.networks import CLIENT, Network, network
from tests.faults.node_rig import REPLICATED, NodeRig, RigNode
from tests.faults.readers import batches, end_offsets, invented, segments
from tests.faults.replicas import WAIT_S, Led, await_told, is_whole
from tests.faults.test_replication import FAST, IMPATIENCE, tell, verdict
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.nodes import until

from headrace.testing.history import History
from headrace.wire.kafka.records import read_records

NODES = (1, 2, 3)
PARTITIONS = 3
ROUNDS = int(os.environ.get("HEADRACE_REPLICATION_ROUNDS", "5"))
SPELL_S = 6.0
"""How long a fault lasts that takes no leadership away."""
SETTINGS = {
    **REPLICATED,
    **{key: str(value) for key, value in FAST.items()},
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "3000",
}
PATIENT = {**IMPATIENCE, "socket.connection.setup.timeout.ms": 2_000}
NET_PORT, CONTROLLER_PORT = 9092, 9093


@dataclass(slots=True)
class Stage:
    net: Network
    rig: NodeRig
    chance: random.Random

    def others(self, node: int) -> list[int]:
        return [each for each in NODES if each != node]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    base: Path = tmp_path_factory.mktemp("network")
    with network(NODES) as net:
        nodes = [
            RigNode(
                node,
                base / str(node),
                [base / str(node) / "log"],
                host=net.address(node),
                port=NET_PORT,
                controller_port=CONTROLLER_PORT,
                prefix=net.prefix(node),
            )
            for node in NODES
        ]
        with NodeRig(nodes, SETTINGS) as rig:
            yield Stage(net, rig, random.Random(7))


Fault = Callable[[Stage, int], Iterator[None]]
"""Hurts the leader, yields while it is hurt, heals, and says whether it struck."""


# -- faults that take the leadership away ----------------------------------------------------------


def isolated(stage: Stage, leader: int) -> Iterator[None]:
    stage.net.isolate(leader)
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def deaf(stage: Stage, leader: int) -> Iterator[None]:
    stage.net.deafen(leader)
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def mute(stage: Stage, leader: int) -> Iterator[None]:
    stage.net.mute(leader)
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def asleep(stage: Stage, leader: int) -> Iterator[None]:
    stage.rig.signal(leader, signal.SIGSTOP)
    yield
    stage.rig.signal(leader, signal.SIGCONT)


def killed(stage: Stage, leader: int) -> Iterator[None]:
    stage.rig.kill(leader)
    yield
    stage.rig.start(leader)


# -- faults under which everything goes on ---------------------------------------------------------


def clients_cut(stage: Stage, leader: int) -> Iterator[None]:
    stage.net.cut_from(leader, [CLIENT])
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def half_cut(stage: Stage, leader: int) -> Iterator[None]:
    """A–B, B–C, not A–C."""
    stage.net.cut_from(leader, [stage.chance.choice(stage.others(leader))])
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def swizzled(stage: Stage, _leader: int) -> Iterator[None]:
    """One after the other is cut off, and they come back in another order."""
    order = stage.chance.sample(NODES, 3)
    for node in order:
        stage.net.isolate(node)
        time.sleep(stage.chance.uniform(0.2, 1.0))
    yield
    struck = 0
    for node in stage.chance.sample(NODES, 3):
        struck += stage.net.struck(node)
        stage.net.heal(node)
        time.sleep(stage.chance.uniform(0.2, 1.0))
    assert struck > 0, "void: no packet was struck"


def lossy(percent: int) -> Fault:
    def fault(stage: Stage, leader: int) -> Iterator[None]:
        stage.net.lose(leader, percent)
        yield
        assert stage.net.struck(leader) > 0, "void: no packet was struck"

    return fault


def narrow(stage: Stage, leader: int) -> Iterator[None]:
    stage.net.narrow(leader, 256)
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def reset(stage: Stage, leader: int) -> Iterator[None]:
    stage.net.reset(leader)
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def all_killed(stage: Stage, _leader: int) -> Iterator[None]:
    for node in NODES:
        stage.rig.kill(node)
    yield
    for node in NODES:
        stage.rig.launch(stage.rig.nodes[node])
    for node in NODES:
        stage.rig.await_started(stage.rig.nodes[node])


# -- a run -----------------------------------------------------------------------------------------


def rounds_of(stage: Stage, fault: Fault, rounds: int, topic: str, *, takes_over: bool) -> str:
    servers = stage.rig.bootstrap_servers
    admin = admin_of(servers)
    new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=3)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    await_told(stage.rig.addresses(), topic, is_whole)
    history = History()
    load = ProduceLoad(
        servers, topic, PARTITIONS, history, idempotent=True, pause_s=0.004, settings=PATIENT
    )
    tail = TailReader(servers, topic, PARTITIONS, history)
    tail.start()
    load.start()
    gaps_s = []
    try:
        for number in range(rounds):
            await_acknowledged(history, 150)
            load.gaps.begin()
            hurt_leader(stage, fault, topic, number % PARTITIONS, load, takes_over=takes_over)
            gaps_s.append(load.gaps.longest_s())
        await_acknowledged(history, 150)
    finally:
        stage.net.heal_all()
    load.stop()
    for message in read_all(servers, topic, PARTITIONS):
        record_poll(history, "librdkafka", message)
    tail.drain(end_offsets(history))
    assert tail.errors == []
    assert invented(history) == []
    compare_replicas(stage, topic)
    return verdict(history, rounds, gaps_s)


def hurt_leader(
    stage: Stage, fault: Fault, topic: str, partition: int, load: ProduceLoad, *, takes_over: bool
) -> None:
    before = await_told(stage.rig.addresses(), topic, is_whole)[partition]
    steps = fault(stage, before.leader)
    next(steps)
    if takes_over:
        await_take_over(stage, topic, before, load)
    else:
        time.sleep(SPELL_S)  # the fault itself: it has no end that could be waited for
    assert next(steps, None) is None
    stage.net.heal_all()
    await_told(stage.rig.addresses(), topic, is_whole)


def await_take_over(stage: Stage, topic: str, before: Led, load: ProduceLoad) -> None:
    def is_taken_over(led: dict[int, Led]) -> bool:
        return bool(led) and all(
            each.leader not in (-1, before.leader) and before.leader not in each.isr
            for each in led.values()
        )

    await_told(stage.rig.addresses(before.leader), topic, is_taken_over)
    heard = [load.gaps.count(each) for each in range(PARTITIONS)]
    until(lambda: all(load.gaps.count(each) > heard[each] for each in range(PARTITIONS)), WAIT_S)


def compare_replicas(stage: Stage, topic: str) -> None:
    await_told(stage.rig.addresses(), topic, is_whole)
    for partition in range(PARTITIONS):
        held = {node: held_by(stage.rig.nodes[node], topic, partition) for node in NODES}
        assert held[1], f"{topic}-{partition} is empty"
        assert held[1] == held[2] == held[3], f"replicas of {topic}-{partition} differ"


def held_by(node: RigNode, topic: str, partition: int) -> list[tuple[int, int, str]]:
    records = []
    for log in segments(node.data, topic, partition):
        content = log.read_bytes()
        for position, header in batches(content):
            batch = memoryview(content)[position : position + header.size_bytes]
            for record in read_records(batch):
                value = value_of(bytes(record.value or b""))
                records.append((record.offset, header.partition_leader_epoch, value))
    return records


ROWS: dict[str, tuple[Fault, bool]] = {
    "C1-kill": (killed, True),
    "C2-kill-all": (all_killed, False),
    "S1-sleep": (asleep, True),
    "N1-isolated": (isolated, True),
    "N2-deaf": (deaf, True),
    "N2-mute": (mute, True),
    "N3-half-cut": (half_cut, False),
    "N4-clients-cut": (clients_cut, False),
    "N5-swizzled": (swizzled, False),
    "N6-loss-10": (lossy(10), False),
    "N6-loss-30": (lossy(30), False),
    "N6-256-kbit": (narrow, False),
    "N7-reset": (reset, False),
}


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_a_row(stage: Stage, capsys: pytest.CaptureFixture[str], row: str) -> None:
    fault, takes_over = ROWS[row]
    line = rounds_of(stage, fault, ROUNDS, row.lower(), takes_over=takes_over)
    tell(capsys, row, line)


@pytest.mark.long
def test_an_isolated_leader(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    line = rounds_of(stage, isolated, 1, "isolated-once", takes_over=True)
    tell(capsys, "N1-isolated", line)
