"""kill -9 in the middle of a produce load, again and again on the same data.

Nothing acknowledged is missing, nothing is there twice with idempotence, order is kept; for the
consumer that read along, for librdkafka and kafka-python that read everything afterwards, and
for a reader of the bare files. The real Kafka runs as control.

A run whose rounds did not each acknowledge something before the kill is void, and fails.
"""

import random
import time

import pytest
from tests.faults.load import ProduceLoad, TailReader, Watcher, await_acknowledged
from tests.faults.readers import (
    end_offsets,
    invented,
    read_by_kafka_python,
    read_by_librdkafka,
    read_from_disk,
)
from tests.interop.confluent import create_topic
from tests.interop.conftest import Target

from headrace.testing import checkers
from headrace.testing.cluster import LocalBroker
from headrace.testing.history import History, Outcome

KILLS = 20
PARTITIONS = 3
ACKNOWLEDGED_PER_ROUND = 300
TOPIC = "killed"

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")


def run(victim: Target, history: History, *, kills: int, idempotent: bool) -> None:
    chance = random.Random(20)
    servers = victim.bootstrap_servers
    create_topic(servers, TOPIC, partitions=PARTITIONS, config={"segment.bytes": "1048576"})
    load = ProduceLoad(servers, TOPIC, PARTITIONS, history, idempotent=idempotent)
    tail = TailReader(servers, TOPIC, PARTITIONS, history)
    watcher = Watcher(servers, TOPIC, PARTITIONS, history)
    tail.start()
    load.start()
    for _ in range(kills):
        watcher.commit()
        # Not at a round number of anything: a random moment of the stream.
        await_acknowledged(history, ACKNOWLEDGED_PER_ROUND + chance.randrange(200))
        victim.kill()
        victim.start()
        watcher.look()
    await_acknowledged(history, ACKNOWLEDGED_PER_ROUND)
    load.stop()
    read_by_librdkafka(victim, TOPIC, PARTITIONS, history)
    tail.drain(end_offsets(history))
    read_by_kafka_python(victim, TOPIC, PARTITIONS, history)
    watcher.close()
    victim.stop()
    read_from_disk(victim.data, TOPIC, PARTITIONS, history)
    assert tail.errors == []


def test_twenty_kills_lose_nothing_double_nothing_and_keep_order(victim: Target) -> None:
    history = History()
    run(victim, history, kills=KILLS, idempotent=True)
    found = checkers.check(history)
    assert found == [], checkers.summary(history, found)
    assert invented(history) == []
    # With retries and idempotence every send that was begun is settled for certain.
    assert history.count(Outcome.INFO) == 0
    assert history.count(Outcome.OK) >= KILLS * ACKNOWLEDGED_PER_ROUND


def test_kills_lose_nothing_without_idempotence(victim: Target) -> None:
    history = History()
    run(victim, history, kills=5, idempotent=False)
    found = checkers.check(history, idempotent=False)
    # Retries without sequence numbers may overtake each other and come twice: by design.
    found = [violation for violation in found if violation.counter != "nonmonotonic-send"]
    assert found == [], checkers.summary(history, found)
    assert invented(history) == []


def test_kills_during_recovery_change_nothing() -> None:
    """Recovery may be cut short at any moment, and then again."""
    chance, history = random.Random(7), History()
    with LocalBroker() as broker:
        servers = broker.bootstrap_servers
        config = {"segment.bytes": "1048576"}
        create_topic(servers, TOPIC, partitions=PARTITIONS, config=config)
        load = ProduceLoad(servers, TOPIC, PARTITIONS, history, idempotent=True)
        load.start()
        await_acknowledged(history, 20_000)
        broker.kill()
        for _ in range(10):
            broker.launch()
            time.sleep(chance.uniform(0.1, 0.6))  # somewhere between the first file and the port
            broker.kill()
        broker.start()
        load.stop()
        read_by_librdkafka(broker, TOPIC, PARTITIONS, history)
        broker.stop()
        read_from_disk(broker.data, TOPIC, PARTITIONS, history)
    found = checkers.check(history)
    assert found == [], checkers.summary(history, found)
    assert invented(history) == []
