"""The states of a transaction, and which may follow which.

Spec: Kafka's TransactionState: numbers are those of the log's records, names those that
DescribeTransactions and ListTransactions tell.

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ─┐
      ▲  └───────┬──────▶ PrepareAbort ───▶ CompleteAbort ──┤
      └──────────┴──────────────────────────────────────────┘
    PrepareEpochFence: an Ongoing transaction on its way to PrepareAbort with a new epoch; it is
    never written. Dead: a tombstone is on its way to the log.
"""

from enum import Enum


class TransactionState(Enum):
    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    number: int
    title: str

    def __new__(cls, number: int, title: str) -> "TransactionState":
        state = object.__new__(cls)
        state._value_ = (number, title)
        state.number = number
        state.title = title
        return state


BY_NUMBER = {state.number: state for state in TransactionState}
BY_TITLE = {state.title: state for state in TransactionState}

ENDED = frozenset(
    (
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
)
"""Nothing is open: a new transaction or a new epoch may begin, or the id be forgotten."""

PREPARED = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))
"""The outcome is decided and its markers are on their way."""

PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: ENDED,
    TransactionState.ONGOING: ENDED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    # From an ended one too: with transactions v2 a producer may abort what it never began.
    TransactionState.PREPARE_ABORT: ENDED | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
    TransactionState.DEAD: ENDED,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset((TransactionState.ONGOING,)),
}
"""What each state may follow."""
