"""The broker fixture that users import: its promises about ports, processes and errors."""

import os
import signal
import socket

import pytest
from tests.interop.confluent import create_topic, produce, producer_of, read_all

from headrace.testing.cluster import BrokerProcessError, LocalBroker, parse_metrics

pytest_plugins = ["headrace.testing.fixtures"]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_restart_keeps_port_and_data() -> None:
    with LocalBroker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, "kept")
        produce(producer_of(servers), "kept", [(b"k", b"v")])
        first_pid = broker.pid
        broker.restart()
        assert broker.pid != first_pid
        assert not is_running(first_pid)
        assert broker.bootstrap_servers == servers
        assert [message.value() for message in read_all(servers, "kept")] == [b"v"]


def test_leaving_the_block_ends_the_process_and_removes_its_files() -> None:
    with LocalBroker() as broker:
        pid, data = broker.pid, broker.data
        assert is_running(pid)
        assert data.exists()
    assert not is_running(pid)
    assert not data.exists()


def test_kill_leaves_nobody_at_the_port() -> None:
    with LocalBroker() as broker:
        address = broker.address
        broker.kill()
        assert not broker.is_alive
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        broker.start()
        assert broker.address == address


def test_paused_broker_is_still_killed_at_the_end() -> None:
    broker = LocalBroker().start()
    pid = broker.pid
    broker.pause()
    broker.kill()
    assert not is_running(pid)


def test_stop_that_is_not_clean_is_an_error() -> None:
    broker = LocalBroker().start()
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(BrokerProcessError, match="exited with -9"):
        broker.stop()


def test_broker_that_cannot_start_says_why() -> None:
    broker = LocalBroker(settings={"no.such.key": 1})
    with pytest.raises(BrokerProcessError, match=r"no\.such\.key"):
        broker.start()


def test_metrics_and_health(headrace_broker: LocalBroker) -> None:
    servers = headrace_broker.bootstrap_servers
    create_topic(servers, "measured")
    produce(producer_of(servers), "measured", [(b"k", b"v")])
    samples = headrace_broker.metrics()
    assert any(name.startswith("headrace_") for name in samples)
    assert headrace_broker.health()


def test_metrics_are_parsed() -> None:
    text = '# HELP x y\n# TYPE x counter\nx_total 3.0\nx_by{topic="a b",p="0"} 1.5e3\n'
    assert parse_metrics(text) == {"x_total": 3.0, 'x_by{topic="a b",p="0"}': 1500.0}
