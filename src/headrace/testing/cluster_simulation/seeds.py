"""One seed, one life of a cluster: a beginning, bad times, good times, and a last reading.

Owns: what a seed means, the phases, the last reading. Must not know: the rules of every event
(`truth` does).
"""

import random
from dataclasses import dataclass, field
from typing import Any

from headrace.testing.cluster_simulation.clients import Consumer, Producer
from headrace.testing.cluster_simulation.committers import Committer, OffsetReader
from headrace.testing.cluster_simulation.faults import Faults
from headrace.testing.cluster_simulation.operators import Operator
from headrace.testing.cluster_simulation.transaction_rules import judge, judge_offset
from headrace.testing.cluster_simulation.transactors import CommittedReader, Fate, Transactor
from headrace.testing.cluster_simulation.world import World
from headrace.testing.quorum.network import Weather
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.kafka.record_batch import BatchHeader
from headrace.wire.kafka.records import read_batches, read_records

EVENTS_MIN = 2_000
START_MS_MAX = 20_000
WARM_UP_MS = 500
"""In which coordinators get their topics, before it is hard."""
RECOVERY_MS_MAX = 60_000
READ_BYTES_MAX = 1 << 20

Key = tuple[bytes, int]
Batches = list[tuple[BatchHeader, bytes | memoryview]]


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    event_count: int
    simulated_ms: int
    acked_count: int
    read_count: int
    committed_count: int
    election_count: int
    transaction_count: int
    """Those that were committed or aborted for certain."""
    offset_count: int
    """Commits of a group's offset that were acknowledged."""
    faults: dict[str, int] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)


class FailedSeed(AssertionError):
    def __init__(self, seed: int, violation: Violation, event_count: int) -> None:
        super().__init__(
            f"seed {seed} breaks {violation} after {event_count} events; "
            f"again: headrace.testing.cluster_simulation.seeds.run({seed})"
        )
        self.seed = seed
        self.rule = violation.rule
        self.event_count = event_count


def run(seed: int, event_count: int = EVENTS_MIN) -> Outcome:
    """A whole life; raises `FailedSeed`."""
    life = Life(seed)
    try:
        return life.live(event_count)
    except Violation as violation:
        raise FailedSeed(seed, violation, life.world.event_count) from violation


class Life:
    def __init__(self, seed: int) -> None:
        dice = random.Random(seed * 6_007 + 5)
        self.weather = Weather(
            loss=dice.choice((0.0, 0.0, 0.01, 0.05)),
            straggling=dice.choice((0.0, 0.0, 0.01)),
            delay_ms_max=dice.choice((2, 10, 40)),
            refusing=dice.choice((0.0, 0.7, 1.0)),
        )
        has_operator = dice.random() < 0.5
        broker_count = dice.choice((3, 4, 4, 5) if has_operator else (3, 3, 3, 4))
        self.world = World(
            seed,
            broker_count=broker_count,
            voter_count=dice.choice((1, 1, 3)),
        )
        self.partition_count = dice.choice((1, 1, 2))
        self.min_insync = dice.choice((2, 2, 2, 1))
        self.gap_ms = dice.choice((20, 60, 150))
        fault_gap_ms = dice.choice((400, 800, 1_500))
        self.faults = Faults(self.world, fault_gap_ms, min_insync=self.min_insync)
        self.operator: Operator | None = None
        if has_operator:
            self.operator = Operator(self.world, 40, dice.choice((400, 1_000, 2_000)))
            self.faults.operator = self.operator
        self.committer: Committer | None = None
        if dice.random() < 0.4:
            self.committer = Committer(self.world, 41, "t", self.gap_ms)
        self.acks_one = dice.random() < 0.3
        self.transactor_count = dice.choice((0, 0, 0, 1, 2, 2))
        self.bumps = [dice.random() < 0.6 for _ in range(self.transactor_count)]
        self.transactors: list[Transactor] = []
        self.readers: dict[Key, CommittedReader] = {}
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []

    def live(self, event_count: int) -> Outcome:
        world = self.world
        world.start_all()
        if not world.run_until(self._all_serve, START_MS_MAX):
            raise Violation("live", "the cluster does not start")
        keys = self._create("t", self.partition_count)
        self._employ(keys)
        if self.transactors or self.committer is not None:
            world.run_for(WARM_UP_MS)
        world.network.weather = self.weather
        self.faults.start()
        end = world.event_count + event_count
        while world.event_count < end:
            world.run_event()
        self.faults.end()
        self._recover(keys)
        self._read_all(keys)
        return self.outcome()

    def outcome(self) -> Outcome:
        world, truth = self.world, self.world.truth
        return Outcome(
            world.seed,
            world.event_count,
            world.now_ms,
            sum(len(producer.acked) for producer in self.producers),
            sum(consumer.read_count for consumer in self.consumers),
            sum(each.end for each in truth.committed.values()),
            truth.election_count,
            sum(
                each.fate in (Fate.COMMITTED, Fate.ABORTED)
                for transactor in self.transactors
                for each in transactor.transactions
            ),
            0 if self.committer is None else self.committer.acknowledged_count,
            self.faults.counts,
            {} if self.operator is None else self.operator.counts,
        )

    def _all_serve(self) -> bool:
        return all(node.is_serving for node in self.world.nodes.values())

    def _create(self, name: str, partition_count: int) -> list[Key]:
        world = self.world
        broker = world.nodes[1].assembled.broker
        assert broker is not None
        configs = {
            "min.insync.replicas": str(self.min_insync),
            "internal.segment.bytes": "4000",
        }
        topic = CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=3,
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )
        answers: list[Any] = []
        request = CreateTopicsRequest(topics=[topic], timeout_ms=2_000)
        broker.controller.handle(request, 7, "User:ANONYMOUS").then(
            lambda settled: answers.append(settled.value())
        )
        if not world.run_until(lambda: bool(answers), START_MS_MAX):
            raise Violation("live", "no topic")
        assert answers[0].topics[0].error_code == 0, answers
        topic_id = bytes(answers[0].topics[0].topic_id)
        return [(topic_id, index) for index in range(partition_count)]

    def _employ(self, keys: list[Key]) -> None:
        world = self.world
        self.producers = [Producer(world, 1, keys, -1, self.gap_ms)]
        if self.acks_one:
            self.producers.append(Producer(world, 2, keys, 1, 2 * self.gap_ms))
        else:
            self.producers.append(Producer(world, 2, keys, -1, self.gap_ms))
        self.consumers = [
            Consumer(world, 10 + index, key, "t", committed=index % 2 == 1)
            for index, key in enumerate(keys)
        ]
        if self.transactor_count:
            self.readers = {
                key: CommittedReader(world, 30 + index, key) for index, key in enumerate(keys)
            }
            self.transactors = [
                Transactor(world, 20 + number, self.readers, "t", self.gap_ms, bumps=bumps)
                for number, bumps in enumerate(self.bumps)
            ]
        readers = self.readers.values()
        others = [each for each in (self.committer, self.operator) if each is not None]
        for client in (*self.producers, *self.consumers, *self.transactors, *readers, *others):
            client.start()

    # -- the end -------------------------------------------------------------------------------

    def _recover(self, keys: list[Key]) -> None:
        world = self.world
        if not world.run_until(self._all_serve, RECOVERY_MS_MAX):
            raise Violation("live", "not all serve again")
        others = [each for each in (self.committer, self.operator) if each is not None]
        for client in (*self.producers, *self.transactors, *others):
            client.is_stopped = True

        def is_at_rest() -> bool:
            if any(producer.waiting_count for producer in self.producers):
                return False
            if not all(transactor.is_idle for transactor in self.transactors):
                return False
            if self.committer is not None and not self.committer.is_idle:
                return False
            if self._is_any_moving():
                return False
            if any(
                reader.position < world.truth.of(key).end for key, reader in self.readers.items()
            ):
                return False
            return all(self._is_whole(key) for key in keys) and all(
                consumer.position >= world.truth.of(key).end
                for consumer, key in zip(self.consumers, keys, strict=True)
            )

        if not world.run_until(is_at_rest, RECOVERY_MS_MAX):
            raise Violation("live", f"no rest: {self._told(keys)}")

    def _is_any_moving(self) -> bool:
        """Also of coordinators."""
        image = self.world.image
        assert image is not None
        return any(part.is_moving for t in image.topics_by_id.values() for part in t.partitions)

    def _is_whole(self, key: Key) -> bool:
        image = self.world.image
        assert image is not None
        described = image.topics_by_id[key[0]].partitions[key[1]]
        if len(described.isr) < len(described.replicas) or described.leader < 0:
            return False
        ends = set()
        for replica in described.replicas:
            partition = self._partition(replica, key)
            if partition is None:
                return False
            ends |= {partition.log.log_end_offset, partition.high_watermark}
        return len(ends) == 1

    def _partition(self, node_id: int, key: Key) -> Any:
        broker = self.world.nodes[node_id].assembled.broker
        assert broker is not None
        return broker.partitions.find(*key)

    def _log_told(self, node_id: int, key: Key) -> tuple[Any, ...]:
        found = self._partition(node_id, key)
        if found is None:
            return node_id, "none"
        return node_id, found.log.log_end_offset, found.high_watermark, found.error

    def _told(self, keys: list[Key]) -> str:
        image = self.world.image
        assert image is not None
        told = []
        for key in keys:
            described = image.topics_by_id[key[0]].partitions[key[1]]
            logs = [self._log_told(node, key) for node in described.replicas]
            told.append(f"{described} logs {logs}")
        waiting = [producer.waiting_count for producer in self.producers]
        positions = [consumer.position for consumer in self.consumers]
        return f"{told} waiting {waiting} read to {positions}"

    def _read_all(self, keys: list[Key]) -> None:
        """L1, L3, L7 and L13: every replica, from its first byte to its last. And the offsets of
        groups: L8, L17."""
        image = self.world.image
        assert image is not None
        whole: dict[Key, Batches] = {}
        for key in keys:
            described = image.topics_by_id[key[0]].partitions[key[1]]
            contents = [self._content(self._partition(node, key)) for node in described.replicas]
            held = [[bytes(batch) for _, batch in content] for content in contents]
            if any(each != held[0] for each in held):
                raise Violation("L13", f"{key[1]}: the replicas differ")
            self._judge(key, _values(contents[0]))
            whole[key] = contents[0]
        if self.transactors:
            made = [each for one in self.transactors for each in one.transactions]
            known = judge(whole, made, self.readers)
            offsets = self._read_offsets([each.group for each in self.transactors])
            for transactor in self.transactors:
                judge_offset(transactor.transactions, known, offsets[transactor.group])
        if self.committer is not None:
            told = {each.group: each for each in self.committer.groups}
            for group, found in self._read_offsets(list(told)).items():
                if found not in told[group].allowed:
                    raise Violation("L17", f"{told[group]} is {found} in the end")

    def _read_offsets(self, groups: list[str]) -> dict[str, int]:
        reader = OffsetReader(self.world, 42, "t")
        done: list[bool] = []
        reader.read(groups, lambda: done.append(True))
        if not self.world.run_until(lambda: bool(done), RECOVERY_MS_MAX):
            raise Violation("live", f"offsets of {groups} are not told: {reader.found}")
        return reader.found

    @staticmethod
    def _content(partition: Any) -> Batches:
        batches: Batches = []
        log = partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            region = log.read(offset, READ_BYTES_MAX, log.log_end_offset).region
            batches += read_batches(region.file.read(region.position, region.length))
            offset = batches[-1][0].next_offset
        return batches

    def _judge(self, key: Key, values: dict[int, bytes]) -> None:
        places = {value: offset for offset, value in values.items()}
        if len(places) < len(values):
            raise Violation("L3", f"{key[1]}: a value lies there twice")
        for producer in self.producers:
            if producer.acks != -1:
                continue
            for where, offset, value in producer.acked:
                if where == key and places.get(value, -2) != offset and offset >= 0:
                    raise Violation(
                        "L1", f"{value!r} was acknowledged at {offset}, is {places.get(value)}"
                    )
                if where == key and value not in places:
                    raise Violation("L1", f"{value!r} was acknowledged and is gone")
            order = [places[value] for value in producer.sent[key] if value in places]
            if order != sorted(order):
                raise Violation("L7", f"{key[1]}: producer {producer.client_id} out of order")


def _values(batches: Batches) -> dict[int, bytes]:
    """By offset; without markers."""
    return {
        header.base_offset + index: record.value or b""
        for header, batch in batches
        if not header.is_control
        for index, record in enumerate(read_records(batch))
    }
