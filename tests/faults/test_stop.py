"""SIGTERM in the middle of a produce load: exit 0 in time, nothing lost, nothing to recover."""

import os
import signal
import time

import pytest
from tests.faults.load import ProduceLoad, TailReader, Watcher, await_acknowledged
from tests.faults.readers import end_offsets, invented, read_by_librdkafka
from tests.interop.confluent import create_topic
from tests.interop.conftest import Target

from headrace.testing import checkers
from headrace.testing.cluster import LocalBroker
from headrace.testing.history import History, Outcome

STOPS = 5
STOP_TIMEOUT_S = 5.0
PARTITIONS = 3
TOPIC = "stopped"


def test_stops_under_load_lose_nothing(victim: Target) -> None:
    history = History()
    servers = victim.bootstrap_servers
    create_topic(servers, TOPIC, partitions=PARTITIONS)
    load = ProduceLoad(servers, TOPIC, PARTITIONS, history, idempotent=True)
    tail = TailReader(servers, TOPIC, PARTITIONS, history)
    watcher = Watcher(servers, TOPIC, PARTITIONS, history)
    tail.start()
    load.start()
    for _ in range(STOPS):
        watcher.commit()
        await_acknowledged(history, 500)
        began = time.monotonic()
        victim.stop()  # raises unless the exit status is 0
        if isinstance(victim, LocalBroker):
            assert time.monotonic() - began < STOP_TIMEOUT_S
        victim.start()
        watcher.look()
    await_acknowledged(history, 500)
    load.stop()
    read_by_librdkafka(victim, TOPIC, PARTITIONS, history)
    tail.drain(end_offsets(history))
    watcher.close()
    assert tail.errors == []
    found = checkers.check(history)
    assert found == [], checkers.summary(history, found)
    assert invented(history) == []
    assert history.count(Outcome.INFO) == 0


def test_idle_clients_do_not_hold_up_a_stop() -> None:
    """Long polls and idle connections are answered or closed, not waited for."""
    with LocalBroker() as broker:
        history = History()
        create_topic(broker.bootstrap_servers, TOPIC)
        tail = TailReader(broker.bootstrap_servers, TOPIC, 1, history)
        tail.start()
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < STOP_TIMEOUT_S
        tail.close()


@pytest.mark.parametrize("signals", [2, 5])
def test_impatient_signals_change_nothing(signals: int) -> None:
    with LocalBroker() as broker:
        create_topic(broker.bootstrap_servers, TOPIC)
        for _ in range(signals - 1):
            os.kill(broker.pid, signal.SIGTERM)
        broker.stop()
        broker.start()
