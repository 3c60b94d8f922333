"""The aborted transactions of one segment: `<base>.txnindex`.

    entry (34 bytes, big endian)
    +---------------+-------------+--------------+-------------+--------------------+
    | version int16 | producer id | first offset | last offset | last stable offset |
    +---------------+-------------+--------------+-------------+--------------------+
    all but the version int64

An entry stands in the segment that holds the abort marker (at `last offset`). Most segments have
no such file at all.

Owns: this format and the question which aborted transactions touch a range of offsets.
Must not know: markers, producers. Spec: Kafka's TransactionIndex and AbortedTxn.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

VERSION = 0
SUFFIX = ".txnindex"
_ENTRY = Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """What the last stable offset became when this transaction ended."""


def encode(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _ENTRY.pack(VERSION, t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset)
        for t in transactions
    )


def decode(content: bytes) -> list[AbortedTransaction] | None:
    """None if this can't be such an index: then the log itself must tell."""
    if len(content) % ENTRY_BYTES:
        return None
    transactions: list[AbortedTransaction] = []
    for version, producer_id, first, last, stable in _ENTRY.iter_unpack(content):
        if version != VERSION or not 0 <= first <= last:
            return None
        if transactions and last <= transactions[-1].last_offset:
            return None
        transactions.append(AbortedTransaction(producer_id, first, last, stable))
    return transactions


def touching(
    transactions: Iterable[AbortedTransaction], start_offset: int, end_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Those with records in [start, end), and whether no later entry can have any."""
    found: list[AbortedTransaction] = []
    for transaction in transactions:
        if transaction.last_offset >= start_offset and transaction.first_offset < end_offset:
            found.append(transaction)
        if transaction.last_stable_offset >= end_offset:
            return found, True
    return found, False
