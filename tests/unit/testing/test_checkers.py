"""Each checker catches the violation planted for it, and nothing else does."""

import pytest

from headrace.testing import checkers
from headrace.testing.history import (
    Commit,
    CommittedOffset,
    Content,
    EndOffset,
    Event,
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

P0 = TopicPartition("events", 0)
P1 = TopicPartition("events", 1)


def ok(sequence: int, value: str, offset: int | None, **more: object) -> Send:
    return Send("p", sequence, value, P0, Outcome.OK, offset, **more)  # type: ignore[arg-type]


def unsure(sequence: int, value: str, outcome: Outcome, **more: object) -> Send:
    return Send("p", sequence, value, P0, outcome, **more)  # type: ignore[arg-type]


def poll(offset: int, value: str, consumer: str = "c", **more: object) -> Poll:
    return Poll(consumer, P0, offset, value, **more)  # type: ignore[arg-type]


def commit(offset: int, outcome: Outcome = Outcome.OK, *, is_reset: bool = False) -> Commit:
    return Commit("g", P0, offset, outcome, is_reset)


CLEAN: dict[str, list[Event]] = {
    "nothing": [],
    "sent and read": [ok(1, "a", 0), ok(2, "b", 1), poll(0, "a"), poll(1, "b")],
    "unknown, absent": [unsure(1, "a", Outcome.INFO), ok(2, "b", 0), poll(0, "b")],
    "unknown, present": [unsure(1, "a", Outcome.INFO), poll(0, "a")],
    "failed, absent": [unsure(1, "a", Outcome.FAIL)],
    "acknowledged without offset": [ok(1, "a", None), poll(7, "a")],
    "two consumers read alike": [ok(1, "a", 0), poll(0, "a"), poll(0, "a", "other")],
    "read again after a seek": [
        ok(1, "a", 0),
        poll(0, "a"),
        Position("c", (P0,)),
        poll(0, "a"),
    ],
    "gap where nobody saw a value": [ok(1, "a", 0), ok(2, "b", 5), poll(0, "a"), poll(5, "b")],
    "aborted, read uncommitted": [
        ok(1, "a", 0, transaction="t"),
        TransactionEnd("t", False, Outcome.OK),
        poll(0, "a", isolation=Isolation.READ_UNCOMMITTED),
    ],
    "below the watermarks": [
        ok(1, "a", 0),
        poll(0, "a", high_watermark=1, last_stable_offset=1),
    ],
    "commits go forward": [commit(1), commit(2), CommittedOffset("g", P0, 2)],
    "reset goes back": [commit(5), commit(0, is_reset=True), CommittedOffset("g", P0, 0)],
    "unknown commit seen": [commit(1), commit(3, Outcome.INFO), CommittedOffset("g", P0, 3)],
    "unknown commit not seen": [commit(1), commit(3, Outcome.INFO), CommittedOffset("g", P0, 1)],
    "owners per generation": [
        Ownership("g", 1, "m1", (P0, P1)),
        Ownership("g", 2, "m1", (P0,)),
        Ownership("g", 2, "m2", (P1,)),
    ],
    "end grows": [EndOffset("c", P0, 1), EndOffset("c", P0, None), EndOffset("c", P0, 1)],
    "same bytes, time by the broker": [
        ok(1, "a", 0, content=Content(b"k", b"a", (("h", None),), 5)),
        poll(0, "a", content=Content(b"k", b"a", (("h", None),), None)),
    ],
}

BROKEN: dict[str, tuple[str, list[Event]]] = {
    "overtaken": ("lost-write", [ok(1, "a", 0), ok(2, "b", 1), poll(1, "b")]),
    "never read": ("unseen", [ok(1, "a", 0), ok(2, "b", 1), poll(0, "a")]),
    "acknowledged without offset, never read": ("unseen", [ok(1, "a", None)]),
    "rewritten": (
        "inconsistent-offsets",
        [
            unsure(1, "a", Outcome.INFO),
            unsure(2, "b", Outcome.INFO),
            poll(0, "a"),
            poll(0, "b", "d"),
        ],
    ),
    "twice": ("duplicate", [ok(1, "a", 0), poll(0, "a"), poll(1, "a")]),
    "unknown twice": ("duplicate", [unsure(1, "a", Outcome.INFO), poll(0, "a"), poll(1, "a")]),
    "failed yet there": ("G1a", [unsure(1, "a", Outcome.FAIL), poll(0, "a")]),
    "aborted yet read": (
        "G1a",
        [ok(1, "a", 0, transaction="t"), TransactionEnd("t", False, Outcome.OK), poll(0, "a")],
    ),
    "own uncommitted write": (
        "precommitted-read",
        [ok(1, "a", 0, transaction="t"), poll(0, "a", transaction="t")],
    ),
    "backwards": (
        "nonmonotonic-poll",
        [ok(1, "a", 0), ok(2, "b", 1), poll(0, "a"), poll(1, "b"), poll(0, "a")],
    ),
    "backwards in a transaction": (
        "int-nonmonotonic-poll",
        [
            ok(1, "a", 0),
            ok(2, "b", 1),
            poll(1, "b", transaction="t"),
            poll(0, "a", transaction="t"),
        ],
    ),
    "left out": (
        "poll-skip",
        [
            ok(1, "a", 0),
            ok(2, "b", 1),
            ok(3, "c", 2),
            poll(0, "a"),
            poll(2, "c"),
            poll(1, "b", "other"),
        ],
    ),
    "out of order": (
        "nonmonotonic-send",
        [ok(1, "a", 1), ok(2, "b", 0), poll(0, "b"), poll(1, "a")],
    ),
    "beyond the high watermark": (
        "exposed-uncommitted",
        [ok(1, "a", 0), poll(0, "a", high_watermark=0)],
    ),
    "commit lost": ("offset-regress", [commit(1), commit(2), CommittedOffset("g", P0, 1)]),
    "commit forgotten": ("offset-regress", [commit(1), CommittedOffset("g", P0, None)]),
    "commit went back": ("offset-regress", [commit(2), commit(1)]),
    "two owners": (
        "double-owner",
        [Ownership("g", 1, "m1", (P0,)), Ownership("g", 1, "m2", (P1, P0))],
    ),
    "end went back": ("hw-regress", [EndOffset("c", P0, 5), EndOffset("c", P0, 4)]),
    "header lost": (
        "byte-drift",
        [
            ok(1, "a", 0, content=Content(b"k", b"a", (("h", b"1"),))),
            poll(0, "a", content=Content(b"k", b"a")),
        ],
    ),
    "time changed": (
        "byte-drift",
        [
            ok(1, "a", 0, content=Content(b"k", b"a", (), 5)),
            poll(0, "a", content=Content(b"k", b"a", (), 6)),
        ],
    ),
}


@pytest.mark.parametrize("events", CLEAN.values(), ids=CLEAN)
def test_clean_history_passes(events: list[Event]) -> None:
    assert checkers.check(History(events)) == []


@pytest.mark.parametrize(("counter", "events"), BROKEN.values(), ids=BROKEN)
def test_planted_violation_is_caught_by_its_checker_alone(
    counter: str, events: list[Event]
) -> None:
    found = checkers.check(History(events))
    assert {violation.counter for violation in found} == {counter}


def test_committed_read_past_the_last_stable_offset_breaks_two_promises() -> None:
    history = History([ok(1, "a", 0), poll(0, "a", high_watermark=1, last_stable_offset=0)])
    found = {violation.counter for violation in checkers.check(history)}
    assert found == {"precommitted-read", "exposed-uncommitted"}


def test_duplicates_are_allowed_without_idempotence() -> None:
    history = History([ok(1, "a", 0), poll(0, "a"), poll(1, "a")])
    assert checkers.check(history, idempotent=False) == []


def test_what_is_not_drained_may_be_unseen() -> None:
    assert checkers.check(History([ok(1, "a", 0)]), drained=False) == []


def test_deleted_records_are_not_lost() -> None:
    history = History([ok(1, "a", 0), ok(2, "b", 1), poll(1, "b")])
    assert checkers.check(history, log_start_offsets={P0: 1}) == []


def test_send_never_settled_is_unknown() -> None:
    history = History()
    history.begin_send("p", "a", P0)
    token = history.begin_send("p", "b", P0)
    history.send_ok(token, P0, 0)
    history.add(poll(0, "b"))
    found = checkers.check(history)
    assert found == []
    assert checkers.summary(history, found) == {
        "ok": 1,
        "fail": 0,
        "info": 1,
        "unknown_present": 0,
        "unknown_absent": 1,
        "violations": {},
    }


def test_a_torn_transaction() -> None:
    """L8: one record of it is seen, another one and its offset are not."""
    whole: list[Event] = [
        unsure(1, "a", Outcome.INFO, transaction="t1"),
        unsure(2, "b", Outcome.INFO, transaction="t1"),
        Commit("g", P0, 5, Outcome.INFO, transaction="t1"),
    ]
    assert checkers.check_atomicity(History(whole)) == [], "nobody saw any of it"
    torn = [*whole, poll(0, "a"), CommittedOffset("g", P0, 4)]
    (violation,) = checkers.check_atomicity(History(torn))
    assert violation.counter == "torn-transaction"
    assert "'b'" in violation.detail
    assert "offset 5" in violation.detail
    assert checkers.check_atomicity(History(torn), drained=False) == []
    mended = [*torn, poll(1, "b"), CommittedOffset("g", P0, 5)]
    assert checkers.check_atomicity(History(mended)) == []


def test_a_circle_of_who_read_from_whom() -> None:
    """L9: t1 read what t2 wrote, and t2 what t1 wrote."""
    sends = [ok(n, f"v{n}", n, transaction=f"t{n}") for n in (1, 2, 3)]
    line: list[Event] = [*sends, poll(1, "v1", transaction="t2"), poll(2, "v2", transaction="t3")]
    assert checkers.check_information_flow(History(line)) == []
    circle = [*line, poll(3, "v3", "d", transaction="t1")]
    (violation,) = checkers.check_information_flow(History(circle))
    assert violation.counter == "G1c"
    assert violation.detail == "t1 → t2 → t3 → t1"
    own = [*sends, poll(1, "v1", transaction="t1")]
    assert checkers.check_information_flow(History(own)) == [], "L5's, not L9's"
