"""ShareFetch and ShareAcknowledge in bytes against a whole simulated broker."""

from typing import Any

import pytest
from tests.unit.broker.dialogue import batch, delete_records
from tests.unit.broker.share.share_client import (
    GROUP,
    TOPIC,
    Stage,
    accept,
    acquired,
    numbers,
    reject,
    release,
    values_of,
)
from tests.unit.broker.transactor import FLAGS, Transactor, find_coordinators

from headrace.base.errors import CorruptionError
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import share_fetch
from headrace.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

FINAL = -1


def test_records_go_out_as_the_log_has_them_and_are_accepted() -> None:
    stage = Stage()
    stage.produce(3, 4)
    member = stage.member("m")
    answer = member.fetch_whole()
    (row,) = answer.responses[0].partitions
    assert values_of(row) == numbers(0, 6)
    assert acquired(row) == [(0, 6, 1)]
    assert answer.acquisition_lock_timeout_ms == 30_000
    again = member.fetch_one(accept(0, 6))
    assert again is not None
    assert (again.acknowledge_error_code, acquired(again)) == (0, [])
    assert stage.kept.start_offset == 7


@pytest.mark.parametrize("version", [1, 2])
def test_each_version_is_answered(version: int) -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("m")
    assert member.take(version=version) == [(0, 1, 1)]
    assert member.acknowledge(accept(0, 1), version=version) == (0, 0)


def test_only_the_batches_that_hold_something_are_sent() -> None:
    stage = Stage()
    stage.produce(2, 2, 2, 2)
    first, second = stage.member("a"), stage.member("b")
    assert values_of(first.fetch_one(max_records=2)) == numbers(0, 1)
    row = second.fetch_one(max_records=3)
    assert row is not None
    assert acquired(row) == [(2, 5, 1)]
    assert values_of(row) == numbers(2, 5)
    (whole,) = [first.fetch_one(max_records=500)]
    assert whole is not None
    assert values_of(whole) == numbers(6, 7)


def test_a_cut_batch_is_sent_to_both_who_share_it() -> None:
    stage = Stage()
    stage.produce(5)
    limited: dict[str, Any] = {"max_records": 3, "share_acquire_mode": 1}
    assert values_of(stage.member("a").fetch_one(**limited)) == numbers(0, 2)
    assert values_of(stage.member("b").fetch_one(**limited)) == numbers(3, 4)


def test_max_bytes_ends_a_fetch_but_never_before_one_batch() -> None:
    stage = Stage()
    stage.produce(2, 2)
    member = stage.member("m")
    assert member.take(max_bytes=1) == [(0, 1, 1)]
    assert member.take(max_bytes=1) == [(2, 3, 1)]


def test_a_fetch_waits_for_records() -> None:
    stage = Stage()
    member = stage.member("m")
    member.begin()
    assert member.came() == []
    stage.produce(2)
    assert member.came() == [[(0, 1, 1)]]


def test_a_fetch_that_waits_in_vain_is_answered_in_time() -> None:
    stage = Stage()
    member = stage.member("m")
    member.begin(max_wait_ms=300)
    stage.broker.advance(299)
    assert member.came() == []
    stage.broker.advance(1)
    assert member.came() == [[]]
    assert not stage.shares.waiting


def test_a_fetch_waits_for_enough_bytes() -> None:
    stage = Stage()
    member = stage.member("m")
    member.begin(min_bytes=200)
    stage.produce(1)
    assert member.came() == []
    stage.produce(20)
    assert member.came() == [[(0, 20, 1)]]


def test_a_fetch_waits_for_records_that_come_back() -> None:
    stage = Stage()
    stage.produce(2)
    holder, waiting = stage.member("a"), stage.member("b")
    assert holder.take() == [(0, 1, 1)]
    waiting.begin()
    assert waiting.came() == []
    assert holder.acknowledge(release(0, 1)) == (0, 0)
    assert waiting.came() == [[(0, 1, 2)]]


def test_a_fetch_waits_for_room_in_the_window() -> None:
    stage = Stage(group={"share.partition.max.record.locks": "100"})
    stage.produce(100, 5)
    holder, waiting = stage.member("a"), stage.member("b")
    assert holder.take() == [(0, 99, 1)]
    waiting.begin()
    assert waiting.came() == []
    assert holder.acknowledge(accept(0, 49)) == (0, 0)
    assert waiting.came() == [[(100, 104, 1)]]


def test_locks_end_and_another_member_gets_the_records() -> None:
    stage = Stage(group={"share.record.lock.duration.ms": "15000"})
    stage.produce(2)
    holder, waiting = stage.member("a"), stage.member("b")
    assert holder.take() == [(0, 1, 1)]
    stage.broker.advance(14_900)
    waiting.begin(max_wait_ms=500)
    assert waiting.came() == []
    stage.broker.advance(100)
    assert waiting.came() == [[(0, 1, 2)]]
    assert holder.acknowledge(accept(0, 1)) == (0, ErrorCode.INVALID_RECORD_STATE)
    assert stage.shares.metrics.lock_timeouts == 2


def test_a_renewed_lock_holds() -> None:
    stage = Stage(group={"share.record.lock.duration.ms": "15000"})
    stage.produce(1)
    holder, other = stage.member("a"), stage.member("b")
    assert holder.take() == [(0, 0, 1)]
    stage.broker.advance(10_000)
    assert holder.acknowledge((0, 0, [4]), is_renew_ack=True) == (0, 0)
    stage.broker.advance(10_000)
    assert other.take() == []
    assert holder.acknowledge(accept(0, 0)) == (0, 0)
    assert stage.kept.start_offset == 1


def test_a_fetch_may_renew_and_gets_no_records() -> None:
    stage = Stage()
    stage.produce(1, 1)
    member = stage.member("m")
    assert member.take(max_records=1) == [(0, 0, 1)]
    refused = member.fetch_whole((0, 0, [4]), is_renew_ack=True)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    row = member.fetch_one((0, 0, [4]), is_renew_ack=True, max_records=0)
    assert row is not None
    assert (row.acknowledge_error_code, acquired(row)) == (0, [])
    assert stage.shares.metrics.renewed == 1


def test_renewal_may_be_forbidden() -> None:
    stage = Stage(group={"share.renew.acknowledge.enable": "false"})
    stage.produce(1)
    member = stage.member("m")
    member.take()
    assert member.acknowledge((0, 0, [4]), is_renew_ack=True) == (0, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("first", "last", "types"),
    [
        (0, 1, []),
        (1, 0, [1]),
        (0, 1, [1, 1, 1]),
        (0, 1, [5]),
        (0, 1, [-1]),
        (0, 1, [4]),
        (0, 2**40, [1]),
        (-5, -1, [1]),
        (7, 9, [1]),
    ],
)
def test_malformed_acknowledgements_are_refused_and_change_nothing(
    first: int, last: int, types: list[int]
) -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("m")
    assert member.take() == [(0, 1, 1)]
    refused = (0, ErrorCode.INVALID_REQUEST)
    assert member.acknowledge((first, last, types)) == refused
    row = member.fetch_one((first, last, types))
    assert row is not None
    assert row.acknowledge_error_code == ErrorCode.INVALID_REQUEST
    assert member.acknowledge(accept(0, 1)) == (0, 0)


def test_acknowledgements_are_in_order() -> None:
    stage = Stage()
    stage.produce(4)
    member = stage.member("m")
    member.take()
    refused = (0, ErrorCode.INVALID_REQUEST)
    assert member.acknowledge(accept(2, 3), accept(0, 1)) == refused
    assert member.acknowledge(accept(0, 2), accept(2, 3)) == refused
    assert member.acknowledge(accept(0, 0), reject(1, 1), release(3, 3)) == (0, 0)
    assert stage.kept.start_offset == 2


# -- sessions ----------------------------------------------------------------------------------


def test_a_session_goes_on_with_its_epoch() -> None:
    stage = Stage()
    member = stage.member("m")
    assert member.fetch_whole(share_session_epoch=5).error_code == 122
    assert member.fetch_whole().error_code == 0
    assert member.fetch_whole(share_session_epoch=2).error_code == 123
    assert member.fetch_whole(share_session_epoch=1).error_code == 0
    assert member.acknowledge(epoch=0) == (123, 0)
    assert member.acknowledge(epoch=7) == (123, 0)
    assert stage.member("stranger").acknowledge(epoch=1) == (122, 0)


def test_a_first_request_acknowledges_nothing() -> None:
    stage = Stage()
    assert stage.member("m").fetch_whole(accept(0, 0)).error_code == ErrorCode.INVALID_REQUEST


def test_there_are_only_so_many_sessions() -> None:
    stage = Stage(flags={"group_share_max_share_sessions": "1"})
    assert stage.member("a").fetch_whole().error_code == 0
    assert stage.member("b").fetch_whole().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert stage.member("a").fetch_whole().error_code == 0
    assert len(stage.shares.sessions) == 1


def test_the_last_request_acknowledges_and_gives_the_rest_back() -> None:
    stage = Stage()
    stage.produce(4)
    member, other = stage.member("a"), stage.member("b")
    assert member.take() == [(0, 3, 1)]
    row = member.fetch_one(accept(0, 1), share_session_epoch=FINAL)
    assert row is not None
    assert row.acknowledge_error_code == 0
    assert len(stage.shares.sessions) == 0
    assert other.take() == [(2, 3, 2)]
    assert member.fetch_whole(share_session_epoch=FINAL).error_code == 122


def test_a_session_ends_by_an_acknowledgement() -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("a")
    member.take()
    assert member.acknowledge(accept(0, 0), epoch=FINAL) == (0, 0)
    assert stage.member("b").take() == [(1, 1, 2)]


def test_who_hangs_up_gives_back_what_it_holds() -> None:
    stage = Stage()
    stage.produce(2)
    holder, waiting = stage.member("a"), stage.member("b")
    assert holder.take() == [(0, 1, 1)]
    waiting.begin()
    holder.disconnect()
    assert waiting.came() == [[(0, 1, 2)]]
    assert len(stage.shares.sessions) == 1


def test_nobody_acquires_for_a_member_that_hung_up_while_it_waited() -> None:
    stage = Stage()
    gone = stage.member("a")
    gone.begin()
    gone.disconnect()
    assert not stage.shares.waiting
    stage.produce(2)
    assert stage.member("b").take() == [(0, 1, 1)]


def test_a_member_that_left_its_group_gives_back_what_it_holds() -> None:
    stage = Stage()
    stage.produce(1)
    assert stage.member("a").take() == [(0, 0, 1)]
    stage.shares.on_member_left(GROUP, "a")
    assert stage.member("b").take() == [(0, 0, 2)]


def test_partitions_are_forgotten() -> None:
    stage = Stage(partitions=2)
    member = stage.member("m")
    member.fetch_whole()
    topic = share_fetch.ForgottenTopic(topic_id=member.topic_id(TOPIC), partitions=[0])
    member.fetch_whole(forgotten_topics_data=[topic])
    stage.produce(1, index=0)
    stage.produce(1, index=1)
    row = member.fetch_one()
    assert row is not None
    assert row.partition_index == 1


def test_partitions_get_their_turn() -> None:
    stage = Stage(partitions=3)
    for index in range(3):
        stage.produce(2, 2, index=index)
    member = stage.member("m")
    seen = []
    for _ in range(3):
        row = member.fetch_one(max_records=1)
        assert row is not None
        seen.append(row.partition_index)
    assert sorted(seen) == [0, 1, 2]


def test_one_fetch_takes_of_several_partitions_up_to_its_limit() -> None:
    stage = Stage(partitions=2)
    stage.produce(3, index=0)
    stage.produce(3, index=1)
    answer = stage.member("m").fetch_whole(max_records=4)
    rows = [row for topic in answer.responses for row in topic.partitions]
    assert sorted(len(values_of(row)) for row in rows) == [3, 3]
    assert stage.member("n").fetch_whole().responses == []


# -- what is wrong with a request ----------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [{"group_id": None}, {"group_id": ""}, {"share_acquire_mode": 2}, {"share_acquire_mode": -1}],
)
def test_a_request_without_sense_is_refused(fields: dict[str, Any]) -> None:
    answer = Stage().member("m").fetch_whole(**fields)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message


def test_a_member_has_a_name() -> None:
    stage = Stage()
    assert stage.member("").fetch_whole().error_code == ErrorCode.INVALID_REQUEST
    assert stage.member("").acknowledge(epoch=1)[0] == ErrorCode.INVALID_REQUEST


def test_unknown_topics_and_partitions_are_told_at_once() -> None:
    stage = Stage()
    member = stage.member("m")
    request = member.request()
    unknown = share_fetch.FetchTopic(
        topic_id=b"x" * 16, partitions=[share_fetch.FetchPartition(partition_index=0)]
    )
    request.topics[0].partitions.append(share_fetch.FetchPartition(partition_index=9))
    request.topics.append(unknown)
    request.max_wait_ms = 10_000
    answer = member.ask(request, 2)
    errors = [row.error_code for topic in answer.responses for row in topic.partitions]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


def test_without_the_feature_there_are_no_share_groups() -> None:
    stage = Stage()
    stage.broker.broker.image.features.pop("share.version")
    member = stage.member("m")
    assert member.fetch_whole().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert member.acknowledge(epoch=1) == (ErrorCode.UNSUPPORTED_VERSION, 0)


# -- where a group begins --------------------------------------------------------------------------


def test_a_group_begins_at_the_end_unless_told() -> None:
    stage = Stage(group={"share.auto.offset.reset": "latest"})
    stage.produce(3)
    member = stage.member("m")
    assert member.take() == []
    assert stage.kept.start_offset == 3
    stage.produce(2)
    assert member.take() == [(3, 4, 1)]


def test_a_group_begins_some_time_ago() -> None:
    stage = Stage(group={"share.auto.offset.reset": "by_duration:PT1H"})
    now_ms = stage.broker.clock.now_ms()
    for age_minutes in (120, 90, 30, 10):
        sent = batch("old", timestamp_ms=now_ms - age_minutes * 60_000)
        assert stage.client.produce(TOPIC, 0, sent).error_code == 0
    assert stage.member("m").take() == [(2, 3, 1)]
    assert stage.kept.writes[0].start_offset == 2


def test_a_group_that_begins_later_than_all_records_begins_at_the_end() -> None:
    stage = Stage(group={"share.auto.offset.reset": "by_duration:PT1S"})
    sent = batch("old", timestamp_ms=stage.broker.clock.now_ms() - 60_000)
    assert stage.client.produce(TOPIC, 0, sent).error_code == 0
    assert stage.member("m").take() == []
    assert stage.kept.start_offset == 1


def test_latest_stays_where_it_was_after_a_restart() -> None:
    stage = Stage(group={"share.auto.offset.reset": "latest"})
    stage.produce(3)
    assert stage.member("m").take() == []
    stage.produce(2)
    stage.broker.kill()
    stage.broker.start()
    stage.adopt()
    assert stage.member("m").take() == [(3, 4, 1)]


# -- keeping --------------------------------------------------------------------------------------


def test_an_acknowledgement_is_answered_once_it_is_kept() -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("m")
    assert member.take() == [(0, 1, 1)]
    stage.kept.is_held = True
    member.transport.feed(member.frame(member.acknowledge_request(accept(0, 1)), 2))
    stage.broker.settle()
    assert member.transport.take() == []
    stage.kept.let_go()
    assert len(member.transport.take()) == 1


def test_what_could_not_be_kept_is_told_and_still_held() -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("m")
    member.take()
    stage.kept.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.acknowledge(accept(0, 1)) == (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    stage.kept.write_error = ErrorCode.NONE
    assert member.acknowledge(accept(0, 1)) == (0, 0)
    assert stage.kept.start_offset == 2
    assert stage.shares.metrics.failed_writes == 1


def test_a_release_that_was_not_kept_is_tried_again() -> None:
    stage = Stage(group={"share.record.lock.duration.ms": "15000"})
    stage.produce(2)
    stage.member("m").take()
    stage.kept.write_error = ErrorCode.NETWORK_EXCEPTION
    stage.broker.advance(15_000)
    assert stage.kept.records == {}
    stage.kept.write_error = ErrorCode.NONE
    stage.broker.advance(1_000)
    assert stage.kept.records == {0: (0, 1), 1: (0, 1)}


def test_state_that_was_reset_meanwhile_is_read_again() -> None:
    stage = Stage()
    stage.produce(4)
    member = stage.member("m")
    member.take()
    stage.kept.state_epoch += 1
    stage.kept.start_offset = 2
    assert member.acknowledge(accept(0, 3)) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert member.take() == [(2, 3, 1)]


def test_with_the_last_session_of_a_group_its_state_is_read_again() -> None:
    """An empty group may be reset by its coordinator: what is known here may be stale."""
    stage = Stage()
    stage.produce(4)
    member, other = stage.member("a"), stage.member("b")
    assert member.take(max_records=1) == [(0, 3, 1)]
    assert other.take() == []
    member.disconnect()
    assert stage.hosted().state is not None
    assert stage.kept.records == dict.fromkeys(range(4), (0, 1))
    other.disconnect()
    assert stage.shares.all() == []
    stage.kept.state_epoch += 1
    stage.kept.start_offset = 2
    stage.kept.records = {}
    assert stage.member("c").take() == [(2, 3, 1)]


def test_what_the_last_member_gives_back_is_kept_before_all_is_forgotten() -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("a")
    assert member.take() == [(0, 1, 1)]
    stage.kept.is_held = True
    member.disconnect()
    assert stage.hosted().closes_when_kept
    stage.kept.let_go()
    assert stage.shares.all() == []
    assert stage.kept.records == {0: (0, 1), 1: (0, 1)}


def test_a_group_that_comes_back_meanwhile_is_not_forgotten() -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("a")
    assert member.take() == [(0, 1, 1)]
    stage.kept.is_held = True
    member.disconnect()
    assert stage.member("b").take() == [(0, 1, 2)]
    stage.kept.let_go()
    assert stage.hosted().state is not None


def test_a_change_of_configuration_is_obeyed_at_once() -> None:
    stage = Stage()
    stage.produce(1)
    member = stage.member("m")
    assert member.fetch_whole().acquisition_lock_timeout_ms == 30_000
    stage.configure({"share.record.lock.duration.ms": "20000"})
    assert member.fetch_whole().acquisition_lock_timeout_ms == 20_000


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_state_that_cant_be_read_is_told(error: ErrorCode, told: ErrorCode) -> None:
    stage = Stage()
    stage.kept.read_error = error
    row = stage.member("m").fetch_one()
    assert row is not None
    assert row.error_code == told


def test_state_that_cant_be_read_yet_is_waited_for() -> None:
    stage = Stage()
    stage.produce(1)
    stage.kept.read_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    member = stage.member("m")
    assert member.fetch_one() is None
    stage.kept.read_error = ErrorCode.NONE
    assert member.take() == [(0, 0, 1)]


def test_a_fetch_waits_for_state_that_is_being_loaded() -> None:
    stage = Stage()
    stage.produce(1)
    stage.kept.is_held = True
    member = stage.member("m")
    member.begin()
    stage.kept.let_go()  # it is read
    assert member.came() == []
    stage.kept.let_go()  # the first offset is kept
    assert member.came() == [[(0, 0, 1)]]


def test_after_a_restart_what_was_accepted_stays_so_and_the_rest_comes_again() -> None:
    stage = Stage()
    stage.produce(6)
    member = stage.member("m")
    assert member.take() == [(0, 5, 1)]
    assert member.acknowledge(accept(1, 2), release(4, 4)) == (0, 0)
    stage.broker.kill()
    stage.broker.start()
    stage.adopt()
    again = stage.member("m")
    assert again.take() == [(0, 0, 1), (3, 3, 1), (4, 4, 2), (5, 5, 1)]


# -- the log moves -------------------------------------------------------------------------------


def test_deleted_records_are_passed_over() -> None:
    stage = Stage()
    stage.produce(2, 2, 2)
    member = stage.member("m")
    assert member.take(max_records=2) == [(0, 1, 1)]
    delete_records(stage.client, TOPIC, 0, 4)
    assert member.take() == [(4, 5, 1)]
    assert member.acknowledge(accept(0, 1)) == (0, 0)
    assert member.acknowledge(accept(4, 5)) == (0, 0)
    assert stage.kept.start_offset == 6


def test_leadership_in_another_epoch_reads_the_state_again() -> None:
    stage = Stage()
    stage.produce(2)
    member = stage.member("m")
    assert member.take() == [(0, 1, 1)]
    before = stage.hosted()
    before.partition.leader_epoch += 1
    assert member.acknowledge(accept(0, 1)) == (0, ErrorCode.INVALID_RECORD_STATE)
    assert before.is_closed
    assert member.take() == [(0, 1, 1)]
    assert stage.hosted().leader_epoch == before.leader_epoch + 1


def test_lost_leadership_answers_who_waits() -> None:
    stage = Stage()
    member = stage.member("m")
    member.begin(max_wait_ms=60_000)
    partition = stage.hosted().partition
    partition.follow(partition.leader_epoch + 1)
    stage.broker.settle()
    (answer,) = member.answers(share_fetch.ShareFetchRequest, 2)
    (row,) = answer.responses[0].partitions
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert row.current_leader.leader_id == stage.broker.broker.node_id
    assert answer.node_endpoints[0].port > 0


def test_a_deleted_topic_is_forgotten_and_told_to_who_waits() -> None:
    stage = Stage()
    member = stage.member("m")
    member.begin(max_wait_ms=60_000)
    assert len(stage.shares.all()) == 1
    topic = DeleteTopicState(name=TOPIC)
    stage.client.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=1000), 6)
    stage.broker.settle()
    (answer,) = member.answers(share_fetch.ShareFetchRequest, 2)
    (row,) = answer.responses[0].partitions
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert stage.shares.all() == []


def test_a_damaged_log_costs_its_partition_and_no_other() -> None:
    stage = Stage(partitions=2)
    for index in range(2):
        stage.produce(3, index=index)
    damaged = stage.broker.broker.partitions.find(TOPIC, 0)
    assert damaged is not None
    damaged.fail(CorruptionError("/data", 0, "planted"))
    answer = stage.member("m").fetch_whole()
    rows = {row.partition_index: row for row in answer.responses[0].partitions}
    assert rows[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert acquired(rows[1]) == [(0, 2, 1)]


def test_what_was_never_handed_out_here_cant_be_acknowledged() -> None:
    stage = Stage()
    stage.produce(1)
    member = stage.member("m")
    member.fetch_whole(max_records=0)
    stage.hosted().close(ErrorCode.NONE)
    assert member.acknowledge(accept(0, 0)) == (0, ErrorCode.INVALID_RECORD_STATE)
    assert member.acknowledge(accept(0, 0), index=5) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_member_over_its_quota_is_told_and_muted() -> None:
    stage = Stage()
    parts = [EntityData(entity_type="client-id", entity_name="simulated")]
    ops = [OpData(key="consumer_byte_rate", value=10.0, remove=False)]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)])
    stage.client.ask(request, 1)
    stage.produce(50, 50)
    member = stage.member("m")
    assert member.fetch_whole(max_records=50).throttle_time_ms > 0
    assert stage.broker.broker.quotas.throttled_count == 1


def test_a_stopping_broker_answers_who_waits() -> None:
    stage = Stage()
    member = stage.member("m")
    member.begin(max_wait_ms=60_000)
    stage.broker.broker.prepare_stop()
    assert member.came() == [[]]
    assert stage.shares.all() == []


# -- transactions --------------------------------------------------------------------------------


def transactions(stage: Stage) -> None:
    """0-1 aborted, 2 its marker, 3-4 committed, 5 its marker, 6 alone, 7-8 still open."""
    one = Transactor(stage.broker, "one")
    find_coordinators(one)
    one.init()
    for commit in (False, True):
        one.begin(TOPIC, 0)
        assert one.write(TOPIC, 0, "x", "y") == 0
        assert one.end(commit=commit) == 0
    stage.broker.settle()
    stage.produce(1)
    other = Transactor(stage.broker, "other")
    other.init()
    other.begin(TOPIC, 0)
    assert other.write(TOPIC, 0, "x", "y") == 0


def test_read_committed_gives_nobody_what_was_aborted_or_is_open() -> None:
    stage = Stage(flags=FLAGS, group={"share.isolation.level": "read_committed"})
    transactions(stage)
    member = stage.member("m")
    assert member.take() == [(3, 4, 1), (6, 6, 1)]
    assert member.acknowledge(accept(3, 4), accept(6, 6)) == (0, 0)
    assert stage.kept.start_offset == 7
    assert member.take() == []


def test_read_uncommitted_gives_all_but_the_markers() -> None:
    stage = Stage(flags=FLAGS)
    transactions(stage)
    member = stage.member("m")
    assert member.take() == [(0, 1, 1), (3, 4, 1), (6, 8, 1)]
    assert member.acknowledge(accept(0, 1), accept(3, 4), accept(6, 8)) == (0, 0)
    assert stage.kept.start_offset == 9
