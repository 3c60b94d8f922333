"""Leaders behind a network that is cut, deaf, mute, lossy or slow, under a load of acks=all.

Three brokers, each in a network namespace of its own, every one a controller too; three replicas,
two in sync at least. An idempotent librdkafka producer writes to every partition from outside while
the leader of one is hurt, round after round; one consumer reads along, another everything in the
end, and the files of all replicas are compared. The rows have the names of docs/TESTING.md.

A round whose fault struck nothing, or after which nobody else took over where somebody should, is
void, and fails. Each run prints one line of counts. `HEADRACE_REPLICATION_ROUNDS` says how many
rounds a long row has; N1, a leader that is cut off, has 20 at least.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from tests.conftest import not_run
from tests.faults.load import ProduceLoad, TailReader, await_acknowledged, record_poll, value_of
from tests.faults.networks import CLIENT, Network, network
from tests.faults.node_rig import REPLICATED, KafkaRig, NodeRig, RigNode
from tests.faults.readers import batches, end_offsets, invented, segments
from tests.faults.replicas import WAIT_S, Led, await_told, is_whole
from tests.faults.test_replication import FAST, GAP_S_MAX, IMPATIENCE, tell, verdict
from tests.faults.topic_load import open_connection
from tests.interop import java_tools
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.conftest import TARGETS
from tests.interop.nodes import until

from headrace.testing.history import History
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.kafka.records import read_records

NODES = (1, 2, 3)
PARTITIONS = 3
ROUNDS = int(os.environ.get("HEADRACE_REPLICATION_ROUNDS", "5"))
ROUNDS_OF = {"N1-isolated": max(ROUNDS, 20)}
"""Rows with more of them: a leader that is cut off and writes on is what replication is for."""
SYNCS = 6
"""At so many syncs, one after the other, a starting broker is killed."""
SPELL_S = 6.0
"""How long a fault lasts that takes no leadership away."""
SETTINGS = {
    **REPLICATED,
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "3000",
}
SHORT = {key: str(value) for key, value in FAST.items()}
"""Ours alone: three JVMs on two cores would fence each other."""
SPELL_GAP_S_MAX = 60.0
"""Of faults that last, and of the control: nothing is promised."""
PATIENT = {**IMPATIENCE, "socket.connection.setup.timeout.ms": 2_000}
NET_PORT, CONTROLLER_PORT, PROXY_PORT = 9092, 9093, 9191
FLIPS = 5


@dataclass(slots=True)
class Stage:
    net: Network
    rig: NodeRig
    chance: random.Random
    is_control: bool
    """The real Kafka is on it: one round a row."""
    topic: str = ""
    """Of the run under way."""

    def others(self, node: int) -> list[int]:
        return [each for each in NODES if each != node]


@pytest.fixture(scope="module", params=TARGETS)
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    is_control = request.param == "kafka"
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
        if is_control:
            try:
                java_tools.prepare()
            except java_tools.JavaMissingError as missing:
                not_run(str(missing))
        rig = KafkaRig(nodes, SETTINGS) if is_control else NodeRig(nodes, SETTINGS | SHORT)
        with rig:
            yield Stage(net, rig, random.Random(7), is_control)


class ControlTail(TailReader):
    """Without the watermarks that librdkafka keeps: those of Kafka go back with a new leader, while
    records that were fetched before are still in its queue."""

    def _known_ends(self, partitions: set[int]) -> dict[int, int]:  # noqa: ARG002
        return {}


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


def killed_while_removed(stage: Stage, leader: int) -> Iterator[None]:
    """It dies while its replicas are taken from it, and gets them back afterwards."""
    stage.rig.kill(leader)
    others = stage.others(leader)
    reassign(stage, others[0], others)
    yield
    stage.rig.start(leader)
    reassign(stage, others[0], list(NODES))


def reassign(stage: Stage, asked: int, replicas: list[int]) -> None:
    assert stage.topic
    wanted = [
        ReassignablePartition(partition_index=index, replicas=replicas)
        for index in range(PARTITIONS)
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=stage.topic, partitions=wanted)], timeout_ms=10_000
    )
    deadline_s = time.monotonic() + WAIT_S
    while True:
        connection = open_connection(stage.rig.nodes[asked].listen)
        try:
            answer = connection.call(request, AlterPartitionReassignmentsResponse)
        finally:
            connection.close()
        rows = [row for topic in answer.responses for row in topic.partitions]
        if not answer.error_code and all(not row.error_code for row in rows):
            return
        assert time.monotonic() < deadline_s, answer
        time.sleep(0.1)


def killed_at_a_sync(stage: Stage, leader: int) -> Iterator[None]:
    """kill -9 at the N-th sync after a start, N grows: recovery is interrupted too."""
    need("strace")
    stage.rig.kill(leader)
    node = stage.rig.nodes[leader]
    prefix = node.prefix
    for count in range(1, 1 + SYNCS):
        words = ["strace", "-f", "-qq", "-o", str(node.data / "strace.out")]
        words += ["-e", "trace=fdatasync,fsync"]
        words += ["-e", f"inject=fdatasync,fsync:signal=KILL:when={count}"]
        node.prefix = [*prefix, *words]
        stage.rig.launch(node)
        node.prefix = prefix
        assert node.process is not None
        try:
            node.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(node.process.pid, signal.SIGKILL)
            pytest.fail(f"void: it did not die at sync {count}")
        assert "killed by SIGKILL" in (node.data / "strace.out").read_text()
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
    assert stage.net.held_back(leader) > 0, "void: no packet had to wait"


def reset(stage: Stage, leader: int) -> Iterator[None]:
    stage.net.reset(leader)
    yield
    assert stage.net.struck(leader) > 0, "void: no packet was struck"


def corrupted(stage: Stage, leader: int) -> Iterator[None]:
    """What the followers hear of the leader has flipped bytes in its records."""
    proxies = []
    counts = []
    for follower in stage.others(leader):
        count = stage.rig.nodes[follower].data / "flips"
        count.unlink(missing_ok=True)
        words = [sys.executable, str(Path(__file__).with_name("corrupting_proxy.py"))]
        words += [str(PROXY_PORT), stage.net.address(leader), str(NET_PORT), "7", str(count)]
        proxies.append(subprocess.Popen([*stage.net.prefix(follower), *words]))
        counts.append(count)
    try:
        for follower, count in zip(stage.others(leader), counts, strict=True):
            until(count.exists)
            # Connections that stand are not led anywhere: they end first.
            stage.net.reset(follower)
            time.sleep(1.0)
            stage.net.lead_through(follower, leader, NET_PORT, PROXY_PORT, 7)
        until(lambda: sum(int(count.read_text() or 0) for count in counts) >= FLIPS, WAIT_S)
        yield
    finally:
        stage.net.heal_all()
        for proxy in proxies:
            proxy.kill()
            proxy.wait()


def slow_disk(stage: Stage, leader: int) -> Iterator[None]:
    """Every sync of the leader takes 300 ms longer."""
    need("strace")
    process = stage.rig.nodes[leader].process
    assert process is not None
    out = stage.rig.nodes[leader].data / "slow.out"
    words = ["strace", "-f", "-qq", "-p", str(process.pid), "-o", str(out)]
    words += ["-e", "trace=fdatasync,fsync"]
    words += ["-e", "inject=fdatasync,fsync:delay_enter=300000"]
    tracer = subprocess.Popen(words)
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait(WAIT_S)
    assert "DELAYED" in out.read_text(), "void: no sync was slow"


def need(program: str) -> None:
    if shutil.which(program) is None:
        not_run(f"{program} is not installed: apt-get install {program}")


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
    stage.topic = topic
    admin = admin_of(servers)
    new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=3)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    await_told(stage.rig.addresses(), topic, is_whole)
    history = History()
    load = ProduceLoad(
        servers, topic, PARTITIONS, history, idempotent=True, pause_s=0.004, settings=PATIENT
    )
    reader = ControlTail if stage.is_control else TailReader
    tail = reader(servers, topic, PARTITIONS, history)
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
    has_bound = takes_over and not stage.is_control
    gap_s_max = GAP_S_MAX if has_bound else SPELL_GAP_S_MAX
    return verdict(history, rounds, gaps_s, gap_s_max)


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
    try:
        await_told(stage.rig.addresses(), topic, is_whole)
    except AssertionError as error:
        dead = [node for node in NODES if not stage.rig.is_alive(node)]
        logs = "".join(stage.rig.nodes[node].log_text()[-2_000:] for node in dead)
        raise AssertionError(f"{error}; dead: {dead} {logs}") from error
    await_all_acknowledged(load)


def await_all_acknowledged(load: ProduceLoad) -> None:
    """Every partition, from now on: what it waited belongs to this round."""
    heard = [load.gaps.count(each) for each in range(PARTITIONS)]
    until(lambda: all(load.gaps.count(each) > heard[each] for each in range(PARTITIONS)), WAIT_S)


def await_take_over(stage: Stage, topic: str, before: Led, load: ProduceLoad) -> None:
    def is_taken_over(led: dict[int, Led]) -> bool:
        return bool(led) and all(
            each.leader not in (-1, before.leader) and before.leader not in each.isr
            for each in led.values()
        )

    await_told(stage.rig.addresses(before.leader), topic, is_taken_over)
    # Counted from now on: these acknowledgements come from whoever leads without it.
    await_all_acknowledged(load)


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
    "C3-kill-at-a-sync": (killed_at_a_sync, True),
    "M1-reassigned": (killed_while_removed, True),
    "S1-sleep": (asleep, True),
    "W3-slow-disk": (slow_disk, False),
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
    "N8-corrupted": (corrupted, False),
}


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_a_row(stage: Stage, capsys: pytest.CaptureFixture[str], row: str) -> None:
    fault, takes_over = ROWS[row]
    rounds = 1 if stage.is_control else ROUNDS_OF.get(row, ROUNDS)
    line = rounds_of(stage, fault, rounds, row.lower(), takes_over=takes_over)
    tell(capsys, f"{row}, {'the real Kafka' if stage.is_control else 'headrace'}", line)
