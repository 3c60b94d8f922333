"""Who is heard of, for how long, and who only got a fresh session."""

from headrace.cluster.sessions import BrokerSessions


def test_a_heartbeat_lasts_for_the_time_out() -> None:
    sessions = BrokerSessions(100)
    sessions.touch(1, 7, now_ms=50)
    assert sessions.is_alive(1, 149)
    assert sessions.expired(149) == []
    assert not sessions.is_alive(1, 150)
    assert sessions.expired(150) == [1]
    assert sessions.next_expiry_ms() == 150
    assert sessions.metadata_offset(1) == 7


def test_a_granted_session_holds_off_the_fence_but_proves_nothing() -> None:
    sessions = BrokerSessions(100)
    sessions.grant([2, 1], now_ms=0)
    assert len(sessions) == 2
    assert not sessions.is_alive(1, 0)
    assert sessions.expired(99) == []
    assert sessions.expired(100) == [1, 2]
    sessions.touch(1, 0, now_ms=10)
    assert sessions.is_alive(1, 100)
    assert sessions.expired(100) == [2]


def test_time_in_which_nobody_could_be_heard_is_given_back() -> None:
    sessions = BrokerSessions(100)
    sessions.touch(1, 0, now_ms=0)
    sessions.extend(1000)
    assert sessions.expired(1099) == []
    assert sessions.expired(1100) == [1]


def test_time_is_given_back_once_in_a_silence() -> None:
    sessions = BrokerSessions(100)
    sessions.touch(1, 0, now_ms=0)
    sessions.extend(1000)
    sessions.extend(1000)
    assert sessions.expired(1100) == [1]
    sessions.touch(1, 0, now_ms=1100)
    sessions.extend(50)
    assert sessions.expired(1249) == []
    assert sessions.expired(1250) == [1]


def test_the_offset_to_wait_for_moves_only_with_more_moves() -> None:
    sessions = BrokerSessions(100)
    sessions.await_readers(1, 5, moved=True)
    assert sessions.shutdown_offset(1) is None
    sessions.touch(1, 0, now_ms=0)
    sessions.await_readers(1, 10, moved=False)
    sessions.await_readers(1, 20, moved=False)
    assert sessions.shutdown_offset(1) == 10
    sessions.await_readers(1, 30, moved=True)
    assert sessions.shutdown_offset(1) == 30


def test_removed_and_cleared() -> None:
    sessions = BrokerSessions(100)
    sessions.touch(1, 0, now_ms=0)
    sessions.touch(2, 0, now_ms=0)
    sessions.remove(1)
    sessions.remove(1)
    assert (1 in sessions, 2 in sessions) == (False, True)
    assert sessions.metadata_offset(1) == -1
    sessions.clear()
    assert sessions.next_expiry_ms() is None
