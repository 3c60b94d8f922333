"""What a decision on a transaction may come to, besides an error code.

A `TransactionMetadata` is the next state: true once the log has it, not before.
"""

from dataclasses import dataclass
from enum import Enum

from headrace.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from headrace.wire.kafka.errors import ErrorCode


class Need(Enum):
    PRODUCER_ID = "producer id"
    """Epochs are used up: ask again with a fresh producer id."""


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """Nothing to write: the question repeats one that was answered, with this."""

    producer_id: int
    producer_epoch: int


Verdict = ErrorCode | TransactionMetadata
EndVerdict = ErrorCode | TransactionMetadata | AlreadyDone | Need
InitVerdict = ErrorCode | TransactionMetadata | Need


@dataclass(frozen=True, slots=True)
class ProducerAnswer:
    """What InitProducerId and EndTxn tell: an error, or the id and epoch to go on with."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
