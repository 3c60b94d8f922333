"""More connections than allowed: the broker keeps to `max.connections` and recovers from it."""

import contextlib
import time

import pytest
from tests.wire.conftest import Target
from tests.wire.raw import Closed, Connection
from tests.wire.serving import assert_serves

LIMIT = 20
SETTINGS = {"max.connections": str(LIMIT)}


SOON_S, PATIENCE_S = 0.5, 20.0


def is_served(connection: Connection, within_s: float) -> bool:
    """Whether an answer comes; Kafka lets a connection beyond the limit wait unaccepted."""
    connection.socket.settimeout(within_s)
    with contextlib.suppress(TimeoutError, Closed, OSError):
        return bool(connection.call("api_versions", 0).error_code == 0)
    return False


def let_in(target: Target) -> Connection:
    """One that is served: the broker may not have noticed yet that somebody before it left."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        connection = Connection(target.address)
        if is_served(connection, PATIENCE_S):
            return connection
        connection.socket.close()
    return pytest.fail("nobody more is let in")


def test_the_limit_holds_and_is_given_back(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(let_in(target)) for _ in range(LIMIT)]
        assert all(is_served(connection, PATIENCE_S) for connection in held)
        over = [stack.enter_context(Connection(target.address)) for _ in range(5)]
        assert not any(is_served(connection, SOON_S) for connection in over)
        assert all(is_served(connection, PATIENCE_S) for connection in held), "those inside stay"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError, Closed, OSError):
            assert_serves(target.address)
            return
        time.sleep(0.05)
    pytest.fail("not served after the crowd left")
