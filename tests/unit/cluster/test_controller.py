"""The controller as a whole: its start, producer ids, brokers, and what a crash leaves."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cluster.images import LEVELS

from headrace.base.limits import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.brokers import decide_broker_heartbeat, decide_register_broker
from headrace.cluster.controller import supported_features
from headrace.cluster.decision import DecisionContext
from headrace.cluster.image import ClusterImage
from headrace.testing.controller import SimulatedController
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest, Feature
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.metadata_records import FeatureLevelRecord


def allocate(cluster: SimulatedController) -> range:
    epoch = cluster.image.brokers[1].broker_epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    response: AllocateProducerIdsResponse = cluster.ask(request)
    assert response.error_code == 0
    first = response.producer_id_start
    return range(first, first + response.producer_id_len)


def create(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ]
    )


def test_a_new_cluster_has_its_features_and_its_broker() -> None:
    cluster = SimulatedController()
    assert cluster.image.features == LEVELS
    broker = cluster.image.brokers[1]
    assert not broker.fenced
    assert broker.endpoints[0].host == "broker1"


def test_a_restart_registers_anew_and_finalizes_nothing_twice() -> None:
    cluster = SimulatedController()
    before = cluster.image.brokers[1]
    cluster.disk.kill()
    cluster.open()
    after = cluster.image.brokers[1]
    assert after.broker_epoch > before.broker_epoch
    assert after.incarnation_id != before.incarnation_id
    assert not after.fenced
    assert cluster.image == cluster.host.state


def test_only_an_unclean_restart_begins_new_leader_epochs() -> None:
    cluster = SimulatedController()
    cluster.ask(create("t", partitions=2))
    cluster.open(unclean=False)
    assert [p.leader_epoch for p in cluster.image.topics_by_name["t"].partitions] == [0, 0]
    cluster.open(unclean=True)
    assert [p.leader_epoch for p in cluster.image.topics_by_name["t"].partitions] == [1, 1]


def test_metadata_of_a_newer_version_is_not_served() -> None:
    cluster = SimulatedController()
    cluster.host.state.replay(FeatureLevelRecord(name="metadata.version", feature_level=31))
    request = BrokerRegistrationRequest(
        broker_id=2, cluster_id="simulated", features=supported_features(), rack=None
    )
    assert cluster.ask(request).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_blocks_of_producer_ids_never_overlap_even_over_restarts() -> None:
    cluster = SimulatedController()
    first, second = allocate(cluster), allocate(cluster)
    cluster.disk.crash(Random(1))
    cluster.open()
    third = allocate(cluster)
    assert (first.start, len(first)) == (0, PRODUCER_ID_BLOCK_SIZE)
    assert second.start == first.stop
    assert third.start == second.stop


def test_producer_ids_for_unknown_or_old_brokers() -> None:
    cluster = SimulatedController()
    epoch = cluster.image.brokers[1].broker_epoch
    for broker, stale, error in (
        (9, -1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (1, -1, ErrorCode.STALE_BROKER_EPOCH),
        (1, epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
    ):
        request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=stale)
        assert cluster.ask(request).error_code == error


def context(cluster: SimulatedController) -> DecisionContext:
    return DecisionContext(cluster.config, cluster.random, 0)


def test_a_broker_that_can_not_serve_the_finalized_level_is_refused() -> None:
    cluster = SimulatedController()
    old = Feature(name="metadata.version", min_supported_version=1, max_supported_version=29)
    request = BrokerRegistrationRequest(broker_id=2, features=[old])
    records, response = decide_register_broker(cluster.image, request, context(cluster))
    assert (records, response.error_code) == ([], ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("offset", "want_fence", "fenced", "written"),
    [(0, False, True, 0), (10**6, False, False, 1), (10**6, True, True, 0)],
)
def test_a_fence_is_lifted_once_the_broker_has_caught_up(
    offset: int, want_fence: bool, fenced: bool, written: int
) -> None:
    cluster = SimulatedController()
    cluster.ask(BrokerRegistrationRequest(broker_id=2, features=supported_features()))
    assert cluster.image.brokers[2].fenced
    request = BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=cluster.image.brokers[2].broker_epoch,
        current_metadata_offset=offset,
        want_fence=want_fence,
    )
    records, response = decide_broker_heartbeat(cluster.image, request, context(cluster))
    assert (response.is_fenced, len(records)) == (fenced, written)


def test_many_requests_share_an_fsync() -> None:
    cluster = SimulatedController(disk=SimulatedDisk(defer_syncs=True))
    before = cluster.commit_count
    promises = [cluster.submit(create(f"t{index}")) for index in range(100)]
    assert not any(promise.settled for promise in promises)
    cluster.disk.complete_syncs(1)
    cluster.disk.complete_syncs(1)
    assert all(promise.settled for promise in promises)
    assert cluster.commit_count - before == 2
    assert len(cluster.image.topics_by_name) == 100


def test_the_answer_comes_after_the_image_has_the_topic() -> None:
    cluster = SimulatedController(disk=SimulatedDisk(defer_syncs=True))
    seen: list[bool] = []
    cluster.submit(create("t")).then(lambda _: seen.append("t" in cluster.image.topics_by_name))
    assert "t" in cluster.host.state.topics_by_name
    assert "t" not in cluster.image.topics_by_name
    cluster.settle()
    assert seen == [True]


NAMES = ("a", "b", "a.b", "a_b", "c", "bad name")
COMMANDS = st.one_of(
    st.builds(
        create, st.sampled_from(NAMES), st.sampled_from(NAMES), partitions=st.integers(-2, 3)
    ),
    st.builds(
        lambda names: DeleteTopicsRequest(topic_names=names), st.lists(st.sampled_from(NAMES))
    ),
    st.builds(
        lambda name, count: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)]
        ),
        st.sampled_from(NAMES),
        st.integers(-1, 6),
    ),
    st.builds(
        lambda name, key, operation, value: IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name=name,
                    configs=[AlterableConfig(name=key, config_operation=operation, value=value)],
                )
            ]
        ),
        st.sampled_from(NAMES),
        st.sampled_from(("retention.ms", "cleanup.policy", "no.such")),
        st.integers(0, 3),
        st.sampled_from(("5", "compact", "delete", "x", None)),
    ),
    st.just(AllocateProducerIdsRequest(broker_id=1)),
)


def check(image: ClusterImage) -> None:
    """What holds of every image."""
    assert sorted(image.topics_by_name) == sorted(t.name for t in image.topics_by_id.values())
    assert image.partition_count == sum(len(t.partitions) for t in image.topics_by_id.values())
    normal = [name.replace(".", "_") for name in image.topics_by_name]
    assert len(set(normal)) == len(normal)
    for topic in image.topics_by_name.values():
        assert topic.partitions
        for index, partition in enumerate(topic.partitions):
            assert partition.index == index
            assert len(set(partition.replicas)) == len(partition.replicas) > 0
            assert partition.leader in partition.isr
            assert set(partition.isr) <= set(partition.replicas)
    for kind, name in image.configs:
        assert kind != 2 or name in image.topics_by_name


@given(
    st.lists(COMMANDS, max_size=25),
    st.sampled_from((None, "crash", "kill")),
    st.integers(0, 2**16),
)
@settings(max_examples=120, deadline=None)
def test_whatever_is_asked_the_image_holds_and_comes_back(
    commands: list[object], ending: str | None, seed: int
) -> None:
    cluster = SimulatedController(broker_ids=(1, 2, 3), seed=seed)
    for command in commands:
        if isinstance(command, AllocateProducerIdsRequest):
            command.broker_epoch = cluster.image.brokers[1].broker_epoch
        cluster.ask(command, 5 if isinstance(command, DeleteTopicsRequest) else None)
        check(cluster.image)
        assert cluster.image == cluster.host.state
    topics, configs = cluster.image.topics_by_name, cluster.image.configs
    next_producer_id = cluster.image.next_producer_id
    if ending == "crash":
        cluster.disk.crash(Random(seed))
    elif ending == "kill":
        cluster.disk.kill()
    cluster.open()
    assert cluster.image.topics_by_name == topics
    assert cluster.image.configs == configs
    assert cluster.image.next_producer_id == next_producer_id
    check(cluster.image)
