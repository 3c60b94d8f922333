"""`headrace consume` and transactions; `headrace topic hot` and skew."""

import json
import threading
from collections.abc import Iterator

import pytest
from tests.interop.confluent import TIMEOUT_S, create_topic, produce, producer_of
from tests.interop.nodes import run_headrace

from headrace.testing.cluster import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as started:
        yield started


def test_consume_shows_what_is_committed_unless_told_otherwise(broker: LocalBroker) -> None:
    servers, topic = broker.bootstrap_servers, "transactional"
    create_topic(servers, topic)
    writer = producer_of(servers, transactional_id="cli")
    writer.init_transactions(TIMEOUT_S)
    for values, is_committed in (((b"1", b"2"), True), ((b"no",), False), ((b"3",), True)):
        writer.begin_transaction()
        produce(writer, topic, [(b"k", value) for value in values])
        if is_committed:
            writer.commit_transaction(TIMEOUT_S)
        else:
            writer.abort_transaction(TIMEOUT_S)
    produce(producer_of(servers), topic, [(b"k", b"4")])
    writer.begin_transaction()
    produce(writer, topic, [(b"k", b"open")])
    words = ("consume", topic, "--until-end", "--bootstrap-servers", servers)
    assert run_headrace(*words).split() == ["1", "2", "3", "4"]
    everything = run_headrace(*words, "--isolation-level", "read_uncommitted").split()
    assert everything == ["1", "2", "no", "3", "4", "open"]
    grouped = run_headrace(*words, "--group", "readers", "--timeout", "10")
    assert grouped.split() == ["1", "2", "3", "4"]
    writer.abort_transaction(TIMEOUT_S)


@pytest.mark.parametrize("how", ["metrics", pytest.param("log sizes", marks=pytest.mark.long)])
def test_hot_names_the_partition_and_its_key(broker: LocalBroker, how: str) -> None:
    servers, topic = broker.bootstrap_servers, f"skewed-{how[0]}"
    create_topic(servers, topic, partitions=3)
    stop = threading.Event()

    def write() -> None:
        producer = producer_of(servers)
        while not stop.is_set():
            produce(producer, topic, [(b"celebrity", bytes(500))] * 20, partition=1)
            produce(producer, topic, [(b"somebody", bytes(50))], partition=1)
            produce(producer, topic, [(b"other", bytes(20))], partition=2)
            stop.wait(0.02)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        host, port = broker.metrics_address
        where = ("--metrics", f"{host}:{port}") if how == "metrics" else ()
        told = json.loads(
            run_headrace(
                "topic", "hot", "--for", "2", "--json", "--bootstrap-servers", servers, *where
            )
        )
    finally:
        stop.set()
        thread.join()
    assert (told[0]["topic"], told[0]["partition"]) == (topic, 1)
    assert told[0]["written_bytes_per_s"] > 1000
    assert (told[0]["read_bytes_per_s"] is None) == (how == "log sizes")
    assert told[0]["keys"][0]["key"] == "celebrity"
    assert told[0]["keys"][0]["share"] > 0.8
