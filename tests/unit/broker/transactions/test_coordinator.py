"""The coordinator between its log and the partition leaders, one of them slow or failing."""

from typing import Any

import pytest
from tests.unit.broker.transactions.stage import Marker, MemoryStateLog, Stage

from headrace.base.promise import Promise
from headrace.broker.transactions.coordinator import ADD_WAIT_MS_MAX
from headrace.broker.transactions.markers import RETRY_BACKOFF_MS
from headrace.broker.transactions.verdicts import ProducerAnswer
from headrace.wire.kafka.errors import ErrorCode

NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_transaction_from_its_beginning_to_its_end() -> None:
    stage = Stage()
    who = stage.began(("t", 0), ("t", 1))
    assert (who.producer_id, who.producer_epoch) == (101, 0)
    ended = stage.end(who).value()
    assert ended == ProducerAnswer(NONE, 101, 1)
    assert stage.peers.sent == [Marker(1, 101, 1, True, 3, (("t", 0), ("t", 1)))]
    assert stage.log.states() == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
    ]


def test_the_answer_comes_before_the_markers_and_blocks_the_id_until_they_are_written() -> None:
    stage = Stage()
    who = stage.began()
    stage.peers.is_holding = True
    ended = stage.end(who)
    assert ended.value().error is NONE
    assert stage.state == "PrepareCommit"
    following = ended.value()
    assert stage.add(following, ("t", 0)).value() is BUSY
    assert stage.init().value().error is BUSY
    assert stage.end(following).value().error is ErrorCode.PRODUCER_FENCED
    assert stage.end(who).value().error is BUSY, "a repeated question"
    stage.peers.release()
    assert stage.state == "CompleteCommit"
    assert stage.end(who).value() == following
    assert stage.add(following, ("t", 0)).value() is NONE


def test_a_writer_waits_for_the_markers_instead_of_coming_again() -> None:
    stage = Stage()
    who = stage.began()
    stage.peers.is_holding = True
    following = stage.end(who).value()
    waiting = [
        stage.coordinator.add_by_writing("id", following.producer_id, 1, [("t", index)], 2)
        for index in (0, 1)
    ]
    assert [one.settled for one in waiting] == [False, False]
    stage.peers.release()
    assert [one.value() for one in waiting] == [NONE, NONE]
    assert stage.metadata().partitions == {("t", 0), ("t", 1)}


def test_a_writer_does_not_wait_for_ever() -> None:
    stage = Stage()
    who = stage.began()
    stage.peers.is_holding = True
    following = stage.end(who).value()
    waiting = stage.coordinator.add_by_writing("id", following.producer_id, 1, [("t", 0)], 2)
    stage.timers.advance(ADD_WAIT_MS_MAX)
    assert waiting.value() is BUSY
    stage.peers.release()
    assert stage.state == "CompleteCommit", "nobody was added behind its back"


def test_writers_are_let_through_in_order() -> None:
    stage = Stage()
    who = stage.init().value()
    order: list[int] = []
    stage.log.is_holding = True
    for number in range(3):
        added = stage.coordinator.add_by_writing(
            "id", who.producer_id, 0, [("t", min(number, 1))], 2
        )
        added.then(lambda _, number=number: order.append(number))  # type: ignore[misc]
    for _ in range(3):
        stage.log.release()
    assert order == [0, 1, 2]


def test_nothing_is_true_before_the_log_has_it() -> None:
    stage = Stage()
    who = stage.began()
    stage.log.is_holding = True
    ended = stage.end(who)
    assert not ended.settled
    assert stage.state == "Ongoing"
    assert stage.peers.sent == []
    assert stage.end(who).value().error is BUSY
    stage.log.release()
    assert ended.value().error is NONE
    assert len(stage.peers.sent) == 1
    stage.log.release()
    assert stage.state == "CompleteCommit"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_log_that_refuses(code: ErrorCode, told: ErrorCode) -> None:
    stage = Stage()
    who = stage.began()
    stage.log.refusal = int(code)
    assert stage.end(who).value() == ProducerAnswer(told)
    assert stage.init().value().error is told
    assert stage.add(who, ("t", 5)).value() is told
    assert stage.state == "Ongoing"
    stage.log.refusal = 0
    assert stage.end(who).value().error is NONE


def test_the_last_record_is_tried_until_it_is_written() -> None:
    stage = Stage()
    who = stage.began()
    stage.peers.is_holding = True
    following = stage.end(who).value()
    stage.log.refusal = int(ErrorCode.NOT_ENOUGH_REPLICAS)
    stage.peers.release()
    assert stage.state == "PrepareCommit"
    assert stage.add(following, ("t", 0)).value() is BUSY
    stage.log.refusal = 0
    stage.timers.advance(RETRY_BACKOFF_MS)
    assert stage.state == "CompleteCommit"
    assert len(stage.peers.sent) == 1, "markers are not written again"


def test_a_leader_that_is_not_ready_is_asked_again_for_what_it_owes() -> None:
    stage = Stage()
    stage.peers.leaders = {("t", 0): 1, ("t", 1): 2, ("t", 2): None}
    stage.peers.errors = {("t", 1): [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 2}
    who = stage.began(("t", 0), ("t", 1), ("t", 2))
    assert stage.end(who, commit=False).value().error is NONE
    assert [(m.leader, m.partitions) for m in stage.peers.sent] == [
        (1, (("t", 0),)),
        (2, (("t", 1),)),
    ]
    stage.peers.leaders["t", 2] = 3
    stage.timers.advance(RETRY_BACKOFF_MS)
    stage.timers.advance(RETRY_BACKOFF_MS)
    assert [(m.leader, m.partitions) for m in stage.peers.sent[2:]] == [
        (2, (("t", 1),)),
        (3, (("t", 2),)),
        (2, (("t", 1),)),
    ]
    assert stage.state == "CompleteAbort"


def test_a_topic_that_is_gone_owes_nothing() -> None:
    stage = Stage()
    who = stage.began(("t", 0), ("gone", 0))
    stage.peers.gone = {("gone", 0)}
    assert stage.end(who).value().error is NONE
    assert stage.peers.sent[0].partitions == (("t", 0),)
    assert stage.state == "CompleteCommit"


@pytest.mark.parametrize(
    "error", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
)
def test_who_was_overtaken_stops_sending(error: ErrorCode) -> None:
    stage = Stage()
    stage.peers.errors = {("t", 0): [int(error)]}
    who = stage.began(("t", 0), ("t", 1))
    assert stage.end(who).value().error is NONE
    stage.timers.advance(10 * RETRY_BACKOFF_MS)
    assert len(stage.peers.sent) == 1
    assert stage.state == "PrepareCommit"


@pytest.mark.parametrize("commit", [True, False])
def test_whoever_loads_a_prepared_transaction_completes_it(commit: bool) -> None:
    stage = Stage()
    who = stage.began()
    stage.peers.is_holding = True
    stage.end(who, commit=commit)
    stage.peers.is_holding = False
    stage.coordinator.shutdown()
    stage.log.epoch = 4
    stage.open()
    assert stage.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert stage.peers.sent[-1] == Marker(1, 101, 1, commit, 4, (("t", 0),))
    # The old coordinator's answers come late and change nothing.
    count = len(stage.log.states())
    stage.peers.release()
    assert len(stage.log.states()) == count


def test_a_partition_that_moves_away_takes_its_transitions_with_it() -> None:
    stage = Stage()
    who = stage.began()
    stage.log.is_holding = True
    ended = stage.end(who)
    waiting = stage.coordinator.add_by_writing("id", 101, 0, [("t", 1)], 2)
    stage.log.local.clear()
    stage.coordinator.unload(0)
    assert waiting.value() is ErrorCode.NOT_COORDINATOR
    stage.log.release()
    assert ended.value().error is ErrorCode.NOT_COORDINATOR
    assert stage.peers.sent == [], "the markers are the next coordinator's"
    assert stage.init().value().error is ErrorCode.NOT_COORDINATOR


def test_a_new_leader_epoch_is_a_new_load() -> None:
    stage = Stage()
    who = stage.began()
    stage.log.is_holding = True
    ended = stage.end(who)
    stage.log.epoch = 9
    stage.log.is_holding = False
    # Any question finds the partition led anew, and reads what the log says.
    assert stage.state == "CompleteCommit"
    assert stage.peers.sent[-1].coordinator_epoch == 9
    stage.log.release()
    assert ended.value().error is ErrorCode.NOT_COORDINATOR
    assert stage.state == "CompleteCommit"


def test_a_load_is_in_steps() -> None:
    stage = Stage()
    for number in range(2_500):
        assert stage.init(id_=f"id-{number}").value().error is NONE
    stage.open()
    assert stage.init(id_="id-1").value().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stage.coordinator.all() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stage.coordinator.describe("id-1") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.timers.run_due()
    answer = stage.init(id_="id-1").value()
    assert (answer.error, answer.producer_epoch) == (NONE, 1)


def test_two_that_come_first_at_once_share_the_id() -> None:
    stage = Stage()
    stage.log.is_holding = True
    first, second = stage.init(), stage.init()
    assert second.value().error is BUSY
    stage.log.release()
    assert first.value().error is NONE


def test_an_id_without_a_producer_id_to_be_had() -> None:
    stage = Stage()
    stage.coordinator._fresh_producer_id = lambda: Promise.resolved(-1)
    assert stage.init().value().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_that_are_not_allowed(timeout_ms: int) -> None:
    answer = Stage().init(timeout_ms=timeout_ms).value()
    assert answer.error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("server_version", [0, 2])
def test_an_overdue_transaction_is_aborted_and_its_producer_fenced(server_version: int) -> None:
    stage = Stage(server_version=server_version)
    version = server_version
    who = stage.began(version=version)
    stage.timers.advance(60_000)
    assert stage.state == "Ongoing"
    stage.timers.advance(10_001)
    assert stage.state == "CompleteAbort"
    assert stage.metadata().producer_epoch == 1
    assert stage.peers.sent[-1].is_commit is False
    assert stage.coordinator.counters.timed_out == 1
    late = stage.end(who, commit=True, version=version).value()
    if server_version:
        # Its epoch is one behind, as if it had aborted itself: a commit contradicts that.
        assert late.error is ErrorCode.INVALID_TXN_STATE
        assert stage.end(who, commit=False).value() == ProducerAnswer(NONE, 101, 1)
    else:
        assert late.error is ErrorCode.PRODUCER_FENCED
    assert stage.add(who, ("t", 0)).value() is ErrorCode.PRODUCER_FENCED


def test_an_idle_id_is_forgotten() -> None:
    stage = Stage()
    who = stage.began()
    stage.end(who)
    stage.timers.advance(10_000_000)
    assert stage.log.states()[-1] == "CompleteCommit"
    stage.timers.advance(3_600_000)
    assert stage.log.states()[-1] == "tombstone"
    assert stage.coordinator.describe("id") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert stage.add(who, ("t", 0)).value() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stage.open()
    assert stage.coordinator.all() == []
    assert stage.init().value().producer_id == 102


def test_a_tombstone_that_is_refused_keeps_the_id() -> None:
    stage = Stage()
    stage.init()
    stage.log.is_holding = True
    stage.timers.advance(10_000_001)
    assert stage.coordinator.upkeep.forget_expired() == 1
    assert stage.coordinator.describe("id") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert stage.init().value().error is BUSY
    stage.log.release(int(ErrorCode.NOT_ENOUGH_REPLICAS))
    stage.log.is_holding = False
    assert stage.init().value().error is NONE


def test_ids_spread_over_partitions_as_kafka_s_do() -> None:
    stage = Stage(log=MemoryStateLog(50))
    # String.hashCode of "dumped-id" modulo 50, as the Java client computes it.
    assert stage.coordinator.partition_for("dumped-id") == 27


def test_a_stopped_coordinator_sends_everybody_away() -> None:
    stage = Stage()
    who = stage.began()
    stage.log.is_holding = True
    ended = stage.end(who)
    stage.coordinator.shutdown()
    stage.log.release()
    assert ended.value().error is ErrorCode.NOT_COORDINATOR
    assert stage.init().value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.coordinator.all() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.log.states()[-1] == "PrepareCommit"


def test_counts_for_metrics() -> None:
    stage = Stage()
    who = stage.began()
    assert stage.coordinator.counts() == {"Ongoing": 1}
    stage.end(who, commit=False)
    counters: Any = stage.coordinator.counters
    assert (counters.committed, counters.aborted) == (0, 1)
