"""Random histories of a controller and its brokers; one seed repeats it all.

Owns: which step comes next and what everybody is told. The controller is the real one, with its
sessions and timers; its host is in memory (`memory_host`) and may be replaced by that of another
controller at any moment, with whatever was not committed lost.
"""

from random import Random
from typing import Any

from tests.sim.cluster.checkers import check_decision, partitions_of
from tests.sim.cluster.memory_host import MemoryHost, SharedLog
from tests.sim.cluster.model_broker import ModelBroker, error_of, new_incarnation

from headrace.base.broker_config import BrokerConfig
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.cluster.controller import Controller
from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.quorum.state_machine import NotLeader
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.unregister_broker import UnregisterBrokerRequest

CLUSTER = "simulated"
TOPICS_MAX = 5
STEPS = {
    "heartbeat": 40,
    "commit": 18,
    "read": 18,
    "alter_partition": 20,
    "advance": 12,
    "crash": 3,
    "restart": 6,
    "shut_down": 3,
    "silence": 2,
    "zombie": 2,
    "create": 5,
    "delete": 1,
    "elect": 4,
    "reassign": 4,
    "unclean": 1,
    "unregister": 1,
    "assign": 8,
    "lose_directory": 3,
    "cordon": 3,
    "failover": 2,
}
SESSION_MS, INTERVAL_MS = 3000, 500
SETTLING_ROUNDS_MAX = 60


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.log = SharedLog()
        self.events: list[str] = []
        self.epoch = 0
        self.unclean_topics: set[str] = set()
        self.is_unclean_asked = False
        self.made = 0
        self.counts: dict[str, int] = {}
        broker_count = self.random.randint(1, 6)
        racks = self.random.choice([None, 2, 3])
        self.brokers = [
            ModelBroker(
                broker_id=index,
                rack=None if racks is None else f"rack{index % racks}",
                log_dirs=[self.random.randbytes(16) for _ in range(self.random.choice((1, 2)))],
                incarnation_id=self.random.randbytes(16),
            )
            for index in range(1, broker_count + 1)
        ]
        self.down: set[int] = set()
        self.zombies: list[ModelBroker] = []
        self._lead()
        if self.random.random() < 0.8:
            for _ in range(3):
                for broker in self.brokers:
                    self._settle_broker(broker)
                self.host.commit()
            for _ in range(3):
                self._create()

    # The controller.

    def _lead(self) -> None:
        """A controller becomes active with what is committed."""
        self.epoch += 1
        self.host = MemoryHost(self.log, self.random, self.epoch)
        self.host.on_decided = self._on_decided
        config = BrokerConfig.of(
            {"broker.session.timeout.ms": SESSION_MS, "broker.heartbeat.interval.ms": INTERVAL_MS}
        )
        self.controller = Controller(
            self.host,  # type: ignore[arg-type]
            config,
            self.random,
            self.clock,
            self.timers,
            EventLog(self.events.append, self.clock),
            cluster_id=CLUSTER,
        )
        self.active_since_ms = self.clock.monotonic_ms()
        self.controller.on_active(self.epoch)
        self.host.commit()

    def _on_decided(self, before: ClusterImage, after: ClusterImage, records: list[Any]) -> None:
        allowed = None if self.is_unclean_asked else self.unclean_topics
        check_decision(before, after, records, allowed)
        for record in records:
            kind = type(record).__name__
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def ask(self, request: Message) -> Promise[Any]:
        name = type(request).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        return self.controller.handle(request, request.VERSIONS[1])

    # Steps.

    def step(self) -> None:
        name = self.random.choices(list(STEPS), list(STEPS.values()))[0]
        getattr(self, f"_{name}")()
        self.timers.run_due()

    def _some_broker(self) -> ModelBroker | None:
        up = [each for each in self.brokers if each.broker_id not in self.down]
        return self.random.choice(up) if up else None

    def _heartbeat(self) -> None:
        broker = self._some_broker()
        if broker is not None and not broker.is_silent:
            self._beat(broker)

    def _beat(self, broker: ModelBroker) -> None:
        broker.heard_ms = self.clock.monotonic_ms()
        if broker.is_registered:
            want_fence = not broker.wants_shutdown and self.random.random() < 0.02
            answer = self.ask(broker.heartbeat(want_fence=want_fence))
            answer.then(lambda settled: self._on_heartbeat(broker, settled))
        else:
            answer = self.ask(broker.registration(CLUSTER))
            answer.then(lambda settled: self._on_registered(broker, settled))

    def _on_registered(self, broker: ModelBroker, settled: Promise[Any]) -> None:
        if settled.error is not None:
            assert isinstance(settled.error, NotLeader)
            return
        assert error_of(settled.value()) == 0
        broker.broker_epoch = settled.value().broker_epoch

    def _on_heartbeat(self, broker: ModelBroker, settled: Promise[Any]) -> None:
        if settled.error is not None:
            assert isinstance(settled.error, NotLeader)
            return
        response = settled.value()
        if error_of(response):
            # Unregistered by a person, or replaced by a newer process.
            stale = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
            assert error_of(response) in stale
            return
        if response.should_shut_down:
            assert broker.wants_shutdown
            broker.may_stop = True

    def _commit(self) -> None:
        self.host.commit()

    def _read(self) -> None:
        broker = self._some_broker()
        if broker is not None:
            end = len(self.log.committed)
            behind = end - broker.image.last_offset - 1
            broker.read(self.log, end - self.random.choice([0, 0, 0, behind // 2]))

    def _advance(self) -> None:
        self.timers.advance(self.random.choice([10, 100, 400, 1500]))
        self._check_sessions()

    def _check_sessions(self) -> None:
        """Who was silent for a whole session, under one controller, is fenced."""
        now_ms = self.clock.monotonic_ms()
        for broker in self.brokers:
            known = self.host.state.brokers.get(broker.broker_id)
            if known is None or known.broker_epoch != broker.broker_epoch or known.fenced:
                continue
            heard_ms = max(broker.heard_ms, self.active_since_ms)
            assert now_ms - heard_ms < SESSION_MS + INTERVAL_MS, f"C12 {known}"

    def _crash(self) -> None:
        broker = self._some_broker()
        if broker is not None:
            self.down.add(broker.broker_id)

    def _restart(self) -> None:
        if not self.down:
            return
        broker_id = self.random.choice(sorted(self.down))
        self.down.discard(broker_id)
        index = next(i for i, each in enumerate(self.brokers) if each.broker_id == broker_id)
        before = self.brokers[index]
        self.brokers[index] = new_incarnation(before, self.random, is_clean=before.may_stop)

    def _shut_down(self) -> None:
        broker = self._some_broker()
        if broker is None or not broker.is_registered:
            return
        broker.wants_shutdown = True
        if broker.may_stop:
            self.down.add(broker.broker_id)

    def _silence(self) -> None:
        """A broker that lives and is not heard of, for a while."""
        broker = self._some_broker()
        if broker is not None:
            broker.is_silent = not broker.is_silent

    def _zombie(self) -> None:
        """A process that was replaced goes on asking."""
        broker = self._some_broker()
        if broker is None or not broker.is_registered:
            return
        self.zombies.append(broker)
        index = self.brokers.index(broker)
        self.brokers[index] = new_incarnation(broker, self.random, is_clean=False)

    def _alter_partition(self) -> None:
        pool = [each for each in self.brokers if each.broker_id not in self.down] + self.zombies
        if not pool:
            return
        broker = self.random.choice(pool)
        led = broker.led()
        if not led:
            return
        topic_id, partition = self.random.choice(led)
        registered = self.host.state.brokers.get(broker.broker_id)
        is_stale = registered is None or registered.broker_epoch != broker.broker_epoch
        before = self.host.state.partition(topic_id, partition.index)
        members = broker.some_isr(partition, self.random)
        answer = self.ask(broker.alter_partition(topic_id, partition, members))
        if is_stale and broker.is_registered:
            assert self.host.state.partition(topic_id, partition.index) == before, "C11"
            answer.then(_assert_stale)

    def _create(self) -> None:
        if len(self.host.state.topics_by_name) >= TOPICS_MAX:
            return
        self.made += 1
        topic = CreatableTopic(
            name=f"t{self.made}",
            num_partitions=self.random.randint(1, 4),
            replication_factor=self.random.randint(1, 5),
        )
        self.ask(CreateTopicsRequest(topics=[topic]))

    def _some_topic(self) -> str | None:
        names = sorted(self.host.state.topics_by_name)
        return self.random.choice(names) if names else None

    def _delete(self) -> None:
        name = self._some_topic()
        if name is not None:
            self.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]))

    def _elect(self) -> None:
        name = self._some_topic()
        election_type = 1 if self.random.random() < 0.25 else 0
        asked = None
        if name is not None and self.random.random() < 0.7:
            asked = [TopicPartitions(topic=name, partitions=[0, 1, 0, 9])]
        self.is_unclean_asked = election_type == 1
        self.ask(ElectLeadersRequest(election_type=election_type, topic_partitions=asked))
        self.is_unclean_asked = False

    def _reassign(self) -> None:
        name = self._some_topic()
        if name is None:
            return
        partition = self.random.choice(self.host.state.topics_by_name[name].partitions)
        ids = [each.broker_id for each in self.brokers]
        replicas: list[int] | None = self.random.sample(ids, self.random.randint(1, len(ids)))
        if self.random.random() < 0.25:
            replicas = None
        wanted = ReassignablePartition(partition_index=partition.index, replicas=replicas)
        topic = ReassignableTopic(name=name, partitions=[wanted])
        self.ask(AlterPartitionReassignmentsRequest(topics=[topic]))

    def _cordon(self) -> None:
        """All directories, or one, or none any more; told with the next heartbeat."""
        broker = self._some_broker()
        if broker is None:
            return
        count = self.random.choice((0, 0, 1, len(broker.log_dirs)))
        broker.cordoned_dirs = self.random.sample(broker.log_dirs, count)

    def _unclean(self) -> None:
        name = self._some_topic()
        if name is None:
            return
        self.unclean_topics.add(name)
        config = AlterableConfig(
            name="unclean.leader.election.enable", config_operation=0, value="true"
        )
        resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
        self.ask(IncrementalAlterConfigsRequest(resources=[resource]))

    def _unregister(self) -> None:
        if self.down:
            broker_id = self.random.choice(sorted(self.down))
            self.ask(UnregisterBrokerRequest(broker_id=broker_id))

    def _assign(self) -> None:
        broker = self._some_broker()
        if broker is None or not broker.is_registered:
            return
        held = [
            (topic.topic_id, partition.index)
            for topic, partition in broker.image.partitions()
            if broker.broker_id in partition.replicas
        ]
        if held:
            topic_id, index = self.random.choice(held)
            self.ask(broker.assignment(topic_id, index, self.random.choice(broker.log_dirs)))

    def _lose_directory(self) -> None:
        broker = self._some_broker()
        if broker is not None and len(broker.log_dirs) - len(broker.lost_dirs) > 1:
            broker.lost_dirs = [*broker.lost_dirs, broker.log_dirs[0]]

    def _failover(self) -> None:
        """Another controller leads; the old one is told late, and may still be asked."""
        if self.random.random() < 0.5:
            self.host.commit()
        old_host, old_controller = self.host, self.controller
        old_host.depose()
        refused = old_controller.handle(ElectLeadersRequest(topic_partitions=None), 2)
        assert isinstance(refused.error, NotLeader)
        old_controller.on_inactive()
        self._lead()

    # The end.

    def settle(self) -> None:
        """Everybody comes back and is well: then everything must be served."""
        self.zombies.clear()
        while self.down:
            self._restart()
        for index, broker in enumerate(self.brokers):
            if broker.wants_shutdown or broker.lost_dirs:
                self.brokers[index] = new_incarnation(broker, self.random, is_clean=broker.may_stop)
        for broker in self.brokers:
            broker.is_silent = False
            broker.lost_dirs = []
        for _ in range(SETTLING_ROUNDS_MAX):
            if not self._unserved():
                break
            for broker in self.brokers:
                self._settle_broker(broker)
            self.host.commit()
            self.timers.advance(100)
        assert self._unserved() == []

    def _settle_broker(self, broker: ModelBroker) -> None:
        broker.read(self.log, len(self.log.committed))
        known = broker.image.brokers.get(broker.broker_id)
        if broker.is_registered and known is None:
            # A person unregistered it while it ran: it comes back as a new process.
            index = self.brokers.index(broker)
            self.brokers[index] = broker = new_incarnation(broker, self.random, is_clean=False)
        if broker.is_registered:
            broker.heard_ms = self.clock.monotonic_ms()
            self.ask(broker.heartbeat())
        else:
            self._beat(broker)
        for topic_id, partition in broker.led():
            members = broker.whole_isr(partition)
            if set(members) != set(partition.isr) or partition.leader_recovery_state:
                self.ask(broker.alter_partition(topic_id, partition, members))

    def _unserved(self) -> list[object]:
        """What is not as it should be."""
        state = self.host.state
        wrong: list[object] = []
        for broker in self.brokers:
            known = state.brokers.get(broker.broker_id)
            if known is None or not known.is_usable or known.broker_epoch != broker.broker_epoch:
                wrong.append((broker.broker_id, known))
            broker.read(self.log, len(self.log.committed))
            if self.host.staged_count == 0:
                assert broker.image == state, "a broker sees another cluster"
        for key, partition in partitions_of(state).items():
            is_in_sync = set(partition.isr) == set(partition.replicas)
            if partition.leader == NO_LEADER or not is_in_sync or partition.is_moving:
                wrong.append((key, partition))
        return wrong


def _assert_stale(settled: Promise[Any]) -> None:
    if settled.error is None:
        assert error_of(settled.value()) in (
            ErrorCode.STALE_BROKER_EPOCH,
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ), "C11"
