"""The controller over time: it becomes active, misses brokers, is deposed, and says so."""

from random import Random
from typing import Any

import pytest
from tests.sim.cluster.memory_host import MemoryHost, SharedLog
from tests.unit.cluster.images import LEVELS

from headrace.base.broker_config import BrokerConfig
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.cluster.controller import (
    CONTROLLER_APIS,
    Controller,
    _decision,
    supported_features,
)
from headrace.cluster.image import NO_LEADER, PartitionImage
from headrace.quorum.state_machine import HostOverloaded, NotLeader
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from headrace.wire.kafka.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.unregister_broker import UnregisterBrokerRequest

SESSION_MS, INTERVAL_MS = 3000, 500


class Cluster:
    """One controller after another over one log; everything is committed at once."""

    def __init__(self, **flags: Any) -> None:
        self.flags = {key.replace("_", "."): value for key, value in flags.items()}
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.log = SharedLog()
        self.events: list[str] = []
        self.lead(1)

    def lead(self, epoch: int) -> None:
        random = Random(epoch)
        self.host = MemoryHost(self.log, random, epoch)
        self.controller = Controller(
            self.host,  # type: ignore[arg-type]
            BrokerConfig.of({"broker.session.timeout.ms": SESSION_MS, **self.flags}),
            random,
            self.clock,
            self.timers,
            EventLog(self.events.append, self.clock),
            cluster_id="c",
        )
        self.controller.on_active(epoch)
        self.host.commit()

    def ask(self, request: Any) -> Any:
        promise = self.controller.handle(request, request.VERSIONS[1])
        self.host.commit()
        return promise.value()

    def register(self, broker_id: int, directory: bytes | None = None) -> Any:
        return self.ask(
            BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id="c",
                incarnation_id=Random(f"{broker_id}{self.clock.monotonic_ms()}").randbytes(16),
                features=supported_features(),
                rack=None,
                log_dirs=[directory or bytes([broker_id]) * 16],
            )
        )

    def beat(self, *broker_ids: int, **fields: Any) -> Any:
        response = None
        for broker_id in broker_ids:
            request = BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=self.host.state.brokers[broker_id].broker_epoch,
                current_metadata_offset=self.host.state.last_offset,
                **fields,
            )
            response = self.ask(request)
        return response

    def up(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            assert self.register(broker_id).error_code == 0
        self.beat(*broker_ids)

    def advance(self, delta_ms: int) -> None:
        self.timers.advance(delta_ms)
        self.host.commit()

    @property
    def fenced(self) -> list[int]:
        return [each.broker_id for each in self.host.state.brokers.values() if each.fenced]

    def says(self, event: str) -> bool:
        return any(f"event={event} " in line or f"event={event}\n" in line for line in self.events)


def test_a_new_cluster_gets_its_first_records_from_its_first_controller() -> None:
    cluster = Cluster()
    assert cluster.host.state.features == LEVELS
    assert cluster.controller.is_active
    assert cluster.says("controller_active")
    before = len(cluster.log.committed)
    cluster.lead(2)
    assert len(cluster.log.committed) == before
    assert cluster.controller.epoch == 2


def test_who_is_not_heard_of_is_fenced_and_who_is_heard_of_is_not() -> None:
    cluster = Cluster()
    cluster.up(1, 2)
    for _ in range(6):
        cluster.advance(INTERVAL_MS)
        cluster.beat(1)
    assert cluster.fenced == [2]
    assert cluster.says("broker_fenced")
    cluster.beat(2)
    assert cluster.fenced == []


def test_nobody_is_fenced_before_the_time() -> None:
    cluster = Cluster()
    cluster.up(1)
    cluster.advance(SESSION_MS - 1)
    assert cluster.fenced == []
    cluster.advance(1)
    assert cluster.fenced == [1]


def test_every_broker_gets_a_fresh_session_from_a_new_controller() -> None:
    cluster = Cluster()
    cluster.up(1, 2)
    cluster.advance(SESSION_MS - 100)
    cluster.controller.on_inactive()
    cluster.lead(2)
    cluster.advance(SESSION_MS - 100)
    assert cluster.fenced == []
    cluster.advance(100)
    assert cluster.fenced == [1, 2]


def test_a_controller_that_was_stopped_blames_nobody_for_its_own_silence() -> None:
    cluster = Cluster()
    cluster.up(1)
    # The process is stopped: time goes by, and no timer runs.
    cluster.clock.advance(10 * SESSION_MS)
    cluster.timers.run_due()
    cluster.host.commit()
    assert cluster.fenced == []
    cluster.beat(1)
    cluster.advance(SESSION_MS - 1)
    assert cluster.fenced == []
    cluster.advance(2 * INTERVAL_MS)
    assert cluster.fenced == [1]


def test_a_controller_that_is_always_late_misses_who_is_gone_all_the_same() -> None:
    cluster = Cluster()
    cluster.up(1)
    for _ in range(3):
        cluster.clock.advance(2 * SESSION_MS)
        cluster.timers.run_due()
        cluster.host.commit()
    assert cluster.fenced == [1]


def test_a_broker_that_registers_and_is_never_heard_of_leads_nothing_after_a_session() -> None:
    cluster = Cluster()
    cluster.up(1)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    cluster.ask(CreateTopicsRequest(topics=[topic]))
    cluster.advance(10)
    assert cluster.register(1).error_code == 0
    partition = cluster.host.state.topics_by_name["t"].partitions[0]
    assert (partition.leader, cluster.fenced) == (1, [1])
    cluster.advance(SESSION_MS + INTERVAL_MS)
    assert cluster.host.state.topics_by_name["t"].partitions[0].leader == NO_LEADER


def test_a_second_broker_of_the_same_id_is_refused_while_the_first_lives() -> None:
    cluster = Cluster()
    cluster.up(1)
    cluster.advance(1)
    refused = cluster.register(1, directory=b"other disk------")
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.advance(SESSION_MS)
    assert cluster.register(1, directory=b"other disk------").error_code == 0


def test_an_unregistered_broker_is_not_missed() -> None:
    cluster = Cluster()
    cluster.up(1)
    cluster.ask(UnregisterBrokerRequest(broker_id=1))
    before = len(cluster.log.committed)
    cluster.advance(3 * SESSION_MS)
    assert len(cluster.log.committed) == before


def test_a_deposed_controller_fences_nobody_and_answers_nothing() -> None:
    cluster = Cluster()
    cluster.up(1)
    old = cluster.controller
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    waiting = old.handle(CreateTopicsRequest(topics=[topic]), 7)
    cluster.host.depose()
    old.on_inactive()
    old.on_inactive()
    assert isinstance(waiting.error, NotLeader)
    assert not old.is_active
    assert cluster.timers.pending_count == 0
    refused = old.handle(ElectLeadersRequest(topic_partitions=None), 2)
    assert isinstance(refused.error, NotLeader)
    cluster.lead(2)
    assert "t" not in cluster.host.state.topics_by_name


def test_what_is_announced_is_committed() -> None:
    cluster = Cluster()
    cluster.controller.handle(
        BrokerRegistrationRequest(
            broker_id=1, cluster_id="c", features=supported_features(), rack=None
        ),
        4,
    )
    assert not cluster.says("broker_registered")
    cluster.host.commit()
    assert cluster.says("broker_registered")


def led_by_another(cluster: Cluster) -> PartitionImage:
    """A partition of brokers 1 and 2, in sync, that 2 leads."""
    cluster.up(1, 2)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    cluster.ask(CreateTopicsRequest(topics=[topic]))
    cluster.beat(1, want_fence=True)
    cluster.beat(1)
    image = cluster.host.state
    (partition,) = image.topics_by_name["t"].partitions
    assert partition.leader == 2
    wanted = PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=2), BrokerState(broker_id=1)],
    )
    data = TopicData(topic_id=image.topics_by_name["t"].topic_id, partitions=[wanted])
    request = AlterPartitionRequest(
        broker_id=2, broker_epoch=image.brokers[2].broker_epoch, topics=[data]
    )
    assert cluster.ask(request).topics[0].partitions[0].error_code == 0
    return image.topics_by_name["t"].partitions[0]


@pytest.mark.parametrize(("enabled", "leader"), [("true", 1), ("false", 2)])
def test_preferred_leaders_lead_again_by_themselves(enabled: str, leader: int) -> None:
    cluster = Cluster(
        leader_imbalance_check_interval_seconds="1", auto_leader_rebalance_enable=enabled
    )
    assert set(led_by_another(cluster).isr) == {1, 2}
    cluster.advance(1000)
    assert cluster.host.state.topics_by_name["t"].partitions[0].leader == leader


def test_what_goes_wrong_by_itself_is_said_and_a_fence_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    cluster.up(1)
    overloaded: Promise[Any] = Promise()
    overloaded.reject(HostOverloaded("full"))
    with monkeypatch.context() as patch:
        patch.setattr(cluster.host, "submit", lambda *_, **__: overloaded)
        cluster.advance(SESSION_MS)
    assert cluster.fenced == []
    assert cluster.says("controller_failed")
    cluster.advance(SESSION_MS)
    assert cluster.fenced == [1]


def test_allowing_unclean_elections_holds_them_and_says_so_loudly() -> None:
    cluster = Cluster()
    cluster.up(1, 2)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    cluster.ask(CreateTopicsRequest(topics=[topic]))
    cluster.beat(2, want_fence=True)
    cluster.beat(1, want_fence=True)
    cluster.beat(2)
    partition = cluster.host.state.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert partition.eligible_leader_replicas == (1,)
    assert cluster.says("partitions_offline")
    config = AlterableConfig(
        name="unclean.leader.election.enable", config_operation=0, value="true"
    )
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    cluster.host.commit()
    partition = cluster.host.state.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))
    assert any("level=warning event=unclean_leader_election" in line for line in cluster.events)
    assert cluster.controller.unclean_elections > 0


@pytest.mark.parametrize("api_key", sorted(CONTROLLER_APIS))
def test_every_decision_can_be_found(api_key: int) -> None:
    assert callable(_decision(api_key))
