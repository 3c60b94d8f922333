"""Judges of transactions: whole or not at all, and no circles of who read from whom.

Pure functions over a history, as `checkers`, which runs them with the others.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from headrace.testing.history import (
    Commit,
    CommittedOffset,
    History,
    Isolation,
    Outcome,
    Poll,
    Send,
)
from headrace.testing.violation import Violation


def check_atomicity(history: History, *, drained: bool = True) -> list[Violation]:
    """L8: who reads one record of a transaction finds all its records and its offsets.

    Judged after a drain, and by read_committed readers alone.
    """
    if not drained:
        return []
    polled = {
        (poll.partition, poll.value)
        for poll in history.events(Poll)
        if poll.isolation is Isolation.READ_COMMITTED
    }
    last_read = {(read.group, read.partition): read for read in history.events(CommittedOffset)}
    missing: dict[str, list[str]] = defaultdict(list)
    seen: set[str] = set()
    for send in history.events(Send):
        if send.transaction is None or send.partition is None or send.outcome is Outcome.FAIL:
            continue
        if (send.partition, send.value) in polled:
            seen.add(send.transaction)
        else:
            missing[send.transaction].append(send.value)
    for commit in history.events(Commit):
        read = last_read.get((commit.group, commit.partition))
        if commit.transaction is None or commit.outcome is Outcome.FAIL or read is None:
            continue
        if read.offset is None or read.offset < commit.offset:
            missing[commit.transaction].append(f"offset {commit.offset} of {commit.group}")
    return [
        Violation("torn-transaction", f"{transaction} was seen without {missing[transaction][:5]}")
        for transaction in sorted(seen)
        if missing[transaction]
    ]


def check_information_flow(history: History) -> list[Violation]:
    """L9: no circle of transactions that each read what the one before wrote (G1c)."""
    writer = {send.value: send.transaction for send in history.events(Send)}
    readers: dict[str, set[str]] = defaultdict(set)
    for poll in history.events(Poll):
        wrote = writer.get(poll.value)
        if wrote is not None and poll.transaction is not None and wrote != poll.transaction:
            readers[wrote].add(poll.transaction)
    found: list[Violation] = []
    done: set[str] = set()
    for start in sorted(readers):
        circle = _circle_from(start, readers, done)
        if circle:
            found.append(Violation("G1c", " → ".join(circle)))
    return found


def _circle_from(start: str, readers: Mapping[str, set[str]], done: set[str]) -> list[str]:
    """The first circle on a walk along who read from whom; what was walked is `done`."""
    path: list[str] = []
    waiting: list[Iterator[str]] = []

    def enter(transaction: str) -> None:
        path.append(transaction)
        waiting.append(iter(sorted(readers.get(transaction, ()))))

    if start not in done:
        enter(start)
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
            done.add(path.pop())
        elif step in path:
            done.update(path)
            return [*path[path.index(step) :], step]
        elif step not in done:
            enter(step)
    return []
