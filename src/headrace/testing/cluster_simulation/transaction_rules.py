"""What must hold of transactions when a cluster's life is over and all is at rest.

| rule | what holds |
|------|------------|
| L1  | what was acknowledged as committed is seen |
| L3  | nothing is seen twice |
| L4  | nothing of a transaction that was aborted, or never asked to commit, is seen |
| L5  | nothing is read before its transaction ends (`CommittedReader` looks at every answer, a
|     | `Transactor` for its own) |
| L6  | readers saw just what a last reading sees, in its order |
| L8  | of each transaction all is seen or nothing, its offset too |
| L9  | no circle of transactions that read from each other |
| L21 | no transaction stays open |
"""

from collections.abc import Iterable, Mapping

from headrace.log.transactions import read_marker
from headrace.testing.cluster_simulation.clients import Key
from headrace.testing.cluster_simulation.transactors import CommittedReader, Fate, Transaction
from headrace.testing.history import History, Outcome, Poll, Send, TopicPartition
from headrace.testing.quorum.violation import Violation
from headrace.testing.transaction_checkers import check_information_flow
from headrace.wire.kafka.record_batch import BatchHeader
from headrace.wire.kafka.records import read_records

Batches = Iterable[tuple[BatchHeader, bytes | memoryview]]


def visible(batches: Batches, index: int) -> list[bytes]:
    """The values of a whole partition that a committed reader sees, by markers alone."""
    seen: list[tuple[int, list[bytes]]] = []
    still_open: dict[int, list[tuple[int, list[bytes]]]] = {}
    for header, batch in batches:
        if header.is_control:
            marker = read_marker(batch)
            written = still_open.pop(header.producer_id, [])
            if marker is not None and not marker.is_abort:
                seen += written
            continue
        one = (header.base_offset, [record.value or b"" for record in read_records(batch)])
        if header.is_transactional:
            still_open.setdefault(header.producer_id, []).append(one)
        else:
            seen.append(one)
    if still_open:
        raise Violation("L21", f"{index}: open for ever: {still_open}")
    return [value for _, values in sorted(seen) for value in values]


def judge(
    contents: Mapping[Key, Batches],
    transactions: Iterable[Transaction],
    readers: Mapping[Key, CommittedReader],
) -> dict[Key, set[bytes]]:
    """What is seen, by partition, if all is well."""
    seen: dict[Key, list[bytes]] = {}
    for key, batches in contents.items():
        seen[key] = visible(batches, key[1])
        if len(set(seen[key])) < len(seen[key]):
            raise Violation("L3", f"{key[1]}: a value is seen twice")
        if readers[key].seen != seen[key]:
            raise Violation("L6", f"{key[1]}: {_difference(readers[key].seen, seen[key])}")
    known = {key: set(values) for key, values in seen.items()}
    made = list(transactions)
    for transaction in made:
        _judge_one(transaction, known)
    judge_flow([each for each in made if _is_seen(each, known)])
    return known


def judge_offset(
    transactions: Iterable[Transaction], known: Mapping[Key, set[bytes]], found: int
) -> None:
    """L8: of one producer, the offset of its group is that of the last transaction that is seen."""
    offsets = [each.offset for each in transactions if _is_seen(each, known)]
    if found != max(offsets, default=-1):
        raise Violation("L8", f"the group knows {found}; seen are those with {offsets}")


def judge_flow(seen: Iterable[Transaction]) -> None:
    """L9, of transactions that were committed."""
    history, place = History(), TopicPartition("", 0)
    for transaction in seen:
        name = transaction.name.decode()
        for value in (value for values in transaction.values.values() for value in values):
            history.add(Send(name, 0, value.decode(), place, Outcome.OK, transaction=name))
        for value in transaction.read:
            history.add(Poll(name, place, 0, value.decode(), transaction=name))
    for circle in check_information_flow(history):
        raise Violation("L9", str(circle))


def _is_seen(transaction: Transaction, known: Mapping[Key, set[bytes]]) -> bool:
    return any(
        value in known[key] for key, values in transaction.values.items() for value in values
    )


def _judge_one(transaction: Transaction, known: Mapping[Key, set[bytes]]) -> None:
    there = [v in known[key] for key, values in transaction.values.items() for v in values]
    told = f"{transaction.name!r}, {transaction.fate.name}: {sum(there)} of {len(there)} are seen"
    if transaction.fate is Fate.COMMITTED and not all(there):
        raise Violation("L1", told)
    if transaction.fate in (Fate.OPEN, Fate.ABORTED) and any(there):
        raise Violation("L4", told)
    if any(there) != all(there):
        raise Violation("L8", told)


def _difference(read: list[bytes], there: list[bytes]) -> str:
    at = next(
        (n for n, pair in enumerate(zip(read, there, strict=False)) if pair[0] != pair[1]),
        min(len(read), len(there)),
    )
    return f"from {at} on {read[at : at + 3]} was read and {there[at : at + 3]} is there"
