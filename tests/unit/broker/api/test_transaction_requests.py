"""Keys 24 to 28 in every version, against a whole simulated broker."""

from typing import Any

import pytest
from tests.unit.broker.dialogue import READ_COMMITTED, Client, values_of, wanted
from tests.unit.broker.transactor import (
    Transactor,
    committed_offset,
    committed_values,
    transactional_broker,
)

from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

FENCED, OLD_FENCED = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


def begun(*, bumps: bool = True, **flags: Any) -> tuple[SimulatedBroker, Transactor]:
    broker = transactional_broker("t", **flags)
    one = Transactor(broker, bumps=bumps)
    assert one.init() == 0
    return broker, one


# -- 24 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_24_clients_add_partitions(version: int) -> None:
    _, one = begun(bumps=False)
    assert one.add("t", 0, 1, version=version) == {0: 0, 1: 0}
    assert one.add("t", 0, version=version) == {0: 0}
    one.producer_epoch += 1
    assert one.add("t", 0, version=version) == {0: FENCED if version >= 2 else OLD_FENCED}
    one.producer_id += 1
    assert one.add("t", 0, version=version) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_24_one_unknown_partition_spoils_all() -> None:
    broker, one = begun(bumps=False)
    assert one.add("t", 0, 9) == {
        0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    found = broker.broker.transactions.describe("id")
    assert not isinstance(found, ErrorCode)
    assert found.partitions == frozenset()


def test_24_internal_topics_are_not_the_clients_to_add() -> None:
    _, one = begun(bumps=False)
    assert one.add("__consumer_offsets", 0) == {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def asked(one: Transactor, *indexes: int, verify_only: bool) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=list(indexes))],
    )


@pytest.mark.parametrize(
    ("version", "missing"),
    [(4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_24_brokers_verify_and_add_for_several_transactions(version: int, missing: int) -> None:
    broker, one = begun(bumps=False)
    other = Transactor(broker, "other")
    assert other.init() == 0
    assert one.add("t", 0) == {0: 0}
    request = AddPartitionsToTxnRequest(
        transactions=[asked(one, 0, 1, verify_only=True), asked(other, 1, verify_only=False)]
    )
    results = one.ask(request, version).results_by_transaction
    told = {
        (result.transactional_id, r.partition_index): r.partition_error_code
        for result in results
        for topic in result.topic_results
        for r in topic.results_by_partition
    }
    assert told == {("id", 0): 0, ("id", 1): missing, ("other", 1): 0}
    assert one.ask(AddPartitionsToTxnRequest(), version).results_by_transaction == []


# -- 25, 28 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_25_adds_the_group_s_partition(version: int) -> None:
    broker, one = begun(bumps=False)
    assert one.add_offsets("g", version) == 0
    found = broker.broker.transactions.describe("id")
    assert not isinstance(found, ErrorCode)
    (added,) = found.partitions
    assert added == ("__consumer_offsets", broker.broker.groups.partition_for("g"))
    one.producer_epoch += 1
    assert one.add_offsets("g", version) == (FENCED if version >= 2 else OLD_FENCED)


@pytest.mark.parametrize("version", range(6))
def test_28_offsets_count_with_the_marker(version: int) -> None:
    _, one = begun(bumps=version >= 5)
    if version < 5:
        assert one.add_offsets("g") == 0
    assert one.commit_offset("g", "t", 0, 5, version=version) == 0
    assert committed_offset(one, "g", "t", 0) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert committed_offset(one, "g", "t", 1) == (0, -1), "other partitions are stable"
    assert committed_offset(one, "g", "t", 0, require_stable=False) == (0, -1)
    assert one.end(commit=True) == 0
    assert committed_offset(one, "g", "t", 0) == (0, 5)


@pytest.mark.parametrize(
    ("version", "error"),
    [(0, ErrorCode.INVALID_TXN_STATE), (3, 48), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_28_a_group_that_was_not_added_is_refused(version: int, error: int) -> None:
    _, one = begun(bumps=False)
    assert one.commit_offset("g", "t", 0, 5, version=version) == error
    assert committed_offset(one, "g", "t", 0) == (0, -1)


def test_28_refusals() -> None:
    _, one = begun()
    assert one.commit_offset("g", "nowhere", 0, 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert one.commit_offset("g", "t", 9, 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert one.commit_offset("", "t", 0, 5) == ErrorCode.INVALID_GROUP_ID
    one.producer_epoch += 1
    assert one.commit_offset("g", "t", 0, 5) == ErrorCode.INVALID_PRODUCER_EPOCH


def plain_commit(client: Client, group: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    return int(client.ask(request, 9).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("end", [None, "kill", "stop"])
def test_28_what_was_committed_later_in_the_log_stands(end: str | None) -> None:
    broker, one = begun()
    assert one.commit_offset("g", "t", 0, 5) == 0
    assert plain_commit(one, "g", 9) == 0
    assert committed_offset(one, "g", "t", 0, require_stable=False) == (0, 9)
    assert one.end(commit=True) == 0
    if end is not None:
        getattr(broker, end)()
        broker.start()
    assert committed_offset(Transactor(broker), "g", "t", 0) == (0, 9)


def test_28_a_deleted_offset_is_not_brought_back_by_the_marker() -> None:
    broker, one = begun()
    assert one.commit_offset("g", "t", 0, 5) == 0
    topic = OffsetDeleteRequestTopic(
        name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    deleted = one.ask(OffsetDeleteRequest(group_id="g", topics=[topic]), 0)
    assert deleted.error_code == 0
    assert one.end(commit=True) == 0
    assert committed_offset(one, "g", "t", 0) == (0, -1)
    broker.kill()
    broker.start()
    assert committed_offset(Transactor(broker), "g", "t", 0) == (0, -1)


# -- 26 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_26_ends_in_every_version(version: int, commit: bool) -> None:
    _, one = begun(bumps=version >= 5)
    one.begin("t", 0)
    assert one.write("t", 0, "a") == 0
    request = one.end_request(commit=commit)
    response = one.ask(request, version)
    assert response.error_code == 0
    if version >= 5:
        assert (response.producer_id, response.producer_epoch) == (one.producer_id, 1)
    assert one.ask(request, version).error_code == 0, "the same question again"
    assert committed_values(one, "t") == (["a"] if commit else [])
    request.producer_epoch += 7
    assert one.ask(request, version).error_code == (FENCED if version >= 2 else OLD_FENCED)


def test_26_an_unknown_id() -> None:
    _, one = begun()
    one.transactional_id = "another"
    assert one.end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    one.transactional_id = ""
    assert one.end(commit=True) == ErrorCode.INVALID_REQUEST


# -- 27 ------------------------------------------------------------------------------------------


def marker(one: Transactor, *indexes: int, epoch: int, commit: bool, **more: int) -> Any:
    return WritableTxnMarker(
        producer_id=one.producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=list(indexes))],
        **more,
    )


def marked(one: Transactor, *markers: WritableTxnMarker, version: int) -> list[int]:
    response = one.ask(WriteTxnMarkersRequest(markers=list(markers)), version)
    return [
        partition.error_code
        for result in response.markers
        for topic in result.topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_27_a_client_may_abort_what_hangs(version: int) -> None:
    _, one = begun()
    assert one.write("t", 0, "a") == 0
    assert marked(one, marker(one, 0, 7, epoch=0, commit=False), version=version) == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert one.fetch("t", 0, 0).last_stable_offset == 2
    assert committed_values(one, "t") == []
    assert one.ask(WriteTxnMarkersRequest(), version).markers == []


def test_27_markers_of_the_past_are_refused() -> None:
    _, one = begun()
    assert one.write("t", 0, "a") == 0
    assert marked(one, marker(one, 0, epoch=3, commit=True, coordinator_epoch=5), version=1) == [0]
    old_epoch = marker(one, 0, epoch=2, commit=False, coordinator_epoch=5)
    assert marked(one, old_epoch, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    old_coordinator = marker(one, 0, epoch=3, commit=False, coordinator_epoch=4)
    assert marked(one, old_coordinator, version=1) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    again = marker(one, 0, epoch=3, commit=True, coordinator_epoch=5, transaction_version=2)
    assert marked(one, again, version=2) == [0], "the same marker again is harmless"


def test_27_a_marker_of_v2_must_be_ahead_of_what_it_ends() -> None:
    _, one = begun()
    assert one.write("t", 0, "a") == 0
    same = marker(one, 0, epoch=0, commit=True, transaction_version=2)
    assert marked(one, same, version=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    ahead = marker(one, 0, epoch=1, commit=True, transaction_version=2)
    assert marked(one, ahead, version=2) == [0]


# -- reading -------------------------------------------------------------------------------------


def test_a_fetch_tells_only_the_aborted_transactions_it_needs() -> None:
    _, one = begun()
    for number in range(6):
        assert one.write("t", 0, f"{number}") == 0
        assert one.end(commit=number % 2 == 0) == 0
    first = one.fetch("t", 0, 0, isolation_level=READ_COMMITTED, partition_max_bytes=200)
    assert [a.first_offset for a in first.aborted_transactions or ()] in ([], [2])
    last = one.fetch("t", 0, 8, isolation_level=READ_COMMITTED)
    assert [a.first_offset for a in last.aborted_transactions or ()] == [10]
    whole = one.fetch("t", 0, 0, isolation_level=READ_COMMITTED)
    assert [a.first_offset for a in whole.aborted_transactions or ()] == [2, 6, 10]
    assert one.fetch("t", 0, 0).aborted_transactions is None


def test_a_long_poll_at_read_committed_waits_for_the_marker() -> None:
    broker, one = begun()
    reader = Client(broker)
    request = reader.fetch_request(
        {"t": [wanted(0, 0)]}, 12, isolation_level=READ_COMMITTED, max_wait_ms=10_000, min_bytes=1
    )
    reader.transport.feed(reader.frame(request, 12))
    broker.settle()
    assert one.write("t", 0, "a") == 0
    assert reader.transport.take() == [], "an open transaction is no news"
    assert one.end(commit=True) == 0
    (answer,) = reader.answers(type(request), 12)
    assert values_of(answer.responses[0].partitions[0])[0] == "a"


def test_verification_can_be_switched_off_while_running() -> None:
    _, one = begun(bumps=False)
    late = one.batch("late")
    assert one.produce_batch("t", 0, late).error_code == ErrorCode.INVALID_TXN_STATE
    key = "transaction.partition.verification.enable"
    config = AlterableConfig(name=key, config_operation=0, value="false")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    answer = one.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message
    assert one.produce_batch("t", 0, late).error_code == 0, "now it hangs, as it was asked to"
    assert one.fetch("t", 0, 0).last_stable_offset == 0


def test_a_plain_write_of_a_producer_in_a_transaction_is_refused() -> None:
    _, one = begun()
    assert one.write("t", 0, "a") == 0
    plain = one.batch("b", sequence=1, is_transactional=False)
    assert one.produce_batch("t", 0, plain).error_code == ErrorCode.INVALID_TXN_STATE
