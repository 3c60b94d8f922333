"""Acknowledgements as requests bring them: checked, and taken to their share-partitions.

Owns: what of a batch of acknowledgements is malformed, which share-partition it is for.
Must not know: which transitions there are; sessions.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.base.promise import Promise
from headrace.broker.share.partition.states import Acknowledgement, AcknowledgeType
from headrace.broker.share.sessions import PartitionKey, SessionKey
from headrace.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class AskedBatch(Protocol):
    """An AcknowledgementBatch of ShareFetch or ShareAcknowledge."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


Asked = dict[PartitionKey, list[Acknowledgement] | ErrorCode]
Acknowledged = dict[PartitionKey, ErrorCode]


def checked(batches: Sequence[AskedBatch], *, may_renew: bool) -> list[Acknowledgement] | ErrorCode:
    """In ascending order, without overlaps, with one known type for all or for each."""
    found: list[Acknowledgement] = []
    last = -1
    for batch in batches:
        types = tuple(batch.acknowledge_types)
        count = batch.last_offset - batch.first_offset + 1
        if batch.first_offset <= last or count <= 0 or not types:
            return ErrorCode.INVALID_REQUEST
        if len(types) not in (1, count):
            return ErrorCode.INVALID_REQUEST
        highest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
        if min(types) < AcknowledgeType.GAP or max(types) > highest:
            return ErrorCode.INVALID_REQUEST
        found.append(Acknowledgement(batch.first_offset, batch.last_offset, types))
        last = batch.last_offset
    return found


def acknowledge(broker: "Broker", session: SessionKey, asked: Asked) -> Promise[Acknowledged]:
    """Resolved once each share-partition has said what came of it."""
    group_id, member_id = session
    answers: list[tuple[PartitionKey, Promise[ErrorCode]]] = []
    for key, batches in asked.items():
        if isinstance(batches, ErrorCode):
            answers.append((key, Promise.resolved(batches)))
        else:
            answers.append((key, _acknowledge_one(broker, group_id, member_id, key, batches)))
    return _all(answers)


def _acknowledge_one(
    broker: "Broker",
    group_id: str,
    member_id: str,
    key: PartitionKey,
    batches: list[Acknowledgement],
) -> Promise[ErrorCode]:
    partition = broker.partitions.find(*key)
    if partition is None:
        return Promise.resolved(broker.partitions.missing(*key))
    if partition.refusal:
        return Promise.resolved(partition.refusal)
    hosted = broker.shares.find(group_id, partition)
    if hosted is None:
        # Nothing was handed out since we lead: whoever held a record holds it no more.
        return Promise.resolved(ErrorCode.INVALID_RECORD_STATE)
    return hosted.acknowledge(member_id, batches)


def _all(answers: Iterable[tuple[PartitionKey, Promise[ErrorCode]]]) -> Promise[Acknowledged]:
    answers = list(answers)
    done: Promise[Acknowledged] = Promise()
    errors: Acknowledged = {}
    left = len(answers)

    def on_one(key: PartitionKey, answer: Promise[ErrorCode]) -> None:
        nonlocal left
        errors[key] = answer.value()
        left -= 1
        if not left:
            done.resolve(errors)

    if not answers:
        done.resolve(errors)
    for key, answer in answers:
        answer.then(lambda settled, key=key: on_one(key, settled))  # type: ignore[misc]
    return done
