"""Eligible leader replicas (KIP-966): who has all that is committed though it is not in sync."""

from typing import Any

import pytest
from tests.unit.cluster.images import (
    TOPIC_ID,
    context_of,
    directory_of,
    image_of,
    partition_of,
    replayed,
)

from headrace.cluster.brokers import decide_fence, decide_register_broker
from headrace.cluster.configs import decide_incremental_alter_configs
from headrace.cluster.controller import supported_features
from headrace.cluster.elections import decide_elect_leaders
from headrace.cluster.image import NO_LEADER, ClusterImage, PartitionImage
from headrace.cluster.isr import decide_alter_partition
from headrace.cluster.leadership import changes_at_joining
from headrace.wire.kafka.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.metadata_records import BrokerRegistrationChangeRecord

TWO = {"min_insync_replicas": "2"}


def image(*, fenced: tuple[int, ...] = (), **fields: Any) -> ClusterImage:
    return image_of(fields, fenced=fenced, keeps_eligible=True)


def described(partition: PartitionImage) -> tuple[Any, ...]:
    return (
        partition.leader,
        partition.isr,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
    )


def fenced(before: ClusterImage, *brokers: int) -> ClusterImage:
    for broker in brokers:
        records, _ = decide_fence(before, broker, context_of(**TWO))
        before = replayed(before, records)
    return before


def registered(
    before: ClusterImage, broker: int, previous_epoch: int, life: bytes = b"another"
) -> ClusterImage:
    request = BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id="c",
        incarnation_id=life.ljust(16, b"\0"),
        log_dirs=[directory_of(broker)],
        previous_broker_epoch=previous_epoch,
        features=supported_features(),
        rack=None,
    )
    records, response = decide_register_broker(before, request, context_of(4, **TWO))
    assert response.error_code == 0
    return replayed(before, records)


def unfenced(before: ClusterImage, broker: int) -> ClusterImage:
    from dataclasses import replace

    after = before.copy()
    after.brokers[broker] = replace(after.brokers[broker], fenced=False)
    return replayed(after, changes_at_joining(after, broker, context_of(**TWO)))


def test_who_leaves_below_the_minimum_stays_eligible() -> None:
    one_out = fenced(image(), 3)
    assert described(partition_of(one_out)) == (1, (1, 2), (), ())
    two_out = fenced(one_out, 2)
    assert described(partition_of(two_out)) == (1, (1,), (2,), ())
    all_out = fenced(two_out, 1)
    assert described(partition_of(all_out)) == (NO_LEADER, (), (1, 2), (1,))


def test_an_eligible_replica_leads_cleanly() -> None:
    all_out = fenced(image(), 3, 2, 1)
    back = unfenced(all_out, 2)
    assert described(partition_of(back)) == (2, (2,), (1,), ())
    assert partition_of(back).leader_recovery_state == 0


def test_one_that_is_neither_in_sync_nor_eligible_waits() -> None:
    all_out = fenced(image(), 3, 2, 1)
    back = unfenced(all_out, 3)
    assert described(partition_of(back)) == (NO_LEADER, (), (1, 2), (1,))


def test_an_unclean_stop_costs_eligibility() -> None:
    """The last in-sync replica lost power: another that was in sync before it leads."""
    below = fenced(image(), 3, 2)
    back = registered(unfenced(below, 2), 1, previous_epoch=-1)
    assert described(partition_of(back)) == (2, (2,), (), ())


def test_a_clean_stop_does_not() -> None:
    all_out = fenced(image(), 3, 2, 1)
    back = registered(all_out, 2, previous_epoch=102)
    assert described(partition_of(back)) == (NO_LEADER, (), (1, 2), (1,))


def test_a_registration_that_never_counted_is_overlooked() -> None:
    """1. A process registers and is killed; 2. the next one knows only of the life before it."""
    all_out = fenced(image(), 3, 2, 1)
    killed = registered(all_out, 2, previous_epoch=102)
    back = registered(killed, 2, previous_epoch=102, life=b"third")
    assert described(partition_of(back)) == (NO_LEADER, (), (1, 2), (1,))
    lossy = registered(back, 2, previous_epoch=-1, life=b"fourth")
    assert described(partition_of(lossy)) == (NO_LEADER, (), (1,), (1,))


def test_one_that_was_unfenced_counts() -> None:
    coming = registered(fenced(image(), 3, 2, 1), 2, previous_epoch=102)
    assert coming.brokers[2].replaced_epochs == (102,)
    epoch = coming.brokers[2].broker_epoch
    change = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=epoch, fenced=-1)
    served = fenced(replayed(coming, [change]), 2)
    assert served.brokers[2].replaced_epochs == ()
    back = registered(served, 2, previous_epoch=102, life=b"third")
    assert 2 not in partition_of(back).eligible_leader_replicas


def test_when_all_have_lost_something_who_led_last_leads_and_says_so() -> None:
    state = fenced(image(), 3, 2, 1)
    for broker in (1, 2):
        state = registered(state, broker, previous_epoch=-1)
    assert described(partition_of(state)) == (NO_LEADER, (), (), (1,))
    assert described(partition_of(unfenced(state, 2)))[0] == NO_LEADER
    back = unfenced(state, 1)
    assert described(partition_of(back)) == (1, (1,), (), ())
    assert partition_of(back).leader_recovery_state == 1, "recovering"


def test_with_enough_in_sync_nobody_else_is_eligible() -> None:
    below = image(isr=[1], eligible_leader_replicas=[2, 3])
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=101,
        topics=[
            TopicData(
                topic_id=TOPIC_ID,
                partitions=[
                    PartitionData(
                        partition_index=0,
                        leader_epoch=5,
                        partition_epoch=7,
                        new_isr_with_epochs=[
                            BrokerState(broker_id=1, broker_epoch=101),
                            BrokerState(broker_id=3, broker_epoch=103),
                        ],
                    )
                ],
            )
        ],
    )
    records, _ = decide_alter_partition(below, request, context_of(3, **TWO))
    assert described(partition_of(replayed(below, records))) == (1, (1, 3), (), ())


def test_another_minimum_ends_eligibility() -> None:
    below = image(isr=[1], eligible_leader_replicas=[2, 3])
    config = AlterableConfig(name="min.insync.replicas", config_operation=0, value="1")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    records, _ = decide_incremental_alter_configs(below, request, context_of(1, **TWO))
    after = replayed(below, records)
    assert described(partition_of(after)) == (1, (1,), (), ())
    assert partition_of(after).partition_epoch == 8


@pytest.mark.parametrize("election", [0, 1], ids=["preferred", "unclean"])
def test_an_election_that_people_ask_for_leaves_a_leader_alone(election: int) -> None:
    """The preferred replica is eligible, and not in sync: it does not lead yet."""
    below = image(leader=2, isr=[2], eligible_leader_replicas=[1])
    asked = [TopicPartitions(topic="t", partitions=[0])]
    request = ElectLeadersRequest(election_type=election, topic_partitions=asked)
    records, _ = decide_elect_leaders(below, request, context_of(2, **TWO))
    assert records == []


def test_where_the_feature_is_off_the_last_member_stays_in_sync() -> None:
    state = fenced(image_of({}), 3, 2, 1)
    assert described(partition_of(state)) == (NO_LEADER, (1,), (), ())
