"""Brokers come, are heard of, are fenced, stop and go: what is written, and who leads then."""

import pytest
from tests.unit.cluster.images import (
    TIMEOUT_MS,
    context_of,
    directory_of,
    image_of,
    incarnation_of,
    partition_of,
    replayed,
)

from headrace.cluster.brokers import (
    decide_broker_heartbeat,
    decide_fence,
    decide_register_broker,
    decide_unregister_broker,
)
from headrace.cluster.controller import supported_features
from headrace.cluster.decision import DecisionContext
from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from headrace.wire.kafka.messages.metadata_records import (
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from headrace.wire.kafka.messages.unregister_broker import UnregisterBrokerRequest


def registration(broker_id: int = 1, **fields: object) -> BrokerRegistrationRequest:
    values: dict[str, object] = {
        "broker_id": broker_id,
        "cluster_id": "c",
        "incarnation_id": b"n" * 16,
        "listeners": [Listener(name="PLAINTEXT", host="h", port=9)],
        "features": supported_features(),
        "rack": None,
        "log_dirs": [directory_of(broker_id)],
    }
    return BrokerRegistrationRequest(**{**values, **fields})  # type: ignore[arg-type]


def heartbeat(broker_id: int = 1, **fields: object) -> BrokerHeartbeatRequest:
    values: dict[str, object] = {
        "broker_id": broker_id,
        "broker_epoch": 100 + broker_id,
        "current_metadata_offset": 1000,
    }
    return BrokerHeartbeatRequest(**{**values, **fields})  # type: ignore[arg-type]


# Registration.


def test_a_registration_has_the_offset_of_its_record_as_epoch_and_starts_fenced() -> None:
    image = image_of({"replicas": [1, 2]}, brokers=(1, 2))
    records, response = decide_register_broker(image, registration(1), context_of())
    assert isinstance(records[-1], RegisterBrokerRecord)
    assert response.broker_epoch == image.last_offset + len(records)
    broker = replayed(image, records).brokers[1]
    assert broker.broker_epoch == response.broker_epoch
    assert broker.fenced
    assert broker.log_dirs == (directory_of(1),)
    assert broker.endpoints[0].host == "h"


def test_the_same_incarnation_again_keeps_its_epoch_and_writes_what_changed() -> None:
    image = image_of(brokers=(1,))
    same = registration(1, incarnation_id=incarnation_of(1), listeners=[])
    records, response = decide_register_broker(image, same, context_of())
    assert response.broker_epoch == 101
    after = replayed(image, records)
    assert not after.brokers[1].fenced
    assert after.brokers[1].features
    assert decide_register_broker(after, same, context_of())[0] == []


REFUSED = [
    ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
    (
        {
            "features": [
                Feature(name="metadata.version", min_supported_version=1, max_supported_version=29)
            ]
        },
        ErrorCode.UNSUPPORTED_VERSION,
    ),
    ({"log_dirs": [directory_of(2)]}, ErrorCode.INVALID_REGISTRATION),
    ({"log_dirs": [b"d" * 16, b"d" * 16]}, ErrorCode.INVALID_REGISTRATION),
    ({"log_dirs": [bytes(16)]}, ErrorCode.INVALID_REGISTRATION),
]


@pytest.mark.parametrize(("fields", "error"), REFUSED)
def test_registrations_that_are_refused(fields: dict[str, object], error: ErrorCode) -> None:
    records, response = decide_register_broker(image_of(), registration(1, **fields), context_of())
    assert (records, response.error_code) == ([], error)


def other_disk(broker_id: int = 1) -> BrokerRegistrationRequest:
    return registration(broker_id, log_dirs=[b"x" * 16])


@pytest.mark.parametrize(
    ("context", "fenced", "is_refused"),
    [
        (context_of(heard=[1]), (), True),
        (context_of(), (), False),
        (context_of(heard=[1]), (1,), False),
    ],
    ids=["alive", "never heard of", "fenced"],
)
def test_an_id_is_taken_while_its_broker_lives(
    context: DecisionContext, fenced: tuple[int, ...], is_refused: bool
) -> None:
    image = image_of(fenced=fenced)
    _, response = decide_register_broker(image, other_disk(), context)
    expected = ErrorCode.DUPLICATE_BROKER_REGISTRATION if is_refused else ErrorCode.NONE
    assert response.error_code == expected


def test_who_holds_the_same_directories_has_outlived_the_old_process() -> None:
    _, response = decide_register_broker(image_of(), registration(1), context_of(heard=[1]))
    assert response.error_code == 0


def test_a_new_incarnation_leads_only_what_nobody_else_could() -> None:
    image = image_of({"replicas": [1, 2]}, {"replicas": [1]}, {"replicas": [2, 1]})
    records, _ = decide_register_broker(image, registration(1), context_of())
    after = replayed(image, records)
    moved, alone, followed = (partition_of(after, index) for index in range(3))
    assert (moved.leader, moved.isr) == (2, (2,))
    assert (alone.leader, alone.isr) == (1, (1,))
    assert (followed.leader, followed.isr) == (2, (2,))


@pytest.mark.parametrize(("previous", "leader_epoch", "written"), [(101, 5, 1), (-1, 6, 2)])
def test_only_after_an_unclean_stop_a_lone_leader_begins_a_new_epoch(
    previous: int, leader_epoch: int, written: int
) -> None:
    image = image_of({"replicas": [1]}, brokers=(1,))
    again = registration(1, previous_broker_epoch=previous)
    records, _ = decide_register_broker(image, again, context_of())
    assert len(records) == written
    assert partition_of(replayed(image, records)).leader_epoch == leader_epoch


def test_a_broker_that_comes_back_without_a_directory_does_not_lead_what_was_in_it() -> None:
    kept, lost = b"k" * 16, b"l" * 16
    image = image_of(
        {"replicas": [1], "directories": [lost]},
        {"replicas": [1], "directories": [kept]},
        {"replicas": [1]},
        brokers=(1,),
    )
    again = registration(1, previous_broker_epoch=101, log_dirs=[kept])
    records, _ = decide_register_broker(image, again, context_of())
    after = replayed(image, records)
    assert [partition_of(after, index).leader for index in range(3)] == [NO_LEADER, 1, 1]
    beat = heartbeat(1, broker_epoch=after.brokers[1].broker_epoch, current_metadata_offset=10**6)
    records, _ = decide_broker_heartbeat(after, beat, context_of())
    assert partition_of(replayed(after, records)).leader == NO_LEADER


# Heartbeats and fences.


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [(9, 109, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 99, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_heartbeats_of_unknown_and_replaced_brokers(
    broker_id: int, epoch: int, error: ErrorCode
) -> None:
    asked = heartbeat(broker_id, broker_epoch=epoch)
    records, response = decide_broker_heartbeat(image_of(), asked, context_of())
    assert (records, response.error_code) == ([], error)


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    records, response = decide_broker_heartbeat(image_of(), heartbeat(), context_of())
    assert records == []
    assert (response.is_caught_up, response.is_fenced, response.should_shut_down) == (
        True,
        False,
        False,
    )


def test_unfencing_gives_a_leader_to_what_had_none() -> None:
    image = image_of(
        {"replicas": [1, 2], "isr": [1], "leader": NO_LEADER},
        {"replicas": [1, 2], "isr": [2], "leader": NO_LEADER},
        fenced=(1, 2),
    )
    records, response = decide_broker_heartbeat(image, heartbeat(1), context_of())
    after = replayed(image, records)
    assert not response.is_fenced
    assert not after.brokers[1].fenced
    assert partition_of(after, 0).leader == 1
    assert partition_of(after, 1).leader == NO_LEADER


def test_a_broker_that_was_stopping_gets_no_leadership_with_its_fence_lifted() -> None:
    image = image_of(
        {"replicas": [1, 2], "isr": [1], "leader": NO_LEADER}, fenced=(1,), stopping=(1,)
    )
    records, _ = decide_broker_heartbeat(image, heartbeat(1), context_of())
    after = replayed(image, records)
    assert not after.brokers[1].fenced
    assert partition_of(after).leader == NO_LEADER


def test_a_broker_that_has_not_read_its_registration_stays_fenced() -> None:
    image = image_of(fenced=(1,))
    behind = heartbeat(1, current_metadata_offset=100)
    records, response = decide_broker_heartbeat(image, behind, context_of())
    assert (records, response.is_fenced, response.is_caught_up) == ([], True, False)


def test_a_broker_may_ask_for_its_fence() -> None:
    image = image_of({"replicas": [1, 2]})
    records, response = decide_broker_heartbeat(image, heartbeat(1, want_fence=True), context_of())
    after = replayed(image, records)
    assert response.is_fenced
    assert after.brokers[1].fenced
    assert (partition_of(after).leader, partition_of(after).isr) == (2, (2,))


def test_a_fence_takes_the_leaderships_and_leaves_the_last_of_an_isr() -> None:
    image = image_of({"replicas": [1, 2, 3]}, {"replicas": [1, 2], "isr": [1]}, {"replicas": [2]})
    records, changed = decide_fence(image, 1, context_of())
    after = replayed(image, records)
    assert changed
    assert after.brokers[1].fenced
    assert (partition_of(after, 0).leader, partition_of(after, 0).isr) == (2, (2, 3))
    assert (partition_of(after, 1).leader, partition_of(after, 1).isr) == (NO_LEADER, (1,))
    assert partition_of(after, 2) == partition_of(image, 2)
    assert decide_fence(after, 1, context_of()) == ([], False)


def test_a_fence_is_unclean_only_where_it_may_be() -> None:
    image = image_of({"replicas": [1, 2], "isr": [1]})
    allowed = context_of(unclean_leader_election_enable="true")
    records, _ = decide_fence(image, 1, allowed)
    partition = partition_of(replayed(image, records))
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_the_session_of_nobody() -> None:
    assert decide_fence(image_of(), 9, context_of()) == ([], False)


# Controlled shutdown.


def ask_to_stop(
    image: ClusterImage, context: DecisionContext, broker_id: int = 1
) -> tuple[ClusterImage, bool]:
    asked = heartbeat(broker_id, want_shut_down=True)
    records, response = decide_broker_heartbeat(image, asked, context)
    return replayed(image, records), response.should_shut_down


def test_leaderships_are_moved_before_a_broker_stops() -> None:
    image = image_of({"replicas": [1, 2]}, {"replicas": [2, 1]})
    context = context_of(heard=[1, 2, 3])
    after, may_stop = ask_to_stop(image, context)
    assert not may_stop
    assert after.brokers[1].in_controlled_shutdown
    assert [partition_of(after, index).leader for index in (0, 1)] == [2, 2]
    assert [partition_of(after, index).isr for index in (0, 1)] == [(2,), (2,)]
    # The others have not read of it yet.
    context.sessions.await_readers(1, after.last_offset, moved=True)
    still, may_stop = ask_to_stop(after, context)
    assert (still, may_stop) == (after, False)
    for broker_id in (2, 3):
        context.sessions.touch(broker_id, after.last_offset, 0)
    stopped, may_stop = ask_to_stop(after, context)
    assert may_stop
    assert stopped.brokers[1].fenced


def test_a_controller_that_has_just_become_active_waits_for_all_it_knows() -> None:
    image = image_of({"replicas": [1, 2], "isr": [2], "leader": 2}, stopping=(1,))
    context = context_of(heard=[2])
    _, may_stop = ask_to_stop(image, context)
    assert not may_stop
    context.sessions.touch(3, image.last_offset, 0)
    _, may_stop = ask_to_stop(image, context)
    assert may_stop


def test_what_nobody_else_could_lead_blocks_nobody() -> None:
    image = image_of({"replicas": [1]})
    after, may_stop = ask_to_stop(image, context_of(heard=[1, 2, 3]))
    assert may_stop
    assert after.brokers[1].fenced
    assert partition_of(after).leader == NO_LEADER


def test_a_single_broker_stops_without_a_record() -> None:
    image = image_of({"replicas": [1]}, brokers=(1,))
    after, may_stop = ask_to_stop(image, context_of(heard=[1]))
    assert may_stop
    assert after == image


def test_a_fenced_broker_may_stop_at_once() -> None:
    image = image_of(fenced=(1,))
    after, may_stop = ask_to_stop(image, context_of())
    assert may_stop
    assert after == image


def test_a_follower_that_joins_meanwhile_takes_over_too() -> None:
    image = image_of({"replicas": [1, 2]}, stopping=(1,))
    after, may_stop = ask_to_stop(image, context_of(heard=[1, 2, 3]))
    assert not may_stop
    assert partition_of(after).leader == 2


def test_nothing_new_is_placed_on_a_broker_that_stops() -> None:
    assert image_of(stopping=(2,), fenced=(3,)).usable_brokers() == [1]


# Unregistration.


def test_an_unregistered_broker_is_gone_from_the_isrs() -> None:
    image = image_of({"replicas": [1, 2]})
    asked = UnregisterBrokerRequest(broker_id=1)
    records, response = decide_unregister_broker(image, asked, context_of())
    after = replayed(image, records)
    assert response.error_code == 0
    assert 1 not in after.brokers
    assert (partition_of(after).leader, partition_of(after).isr) == (2, (2,))
    assert sum(isinstance(record, PartitionChangeRecord) for record in records) == 1


def test_nobody_can_not_be_unregistered() -> None:
    asked = UnregisterBrokerRequest(broker_id=9)
    records, response = decide_unregister_broker(image_of(), asked, context_of())
    assert (records, response.error_code) == ([], ErrorCode.BROKER_ID_NOT_REGISTERED)
    assert "9" in (response.error_message or "")


def test_a_session_ends_at_its_time() -> None:
    context = context_of(heard=[1], now_ms=10)
    assert context.sessions.is_alive(1, 9 + TIMEOUT_MS)
    assert not context.sessions.is_alive(1, 10 + TIMEOUT_MS)
