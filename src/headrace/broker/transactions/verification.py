"""Asking the coordinator whether a batch may be written inside its transaction.

Owns: the question (`Verifier`), and what its errors mean to who produces or commits offsets.
Must not know: where the coordinator is.
Spec: Kafka's AddPartitionsToTxnManager and ReplicaManager's translation of its errors; KIP-890.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from headrace.base.promise import Promise
from headrace.broker.transactions.metadata import VERSION_EPOCH_BUMP, TopicPartition
from headrace.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

PRODUCE_ADDS_SINCE = 12
PRODUCE_ABORTABLE_SINCE = 11
OFFSETS_ADD_SINCE = 5
OFFSETS_ABORTABLE_SINCE = 4

Verified = dict[TopicPartition, ErrorCode]

_NOT_NOW = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    )
)


class Verifier(Protocol):
    """The coordinator of a transactional id, here or elsewhere."""

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Promise[Verified]:
        """For each partition whether it is in the open transaction; with `adds` see that it is."""
        ...


class LocalVerifier:
    """`Verifier` where this broker coordinates the id itself."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Promise[Verified]:
        coordinator = self._broker.transactions
        if not adds:
            if not coordinator.settings.verifies_partitions:
                return Promise.resolved(dict.fromkeys(partitions, ErrorCode.NONE))
            return Promise.resolved(
                coordinator.verify_partitions(
                    transactional_id, producer_id, producer_epoch, partitions
                )
            )
        return coordinator.add_by_writing(
            transactional_id, producer_id, producer_epoch, partitions, VERSION_EPOCH_BUMP
        ).map(lambda error: dict.fromkeys(partitions, error))


def produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """What a producer is told in the words of its version."""
    if error in _NOT_NOW:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # every version sends again on this one
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version < PRODUCE_ADDS_SINCE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < PRODUCE_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """The same for TxnOffsetCommit."""
    if error in _NOT_NOW or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and version < OFFSETS_ADD_SINCE
    ):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < OFFSETS_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
