"""InitProducerId's decisions: who gets which epoch, who is fenced, when ids rotate."""

from dataclasses import replace

import pytest

from headrace.broker.transactions.fencing import decide_init, fence
from headrace.broker.transactions.metadata import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from headrace.broker.transactions.states import TransactionState
from headrace.broker.transactions.verdicts import InitVerdict, Need
from headrace.wire.kafka.errors import ErrorCode

NOW_MS = 1_000
FRESH = TransactionMetadata("id", 7, 60_000)
USED = replace(FRESH, producer_epoch=4, state=TransactionState.COMPLETE_COMMIT)
OPEN = replace(
    USED, state=TransactionState.ONGOING, partitions=frozenset({("t", 0)}), start_timestamp_ms=5
)
SPENT = replace(USED, producer_epoch=EPOCH_HANDED_OUT_MAX)


def init(
    metadata: TransactionMetadata,
    expected: tuple[int, int] | None = None,
    *,
    server_version: int = 2,
    fresh_producer_id: int | None = None,
) -> InitVerdict:
    asked = None if expected is None else ProducerIdAndEpoch(*expected)
    return decide_init(
        metadata,
        asked,
        30_000,
        NOW_MS,
        server_version=server_version,
        fresh_producer_id=fresh_producer_id,
    )


def given(verdict: InitVerdict) -> tuple[int, int]:
    assert isinstance(verdict, TransactionMetadata)
    assert verdict.state is TransactionState.EMPTY
    assert verdict.partitions == frozenset()
    assert (verdict.timeout_ms, verdict.last_update_timestamp_ms) == (30_000, NOW_MS)
    return verdict.producer_id, verdict.producer_epoch


def test_a_new_id_begins_at_epoch_0() -> None:
    assert given(init(FRESH)) == (7, 0)
    assert given(init(FRESH, (99, 3))) == (7, 0), "it recovers from an id that was forgotten"


def test_each_question_bumps_the_epoch() -> None:
    assert given(init(USED)) == (7, 5)


def test_who_names_the_current_epoch_goes_on_and_may_repeat_it() -> None:
    bumped = init(USED, (7, 4))
    assert given(bumped) == (7, 5)
    assert isinstance(bumped, TransactionMetadata)
    assert bumped.last_producer_epoch == 4
    again = init(bumped, (7, 4))
    assert given(again) == (7, 5), "its answer got lost: no second bump"
    assert init(bumped, (7, 3)) is ErrorCode.PRODUCER_FENCED


def test_a_question_without_an_epoch_ends_the_right_to_repeat() -> None:
    bumped = init(USED, (7, 4))
    assert isinstance(bumped, TransactionMetadata)
    taken_over = init(bumped)
    assert given(taken_over) == (7, 6)
    assert isinstance(taken_over, TransactionMetadata)
    assert init(taken_over, (7, 4)) is ErrorCode.PRODUCER_FENCED
    assert init(taken_over, (7, 5)) is ErrorCode.PRODUCER_FENCED


def test_another_producer_id_is_fenced() -> None:
    assert init(USED, (8, 4)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_an_end_on_its_way_must_come_first(state: TransactionState) -> None:
    assert init(replace(OPEN, state=state)) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(("server_version", "last_epoch"), [(0, -1), (2, 4)])
def test_an_open_transaction_is_aborted_under_the_next_epoch(
    server_version: int, last_epoch: int
) -> None:
    verdict = init(OPEN, server_version=server_version)
    assert isinstance(verdict, TransactionMetadata)
    assert verdict.state is TransactionState.PREPARE_ABORT
    assert (verdict.producer_epoch, verdict.last_producer_epoch) == (5, last_epoch)
    assert verdict.partitions == OPEN.partitions
    assert verdict.client_version == server_version


def test_the_last_epoch_of_all_still_fences() -> None:
    at_the_end = replace(OPEN, producer_epoch=EPOCH_HANDED_OUT_MAX)
    fenced = fence(at_the_end, NOW_MS, server_version=2)
    assert fenced.producer_epoch == EPOCH_MAX
    broken = replace(OPEN, producer_epoch=EPOCH_MAX)
    assert fence(broken, NOW_MS, server_version=2).producer_epoch == EPOCH_MAX


def test_a_spent_id_is_rotated() -> None:
    assert init(SPENT) is Need.PRODUCER_ID
    rotated = init(SPENT, fresh_producer_id=100)
    assert given(rotated) == (100, 0)
    assert isinstance(rotated, TransactionMetadata)
    assert (rotated.previous_producer_id, rotated.last_producer_epoch) == (7, -1)


def test_who_rotated_by_its_own_question_may_repeat_it() -> None:
    rotated = init(SPENT, (7, EPOCH_HANDED_OUT_MAX), fresh_producer_id=100)
    assert isinstance(rotated, TransactionMetadata)
    again = init(rotated, (7, EPOCH_HANDED_OUT_MAX))
    assert given(again) == (100, 0)
    assert init(rotated, (7, 3)) is ErrorCode.PRODUCER_FENCED
