"""Batches behind a refused one are refused for its reason, until it has come."""

import pytest
from tests.unit.broker.dialogue import batch, dialogue

from headrace.broker.refused_sequences import HELD_MS, PRODUCERS_MAX, RefusedSequences
from headrace.log.producers import Producers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import read_header

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def sent(sequence: int, *, epoch: int = 0, producer_id: int = 9) -> bytes:
    return batch(f"s{sequence}", producer=(producer_id, epoch, sequence))


@pytest.mark.parametrize("written", [0, 3])
def test_a_leader_that_begins_between_two_batches_keeps_their_order(written: int) -> None:
    """What librdkafka would answer with a new epoch, and everything under way a second time."""
    broker, client = dialogue()
    for sequence in range(written):
        assert client.produce("t", 0, sent(sequence)).error_code == 0
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    partition.refusal = NOT_LEADER
    assert client.produce("t", 0, sent(written)).error_code == NOT_LEADER
    partition.refusal = ErrorCode.NONE
    for sequence in (written + 1, written + 2):
        assert client.produce("t", 0, sent(sequence)).error_code == NOT_LEADER
    for sequence in range(written, written + 3):
        assert client.produce("t", 0, sent(sequence)).base_offset == sequence
    assert partition.refused is None
    gap = client.produce("t", 0, sent(written + 5))
    assert gap.error_code == OUT_OF_ORDER, "nothing was refused before it"
    values = [record.value for record in client.read_all("t", 0)]
    assert values == [f"s{sequence}".encode() for sequence in range(written + 3)]


def note(refused: RefusedSequences, sequence: int, now_ms: int, **of: int) -> None:
    refused.note(memoryview(sent(sequence, **of)), NOT_LEADER, now_ms)


def told(refused: RefusedSequences, sequence: int, now_ms: int, **of: int) -> ErrorCode:
    producers = Producers()
    producers.update(read_header(sent(0)), 0, 0)
    return refused.reason(read_header(sent(sequence, **of)), producers, now_ms)


def test_after_a_while_the_ordinary_rules_hold() -> None:
    refused = RefusedSequences()
    note(refused, 5, 0)
    assert told(refused, 7, HELD_MS - 1) == NOT_LEADER
    assert told(refused, 7, HELD_MS) == ErrorCode.NONE
    assert len(refused) == 0


def test_the_first_that_was_refused_counts() -> None:
    refused = RefusedSequences()
    note(refused, 5, 0)
    note(refused, 6, 1)
    assert told(refused, 6, 2) == NOT_LEADER
    note(refused, 4, 3)
    assert told(refused, 5, 4) == NOT_LEADER


def test_one_that_came_elsewhere_holds_nobody_up() -> None:
    refused = RefusedSequences()
    note(refused, 0, 0)
    assert told(refused, 1, 1) == ErrorCode.NONE, "the log has 0, from another leader"
    assert len(refused) == 0


def test_another_epoch_is_another_sequence() -> None:
    refused = RefusedSequences()
    note(refused, 5, 0)
    assert told(refused, 7, 1, epoch=1) == ErrorCode.NONE


def test_nonsense_and_crowds_take_no_room() -> None:
    refused = RefusedSequences()
    for records in (b"", b"\0" * 60, b"\xff" * 200, bytes(batch("without a producer"))):
        refused.note(memoryview(records), NOT_LEADER, 0)
    assert len(refused) == 0
    for producer_id in range(PRODUCERS_MAX + 7):
        note(refused, 3, 0, producer_id=producer_id)
    assert len(refused) == PRODUCERS_MAX
