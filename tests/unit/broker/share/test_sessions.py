"""Share sessions: epochs, limits, connections."""

from headrace.broker.share.sessions import FINAL_EPOCH, ShareSession, ShareSessions
from headrace.wire.kafka.errors import ErrorCode

KEY = ("g", "m")
ONE, TWO, THREE = (b"t", 0), (b"t", 1), (b"t", 2)


def opened(
    sessions: ShareSessions, key: tuple[str, str] = KEY, connection: int = 1
) -> ShareSession:
    session = sessions.open(key, connection)
    assert isinstance(session, ShareSession)
    return session


def test_epochs_go_up_by_one_and_wrap_to_one() -> None:
    sessions = ShareSessions(10)
    session = opened(sessions)
    assert sessions.next(KEY, 1) is session
    assert sessions.next(KEY, 1) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.next(KEY, 3) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.next(KEY, 2) is session
    session.epoch = 2**31 - 1
    assert sessions.next(KEY, 2**31 - 1) is session
    assert session.epoch == 1


def test_the_final_epoch_needs_a_session_and_no_number() -> None:
    sessions = ShareSessions(10)
    assert sessions.next(KEY, FINAL_EPOCH) == ErrorCode.SHARE_SESSION_NOT_FOUND
    session = opened(sessions)
    assert sessions.next(KEY, FINAL_EPOCH) is session
    assert sessions.remove(KEY) is session
    assert sessions.remove(KEY) is None


def test_a_member_that_begins_anew_takes_the_place_of_its_old_session() -> None:
    sessions = ShareSessions(1)
    opened(sessions, connection=1)
    session = opened(sessions, connection=2)
    assert sessions.of_connection(1) == []
    assert sessions.of_connection(2) == [KEY]
    assert sessions.get(KEY) is session
    assert sessions.open(("g", "n"), 3) == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_connection_may_have_sessions_of_several_members() -> None:
    sessions = ShareSessions(10)
    for member in ("b", "a"):
        opened(sessions, ("g", member), connection=1)
    opened(sessions, ("h", "c"), connection=2)
    assert sessions.of_connection(1) == [("g", "a"), ("g", "b")]
    assert len(sessions) == 3
    sessions.remove(("g", "a"))
    assert sessions.has_group("g")
    sessions.remove(("g", "b"))
    assert not sessions.has_group("g")
    assert sessions.has_group("h")
    assert sessions.of_connection(1) == []


def test_partitions_come_and_go_and_take_turns() -> None:
    session = opened(ShareSessions(10))
    assert session.in_turn() == []
    session.update([ONE, TWO, THREE], [])
    session.update([TWO], [ONE, (b"x", 9)])
    assert sorted(session.in_turn()) == [TWO, THREE]
    firsts = set()
    for epoch in (1, 2):
        session.epoch = epoch
        firsts.add(session.in_turn()[0])
    assert firsts == {TWO, THREE}
