"""Three nodes, each in a network namespace of its own, and a run of rounds in which one is hurt.

Owns: the cluster, the loads and the judgement of a run. Must not know: what a fault does
(`network_faults`), which rows there are.

Every node is a broker and a controller; three replicas, two in sync at least. An idempotent
librdkafka producer writes to every partition from outside while the victim is hurt, round after
round: the leader of a partition, a follower that leads nothing, or the active controller. One
consumer reads along, another everything in the end, and the files of all replicas are compared.
Where the controller is the victim, topics are created through every broker all the while: those
that were granted are there in the end under their ids, with all their partitions, and the metadata
logs of all nodes hold the same up to the high watermark.
"""

import contextlib
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import NewTopic
from tests.conftest import not_run
from tests.faults.load import PADDING, ProduceLoad, TailReader, await_acknowledged, record_poll
from tests.faults.networks import Network, network
from tests.faults.node_rig import REPLICATED, KafkaRig, NodeRig, RigNode
from tests.faults.quorum_view import (
    active_controller,
    await_other_controller,
    await_quorum_whole,
    compare_metadata,
    describe,
)
from tests.faults.readers import end_offsets, held_by, invented
from tests.faults.replicas import WAIT_S, Led, await_told, is_whole
from tests.faults.test_replication import FAST, GAP_S_MAX, IMPATIENCE, verdict
from tests.faults.topic_load import TopicLoad, check, check_whole
from tests.interop import java_tools
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.nodes import until

from headrace.testing.history import History

NODES = (1, 2, 3)
PARTITIONS = 3
TOPIC_PARTITIONS = 2
TOPICS_PER_ROUND = 4
LEADER, FOLLOWER, CONTROLLER = "leader", "follower", "controller"
SPELL_S = 6.0
"""How long a fault lasts that takes no leadership away."""
SETTINGS = {
    **REPLICATED,
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "3000",
    "connections.max.idle.ms": "20000",
}
SHORT = {key: str(value) for key, value in FAST.items()}
"""Ours alone: three JVMs on two cores would fence each other."""
SPELL_GAP_S_MAX = 120.0
"""Of faults that last, and of the control: nothing is promised."""
PATIENT = {**IMPATIENCE, "socket.connection.setup.timeout.ms": 2_000}
NET_PORT, CONTROLLER_PORT = 9092, 9093
EPOCHS_MAX = 3
"""New epochs of the quorum in one spell with a connected majority: more is flapping."""


@dataclass(slots=True)
class Stage:
    net: Network
    rig: NodeRig
    chance: random.Random
    is_control: bool
    """The real Kafka is on it: one round a row."""
    kind: str = LEADER
    """Who is hurt in the run under way."""
    notes: list[str] = field(default_factory=list)
    """What a fault has to tell of the run under way."""
    topic: str = ""
    """Of the run under way."""

    def others(self, node: int) -> list[int]:
        return [each for each in NODES if each != node]

    @property
    def port(self) -> int:
        """Where others fetch from the victim."""
        return CONTROLLER_PORT if self.kind == CONTROLLER else NET_PORT


Fault = Callable[[Stage, int], Generator[None, None, None]]
"""Hurts the node, yields while it is hurt, heals, and says whether it struck."""


@dataclass(frozen=True, slots=True)
class Row:
    fault: Fault
    takes_over: bool = False
    """Others are to take over what the victim led."""
    spell_s: float = SPELL_S
    keeps_epoch: bool = False
    """The quorum may not flap."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Of the topic."""


@contextlib.contextmanager
def stage_of(base: Path, target: str) -> Iterator[Stage]:
    is_control = target == "kafka"
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


# -- a run -----------------------------------------------------------------------------------------


def rounds_of(stage: Stage, row: Row, rounds: int, name: str, kind: str) -> str:
    """The line of counts."""
    stage.topic, stage.kind = name, kind
    stage.notes.clear()
    servers = stage.rig.bootstrap_servers
    create(stage, row.configs)
    history = History()
    load = ProduceLoad(
        servers, name, PARTITIONS, history, idempotent=True, pause_s=0.004, settings=PATIENT
    )
    reader = ControlTail if stage.is_control else TailReader
    tail = reader(servers, name, PARTITIONS, history)
    topics = topic_load(stage) if kind == CONTROLLER else None
    tail.start()
    load.start()
    gaps_s, told = [], ""
    epoch = describe(stage.rig).leader_epoch if topics else 0
    try:
        for number in range(rounds):
            await_acknowledged(history, 150)
            load.gaps.begin()
            hurt(stage, row, number % PARTITIONS, load, topics)
            gaps_s.append(load.gaps.longest_s())
        await_acknowledged(history, 150)
    except BaseException:
        load.abandon()
        tail.close()
        if topics is not None:
            topics.abandon()
        stage.net.heal_all()
        stage.rig.repair()
        raise
    finally:
        stage.net.heal_all()
    load.stop()
    for message in read_all(servers, name, PARTITIONS):
        record_poll(history, "librdkafka", message)
    tail.drain(end_offsets(history))
    assert tail.errors == []
    assert invented(history) == []
    compare_replicas(stage, name)
    if topics is not None:
        told = judge_topics(stage, topics, epoch, rounds if row.keeps_epoch else None)
    has_bound = row.takes_over and not stage.is_control
    gap_s_max = GAP_S_MAX + row.spell_s - SPELL_S if has_bound else SPELL_GAP_S_MAX
    return "; ".join([verdict(history, rounds, gaps_s, gap_s_max) + told, *stage.notes])


def create(stage: Stage, configs: Mapping[str, str]) -> None:
    """A follower that leads nothing is the last of every partition's replicas."""
    admin = admin_of(stage.rig.bootstrap_servers)
    if stage.kind == FOLLOWER:
        assignment = [[1, 2, 3], [2, 1, 3], [1, 2, 3]]
        new = NewTopic(stage.topic, PARTITIONS, replica_assignment=assignment)
    else:
        new = NewTopic(stage.topic, PARTITIONS, replication_factor=3, config=dict(configs))
    admin.create_topics([new])[stage.topic].result(TIMEOUT_S)
    await_told(stage.rig.addresses(), stage.topic, is_whole)


def topic_load(stage: Stage) -> TopicLoad:
    """Names as long as a record's padding, so that a line can tell them from what frames them."""
    topics = TopicLoad(
        stage.rig.bootstrap_servers,
        f"made-{stage.topic}",
        partitions=TOPIC_PARTITIONS,
        padding=PADDING[:100],
        pause_s=0.5,
        patience_s=150.0,
    )
    topics.start()
    return topics


def judge_topics(stage: Stage, topics: TopicLoad, epoch: int, spells: int | None) -> str:
    topics.stop()
    assert topics.errors == []
    brokers = stage.rig.addresses()
    check(topics.outcomes, brokers, f"made-{stage.topic}", patience_s=60.0)
    check_whole(topics.outcomes, brokers, TOPIC_PARTITIONS)
    quorum = await_quorum_whole(stage.rig)
    batches = compare_metadata(stage.rig.nodes.values(), quorum.high_watermark)
    epochs = quorum.leader_epoch - epoch
    if spells is not None:
        assert epochs <= spells * EPOCHS_MAX, f"{epochs} new epochs in {spells} spells"
    names = [*topics.outcomes.granted, *topics.outcomes.found]
    admin = admin_of(stage.rig.bootstrap_servers)
    for each in admin.delete_topics(names, operation_timeout=TIMEOUT_S).values():
        each.result(2 * TIMEOUT_S)
    return (
        f"; {len(topics.outcomes.granted)} topics granted, {len(topics.outcomes.found)} found on "
        f"asking again, 0 lost, 0 doubled, 0 half made; {batches} batches of metadata the same "
        f"on all; {epochs} new epochs"
    )


def hurt(
    stage: Stage, row: Row, partition: int, load: ProduceLoad, topics: TopicLoad | None
) -> None:
    before = await_told(stage.rig.addresses(), stage.topic, is_whole)
    victim = victim_of(stage, before, partition)
    if topics is not None:
        topics.wait_for(TOPICS_PER_ROUND)
    steps = row.fault(stage, victim)
    try:
        next(steps)
        if row.takes_over:
            await_without(stage, victim, before, load, topics)
        else:
            time.sleep(row.spell_s)  # the fault itself: it has no end that could be waited for
        assert next(steps, None) is None
    finally:
        steps.close()
    stage.net.heal_all()
    try:
        await_told(stage.rig.addresses(), stage.topic, is_whole)
    except AssertionError as error:
        dead = [node for node in NODES if not stage.rig.is_alive(node)]
        logs = "".join(stage.rig.nodes[node].log_text()[-2_000:] for node in dead)
        raise AssertionError(f"{error}; dead: {dead} {logs}") from error
    await_all_acknowledged(load)
    if topics is not None:
        topics.wait_for(TOPICS_PER_ROUND, 150.0)


def victim_of(stage: Stage, before: dict[int, Led], partition: int) -> int:
    if stage.kind == CONTROLLER:
        return active_controller(stage.rig)
    if stage.kind == LEADER:
        return before[partition].leader
    (victim,) = set(NODES) - {each.leader for each in before.values()}
    return victim


def await_all_acknowledged(load: ProduceLoad) -> None:
    """Every partition, from now on: what it waited belongs to this round."""
    heard = [load.gaps.count(each) for each in range(PARTITIONS)]
    until(lambda: all(load.gaps.count(each) > heard[each] for each in range(PARTITIONS)), WAIT_S)


def await_without(
    stage: Stage,
    victim: int,
    before: dict[int, Led],
    load: ProduceLoad,
    topics: TopicLoad | None,
) -> None:
    """Until others do what it did, and acknowledge without it."""

    def is_without(led: dict[int, Led]) -> bool:
        return bool(led) and all(
            each.leader not in (-1, victim) and victim not in each.isr for each in led.values()
        )

    after = await_told(stage.rig.addresses(victim), stage.topic, is_without)
    if stage.kind == FOLLOWER:
        assert {i: led.leader for i, led in after.items()} == {
            i: led.leader for i, led in before.items()
        }, "a follower's end moved a leadership"
    if topics is not None:
        await_other_controller(stage.rig, victim)
        topics.wait_for(TOPICS_PER_ROUND)
    # Counted from now on: these acknowledgements come from whoever leads without it.
    await_all_acknowledged(load)


def compare_replicas(stage: Stage, topic: str) -> None:
    await_told(stage.rig.addresses(), topic, is_whole)
    for partition in range(PARTITIONS):
        held = {node: held_by(stage.rig.nodes[node], topic, partition) for node in NODES}
        assert held[1], f"{topic}-{partition} is empty"
        assert held[1] == held[2] == held[3], f"replicas of {topic}-{partition} differ"
