"""A whole broker under random work, random stops and failing disks; one seed repeats it all.

Owns: which step comes next, how the broker ends, and what is promised after each kind of end:

    clean stop, kill   everything acknowledged is there
    power cut          what was acknowledged after a sync (`log.flush.interval.messages=1`);
                       without that, what lay below the recovery point. What is left is a prefix.
"""

from random import Random
from typing import Any

from tests.sim.broker.actors import Committer, Consumer, Producer, Topic, seen

from headrace.testing import checkers
from headrace.testing.broker import SimulatedBroker, SimulatedClient
from headrace.testing.checkers import Violation
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.testing.history import (
    Commit,
    CommittedOffset,
    Event,
    History,
    Outcome,
    Poll,
    Send,
    TopicPartition,
)
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.wire.kafka.records import read_batches, read_records

TOPICS_MAX = 4
STEPS = {
    "produce": 30,
    "fetch": 20,
    "pump": 25,
    "commit": 6,
    "tick": 6,
    "upkeep": 4,
    "create": 3,
    "delete": 2,
    "delete_records": 2,
    "fault": 2,
}


class World:
    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.is_durable = rng.random() < 0.5
        """Everything is synced before it is acknowledged."""
        self.disk = SimulatedDisk(defer_syncs=True)
        flags: dict[str, Any] = {
            "log_dirs": rng.choice(("/a", "/a,/b")),
            "offsets_topic_num_partitions": "2",
            "log_index_interval_bytes": "300",
        }
        if self.is_durable:
            flags["log_flush_interval_messages"] = "1"
        self.broker = SimulatedBroker(seed=seed, disk=self.disk, **flags)
        self.history = History()
        self.topics: list[Topic] = []
        self.starts: dict[TopicPartition, int] = {}
        self.drain_count = 0
        self.ends: list[str] = []
        self.faults: list[Fault] = []
        self.is_over = False
        """A partition is damaged for good: nobody serves it, and this world has seen enough."""
        self.create("steady")
        self.steady = self.topics[0]
        self.find_coordinator()
        self.producers = [
            Producer(f"p{n}", self.broker, self.history, rng, idempotent=n != 0) for n in range(3)
        ]
        self.consumers = [
            Consumer(f"c{n}", self.broker, self.history, rng, in_session=n == 1) for n in range(2)
        ]
        self.committers = [Committer(f"g{n}", self.broker, self.history) for n in range(2)]
        self.follow()

    # -- steps ---------------------------------------------------------------------------------

    def step(self) -> None:
        name = self.rng.choices(list(STEPS), list(STEPS.values()))[0]
        getattr(self, f"do_{name}")()
        assert not self.broker.failures, self.broker.failures

    def do_produce(self) -> None:
        self.rng.choice(self.producers).send(self.topics)

    def do_fetch(self) -> None:
        self.rng.choice(self.consumers).fetch()

    def do_commit(self) -> None:
        self.rng.choice(self.committers).commit(self.steady)

    def do_pump(self) -> None:
        """Some syncs complete, or none; whoever has an answer takes it."""
        self.disk.complete_syncs(self.rng.choice((0, 1, 2, None)))
        self.broker.timers.run_due()
        self.collect()

    def do_tick(self) -> None:
        self.broker.timers.advance(self.rng.choice((1, 50, 500)))

    def do_upkeep(self) -> None:
        partitions = self.broker.broker.partitions
        for work in (partitions.flush_due, partitions.sweep, partitions.retain):
            if self.rng.random() < 0.7:
                work()
        if self.rng.random() < 0.5:
            partitions.checkpoint()

    def do_create(self) -> None:
        if len(self.topics) < TOPICS_MAX:
            taken = {topic.name for topic in self.topics}
            free = [name for name in ("t0", "t1", "t2", "t3") if name not in taken]
            self.create(self.rng.choice(free))
            self.follow()

    def do_delete(self) -> None:
        if len(self.topics) > 1:
            topic = self.rng.choice(self.topics[1:])
            request = DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=1000)
            response = SimulatedClient(self.broker).ask(request, 5)
            assert response.responses[0].error_code == 0
            self.topics.remove(topic)
            self.follow()

    def do_delete_records(self) -> None:
        topic = self.rng.choice(self.topics)
        index = self.rng.randrange(topic.partition_count)
        partition = self.broker.broker.partitions.find(topic.topic_id, index)
        if partition is None:
            return
        offset = self.rng.randint(partition.log.log_start_offset, partition.high_watermark)
        one = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic.name, partitions=[one])]
        )
        answer = SimulatedClient(self.broker).ask(request, 2).topics[0].partitions[0]
        key = topic.key(index)
        # Refused by a failing disk it may have happened all the same.
        self.starts[key] = max(self.starts.get(key, 0), offset)
        if answer.error_code == 0:
            self.collect()

    def do_fault(self) -> None:
        if self.faults:
            return
        kind = self.rng.choice(("write", "sync", "open", "rename", "read", "sync_directory"))
        part = self.rng.choice(("/t", "/steady-0/", "/b/", "/__consumer_offsets"))
        countdown = self.rng.randint(1, 6)
        self.faults = [self.disk.plan(Fault(kind, path_part=part, countdown=countdown))]

    def create(self, name: str) -> None:
        rng = self.rng
        configs = {
            "internal.segment.bytes": rng.choice(("2000", "5000", "100000")),
            "file.delete.delay.ms": "200",
            "compression.type": rng.choice(("producer", "producer", "zstd")),
        }
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=rng.randint(1, 2),
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
                )
            ],
            timeout_ms=1000,
        )
        created = SimulatedClient(self.broker).ask(request, 7).topics[0]
        assert created.error_code == 0, created.error_message
        self.topics.append(Topic(name, bytes(created.topic_id), created.num_partitions))

    def find_coordinator(self) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g0"])
        response = SimulatedClient(self.broker).ask(request, 4)
        assert response.coordinators[0].error_code == 0

    def follow(self) -> None:
        for consumer in self.consumers:
            consumer.follow(self.topics)

    def collect(self) -> None:
        actors: list[Producer | Consumer | Committer] = [
            *self.producers,
            *self.consumers,
            *self.committers,
        ]
        for actor in actors:
            actor.collect()

    # -- ends ----------------------------------------------------------------------------------

    def end(self) -> None:
        """The process ends in one of three ways and starts again."""
        ways = ["stop", "kill", "crash"]
        if any(fault.fired_count for fault in self.faults):
            # After a failed sync the page cache lies; only the loss of it tells the truth.
            ways = ["crash"] if self.faults[0].kind == "sync" else ["kill", "crash"]
        way = self.rng.choice(ways)
        may_be_damaged = len(ways) == 1
        self.ends.append(way)
        self.disk.heal()
        self.faults = []
        if way == "stop":
            self.broker.stop()
        self.collect()
        promised = self.promised()
        if way != "stop":
            getattr(self.broker, way)()
        self.broker.start()
        if may_be_damaged and self.broker.broker.partitions.offline_names():
            # Written behind bytes whose sync failed: a hole with good batches behind it.
            self.is_over = True
            return
        if way == "crash":
            self.forget_what_was_never_promised(promised)
        for producer in self.producers:
            producer.may_lose_sequence |= way == "crash" and not self.is_durable
            producer.connect(self.broker)
        for consumer in self.consumers:
            consumer.connect(self.broker)
        for committer in self.committers:
            committer.connect(self.broker)
        self.check_topics()

    def promised(self) -> dict[TopicPartition, int]:
        """How far each log is known to be on disk."""
        found: dict[TopicPartition, int] = {}
        for topic in self.topics:
            for index in range(topic.partition_count):
                partition = self.broker.broker.partitions.find(topic.topic_id, index)
                if partition is not None:
                    found[topic.key(index)] = partition.log.recovery_point
        return found

    def forget_what_was_never_promised(self, promised: dict[TopicPartition, int]) -> None:
        """What is behind the new end of a log is lost, and rightly so."""
        ends: dict[TopicPartition, int] = {}
        for topic in self.topics:
            for index in range(topic.partition_count):
                partition = self.broker.broker.partitions.find(topic.topic_id, index)
                assert partition is not None, topic
                key = topic.key(index)
                ends[key] = partition.high_watermark
                assert ends[key] >= promised.get(key, 0), f"{key}: synced and lost"
        kept: list[Event] = []
        for event in self.history.all_events():
            if isinstance(event, Send) and self._is_behind(event, ends):
                assert not self.is_durable, f"acknowledged after a sync and lost: {event}"
                continue
            if isinstance(event, Poll) and event.offset >= ends.get(event.partition, 0):
                continue
            if not self.is_durable and isinstance(event, Commit | CommittedOffset):
                continue  # they were in the page cache alone
            kept.append(event)
        self._replace_history(kept)
        for consumer in self.consumers:
            consumer.step_back(ends)

    @staticmethod
    def _is_behind(send: Send, ends: dict[TopicPartition, int]) -> bool:
        if send.outcome is not Outcome.OK or send.partition not in ends or send.offset is None:
            return False
        return send.offset >= ends[send.partition]

    def _replace_history(self, kept: list[Event]) -> None:
        # Sends still open stay open: their tokens are with the producers.
        with self.history._lock:
            open_sends = set(self.history._open.values())
            self.history._events[:] = [event for event in kept if event not in open_sends]

    def check_topics(self) -> None:
        image = self.broker.broker.image.topics_by_name
        found = {name: t.topic_id for name, t in image.items() if not name.startswith("__")}
        assert found == {topic.name: topic.topic_id for topic in self.topics}

    # -- judging -------------------------------------------------------------------------------

    def check(self) -> list[Violation]:
        """Let everything come to rest, read all there is, and judge."""
        self.disk.heal()
        self.faults = []
        self.broker.settle()
        self.collect()
        if not any(partition.error for partition in self.broker.broker.partitions.all()):
            self.read_offsets()
            self.drain()
        live = {topic.key(i) for topic in self.topics for i in range(topic.partition_count)}
        drained = History(
            event
            for event in self.history.all_events()
            if isinstance(event, Send | Poll) and event.partition in live
        )
        is_drained = self.drain_count > 0
        found = checkers.check_delivery(drained, drained=is_drained, log_start_offsets=self.starts)
        history = self.history
        found += checkers.check_offsets(history)
        # The producer without idempotence never repeats, so its values are unique all the same.
        found += checkers.check_duplicates(history)
        found += checkers.check_aborted_reads(history)
        found += checkers.check_poll_order(history)
        found += checkers.check_send_order(history)
        found += checkers.check_exposure(history)
        found += checkers.check_committed_offsets(history)
        found += checkers.check_bytes(history)
        return found

    def drain(self) -> None:
        """One reader more reads everything."""
        self.drain_count += 1
        name = f"drain{self.drain_count}"
        client = SimulatedClient(self.broker)
        for topic in self.topics:
            for index in range(topic.partition_count):
                self._drain_partition(name, client, topic, index)

    def _drain_partition(
        self, name: str, client: SimulatedClient, topic: Topic, index: int
    ) -> None:
        partition = self.broker.broker.partitions.find(topic.topic_id, index)
        assert partition is not None, topic
        offset = partition.log.log_start_offset
        key = topic.key(index)
        assert offset <= self.starts.get(key, 0), f"{key} starts at {offset}"
        for _ in range(10_000):
            wanted = FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            request = FetchRequest(
                topics=[FetchTopic(topic_id=topic.topic_id, partitions=[wanted])]
            )
            answer = client.ask(request, 16).responses[0].partitions[0]
            assert answer.error_code == 0, f"{topic} {index}: error {answer.error_code}"
            batches = list(read_batches(answer.records or b""))
            if not batches:
                assert offset == answer.high_watermark
                return
            for header, batch in batches:
                assert header.base_offset <= offset
                for record in read_records(batch):
                    if record.offset >= offset:
                        self.history.add(seen(name, key, record, answer))
                offset = header.next_offset
        raise AssertionError("a log without end")

    def read_offsets(self) -> None:
        client = SimulatedClient(self.broker)
        for committer in self.committers:
            assert committer.in_flight_count == 0
            topic = OffsetFetchRequestTopics(name=self.steady.name, partition_indexes=[0])
            group = OffsetFetchRequestGroup(group_id=committer.group, topics=[topic])
            answer = client.ask(OffsetFetchRequest(groups=[group]), 9).groups[0]
            assert answer.error_code == 0
            offset = answer.topics[0].partitions[0].committed_offset
            self.history.add(
                CommittedOffset(committer.group, self.steady.key(0), None if offset < 0 else offset)
            )
