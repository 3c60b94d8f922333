"""Judges of a history: what a log broker promised, as pure functions.

Each checker is named after the property it guards and returns the violations it found, under
the counter names that Jepsen's Kafka tests made common. They know no broker: the same history of
the real Kafka must come out clean, or the checker is wrong.

| id  | checker                 | counters                          |
|-----|-------------------------|-----------------------------------|
| L1  | check_delivery          | lost-write, unseen                |
| L2  | check_offsets           | inconsistent-offsets              |
| L3  | check_duplicates        | duplicate                         |
| L4  | check_aborted_reads     | G1a                               |
| L5  | check_precommitted_reads| precommitted-read                 |
| L6  | check_poll_order        | nonmonotonic-poll, poll-skip (int-… inside one transaction) |
| L7  | check_send_order        | nonmonotonic-send                 |
| L8  | check_atomicity         | torn-transaction                  |
| L9  | check_information_flow  | G1c                               |
| L10 | check_exposure          | exposed-uncommitted               |
| L17 | check_committed_offsets | offset-regress                    |
| L18 | check_ownership         | double-owner                      |
| L19 | check_end_offsets       | hw-regress                        |
| L20 | check_bytes             | byte-drift                        |

L11 to L16 (replicas) come with the code that can break them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from headrace.testing.history import (
    Commit,
    CommittedOffset,
    Content,
    EndOffset,
    History,
    Isolation,
    Outcome,
    Ownership,
    Poll,
    Position,
    Send,
    TopicPartition,
    TransactionEnd,
)
from headrace.testing.transaction_checkers import check_atomicity, check_information_flow
from headrace.testing.violation import Violation as Violation


def check(
    history: History,
    *,
    idempotent: bool = True,
    drained: bool = True,
    log_start_offsets: Mapping[TopicPartition, int] | None = None,
) -> list[Violation]:
    """Every checker that applies. `drained`: consumers read to the end after the last fault."""
    found = check_delivery(history, drained=drained, log_start_offsets=log_start_offsets)
    found += check_offsets(history)
    if idempotent:
        found += check_duplicates(history)
    found += check_aborted_reads(history)
    found += check_precommitted_reads(history)
    found += check_poll_order(history)
    found += check_send_order(history)
    found += check_atomicity(history, drained=drained)
    found += check_information_flow(history)
    found += check_exposure(history)
    found += check_committed_offsets(history)
    found += check_ownership(history)
    found += check_end_offsets(history)
    found += check_bytes(history)
    return found


def check_delivery(
    history: History,
    *,
    drained: bool = True,
    log_start_offsets: Mapping[TopicPartition, int] | None = None,
) -> list[Violation]:
    """L1: what was acknowledged is read by someone.

    Below the highest offset read it is a `lost-write` at once; behind it, `unseen` after a drain.
    Records below the log start offset were deleted on purpose.
    """
    starts = log_start_offsets or {}
    polled = {(poll.partition, poll.value) for poll in history.events(Poll)}
    highest: dict[TopicPartition, int] = {}
    for poll in history.events(Poll):
        highest[poll.partition] = max(poll.offset, highest.get(poll.partition, -1))
    found = []
    for send in _acknowledged(history, with_offset=False):
        assert send.partition is not None
        if (send.partition, send.value) in polled:
            continue
        if send.offset is not None and send.offset < starts.get(send.partition, 0):
            continue
        if send.offset is not None and send.offset <= highest.get(send.partition, -1):
            found.append(Violation("lost-write", _sent(send)))
        elif drained:
            found.append(Violation("unseen", _sent(send)))
    return found


def check_offsets(history: History) -> list[Violation]:
    """L2: one offset holds one value, for everyone and for ever."""
    values: dict[tuple[TopicPartition, int], set[str]] = defaultdict(set)
    for partition, offset, value in _sightings(history):
        values[partition, offset].add(value)
    return [
        Violation("inconsistent-offsets", f"{_at(*where)} held {sorted(seen)}")
        for where, seen in values.items()
        if len(seen) > 1
    ]


def check_duplicates(history: History) -> list[Violation]:
    """L3: with idempotence, one value lies at one offset."""
    places: dict[str, set[tuple[TopicPartition, int]]] = defaultdict(set)
    for partition, offset, value in _sightings(history):
        places[value].add((partition, offset))
    return [
        Violation("duplicate", f"{value!r} at {', '.join(_at(*where) for where in sorted(seen))}")
        for value, seen in places.items()
        if len(seen) > 1
    ]


def check_aborted_reads(history: History) -> list[Violation]:
    """L4: what definitely failed, or was aborted, is not read at read_committed."""
    ends = {end.transaction: end for end in history.events(TransactionEnd)}

    def is_aborted(send: Send) -> bool:
        end = ends.get(send.transaction) if send.transaction is not None else None
        return end is not None and not end.committed and end.outcome is Outcome.OK

    gone = {
        send.value
        for send in history.events(Send)
        if send.outcome is Outcome.FAIL or is_aborted(send)
    }
    return [
        Violation("G1a", _polled(poll))
        for poll in history.events(Poll)
        if poll.value in gone and poll.isolation is Isolation.READ_COMMITTED
    ]


def check_precommitted_reads(history: History) -> list[Violation]:
    """L5: no transaction reads its own uncommitted write; no committed read passes the LSO."""
    writer = {send.value: send.transaction for send in history.events(Send)}
    found = []
    for poll in history.events(Poll):
        if poll.isolation is not Isolation.READ_COMMITTED:
            continue
        own = poll.transaction is not None and writer.get(poll.value) == poll.transaction
        if own or _is_beyond(poll.offset, poll.last_stable_offset):
            found.append(Violation("precommitted-read", _polled(poll)))
    return found


def check_poll_order(history: History) -> list[Violation]:
    """L6: a consumer moves forward and leaves out no offset at which somebody saw a value."""
    known: dict[TopicPartition, set[int]] = defaultdict(set)
    for partition, offset, _ in _sightings(history):
        known[partition].add(offset)
    last: dict[tuple[str, TopicPartition], Poll] = {}
    found: list[Violation] = []
    for event in _in_order(history):
        if isinstance(event, Position):
            for partition in event.partitions:
                last.pop((event.consumer, partition), None)
            continue
        before = last.get((event.consumer, event.partition))
        last[event.consumer, event.partition] = event
        if before is not None:
            found += _step(before, event, known[event.partition])
    return found


def _step(before: Poll, after: Poll, known: set[int]) -> Iterator[Violation]:
    inside = before.transaction is not None and before.transaction == after.transaction
    prefix = "int-" if inside else ""
    if after.offset <= before.offset:
        yield Violation(f"{prefix}nonmonotonic-poll", f"{_polled(after)} after {before.offset}")
        return
    skipped = [offset for offset in range(before.offset + 1, after.offset) if offset in known]
    if skipped:
        yield Violation(f"{prefix}poll-skip", f"{_polled(after)} left out {_short(skipped)}")


def check_send_order(history: History) -> list[Violation]:
    """L7: one producer's sends to a partition lie there in the order of the calls."""
    sent: dict[tuple[str, TopicPartition], list[Send]] = defaultdict(list)
    for send in _acknowledged(history):
        assert send.partition is not None
        sent[send.producer, send.partition].append(send)
    found = []
    for sends in sent.values():
        sends.sort(key=lambda send: send.sequence)
        for earlier, later in pairwise(sends):
            if (earlier.offset or 0) >= (later.offset or 0):
                found.append(Violation("nonmonotonic-send", f"{_sent(later)} after {earlier}"))
    return found


def check_exposure(history: History) -> list[Violation]:
    """L10: nobody receives an offset at or behind the high watermark (the LSO if committed)."""
    return [
        Violation("exposed-uncommitted", _polled(poll))
        for poll in history.events(Poll)
        if _is_beyond(poll.offset, poll.high_watermark)
        or (
            poll.isolation is Isolation.READ_COMMITTED
            and _is_beyond(poll.offset, poll.last_stable_offset)
        )
    ]


def check_committed_offsets(history: History) -> list[Violation]:
    """L17: a group's offset goes back only by a reset, and what was committed is read back.

    A commit of unknown outcome may be read back or not, until the next one that succeeded.
    """
    possible: dict[tuple[str, TopicPartition], set[int]] = {}
    certain: dict[tuple[str, TopicPartition], int] = {}
    found = []
    for event in _commits_in_order(history):
        where = (event.group, event.partition)
        if isinstance(event, CommittedOffset):
            if where in certain and event.offset not in possible[where]:
                detail = f"group {event.group} {event.partition} read back {event.offset}"
                found.append(Violation("offset-regress", f"{detail}, not {certain[where]}"))
        elif event.outcome is Outcome.INFO:
            possible.setdefault(where, set()).add(event.offset)
        elif event.outcome is Outcome.OK:
            if not event.is_reset and event.offset < certain.get(where, -1):
                detail = f"group {event.group} {event.partition} committed {event.offset}"
                found.append(Violation("offset-regress", f"{detail} after {certain[where]}"))
            certain[where] = event.offset
            possible[where] = {event.offset}
    return found


def check_ownership(history: History) -> list[Violation]:
    """L18: in one generation a partition belongs to one member of its group."""
    owners: dict[tuple[str, int, TopicPartition], set[str]] = defaultdict(set)
    for held in history.events(Ownership):
        for partition in held.partitions:
            owners[held.group, held.generation, partition].add(held.member)
    return [
        Violation("double-owner", f"group {group} generation {generation} {partition}: {members}")
        for (group, generation, partition), members in owners.items()
        if len(members) > 1
    ]


def check_end_offsets(history: History) -> list[Violation]:
    """L19: the end of a partition, as one client sees it, never goes back."""
    seen: dict[tuple[str, TopicPartition], int] = {}
    found = []
    for end in history.events(EndOffset):
        if end.offset is None:
            continue
        where = (end.client, end.partition)
        if end.offset < seen.get(where, -1):
            detail = f"{end.client} saw {end.partition} end at {end.offset}"
            found.append(Violation("hw-regress", f"{detail} after {seen[where]}"))
        seen[where] = end.offset
    return found


def check_bytes(history: History) -> list[Violation]:
    """L20: key, value, headers and timestamp come out as they went in."""
    sent = {send.value: send for send in history.events(Send) if send.content is not None}
    found = []
    for poll in history.events(Poll):
        send = sent.get(poll.value)
        if send is None or poll.content is None or send.content is None:
            continue
        if not _is_same(send.content, poll.content):
            found.append(
                Violation("byte-drift", f"{_polled(poll)}: sent {send.content}, got {poll.content}")
            )
    return found


def summary(history: History, violations: Iterable[Violation]) -> dict[str, object]:
    """One line for a run's record: outcomes, counters, and what became of the unknown."""
    polled = {poll.value for poll in history.events(Poll)}
    unknown = [send for send in history.events(Send) if send.outcome is Outcome.INFO]
    present = sum(send.value in polled for send in unknown)
    return {
        **{outcome.value: history.count(outcome) for outcome in Outcome},
        "unknown_present": present,
        "unknown_absent": len(unknown) - present,
        "violations": dict(Counter(violation.counter for violation in violations)),
    }


def _acknowledged(history: History, *, with_offset: bool = True) -> Iterator[Send]:
    for send in history.events(Send):
        if send.outcome is Outcome.OK and send.partition is not None:
            # A duplicate may be acknowledged without its offset (acks=0 always is).
            if with_offset and send.offset is None:
                continue
            yield send


def _sightings(history: History) -> Iterator[tuple[TopicPartition, int, str]]:
    for send in _acknowledged(history):
        assert send.partition is not None
        assert send.offset is not None
        yield send.partition, send.offset, send.value
    for poll in history.events(Poll):
        yield poll.partition, poll.offset, poll.value


def _in_order(history: History) -> Iterator[Poll | Position]:
    for event in history.all_events():
        if isinstance(event, Poll | Position):
            yield event


def _commits_in_order(history: History) -> Iterator[Commit | CommittedOffset]:
    for event in history.all_events():
        if isinstance(event, Commit | CommittedOffset):
            yield event


def _is_beyond(offset: int, limit: int | None) -> bool:
    return limit is not None and offset >= limit


def _is_same(sent: Content, got: Content) -> bool:
    if sent.timestamp_ms is None or got.timestamp_ms is None:
        return sent[:3] == got[:3]
    return sent == got


def _at(partition: TopicPartition, offset: int) -> str:
    return f"{partition.topic}-{partition.partition}@{offset}"


def _sent(send: Send) -> str:
    return f"{send.producer} sent {send.value!r} to {send.partition} offset {send.offset}"


def _polled(poll: Poll) -> str:
    return f"{poll.consumer} read {poll.value!r} at {_at(poll.partition, poll.offset)}"


def _short(offsets: list[int]) -> str:
    shown = ", ".join(str(offset) for offset in offsets[:5])
    return shown if len(offsets) <= 5 else f"{shown} and {len(offsets) - 5} more"
