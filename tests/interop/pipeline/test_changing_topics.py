"""Topics that change under a pipeline: what is new is flushed, what is lost ends it."""

import subprocess
import sys

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from tests.interop.confluent import admin_of, create_topic, producer_of
from tests.interop.nodes import until
from tests.interop.pipeline.flush_case import PARTITIONS, TIMEOUT_S, Case

from headrace.pipeline import inspection

pytestmark = [
    pytest.mark.long,
    # PySpark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FLUSHED = 100
END = FLUSHED // PARTITIONS + 1
"""Of each partition: its records, and the marker of their transaction."""


def send(case: Case, topic: str, partition: int, first: int, count: int) -> None:
    producer = producer_of(case.broker.bootstrap_servers)
    until(lambda: partition in producer.list_topics(topic, 10).topics[topic].partitions)
    for number in range(first, first + count):
        producer.produce(topic, key=b"%d" % number, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def test_new_partitions_and_new_topics_are_flushed_while_it_runs(case: Case) -> None:
    chosen: dict[str, object] = {"topics": (), "topic_pattern": f"{case.topic}.*"}
    more = f"{case.topic}-more"
    case.produce(FLUSHED)
    with case.running(**chosen) as running:
        until(lambda: any(text.startswith("batch 0") for text in case.said), TIMEOUT_S)
        admin = admin_of(case.broker.bootstrap_servers)
        admin.create_partitions([NewPartitions(case.topic, PARTITIONS + 1)])[case.topic].result(30)
        send(case, case.topic, PARTITIONS, FLUSHED, 30)
        until(lambda: len(case.keys()) == FLUSHED + 30, TIMEOUT_S)
        create_topic(case.broker.bootstrap_servers, more)
        send(case, more, 0, FLUSHED + 30, 20)
        until(lambda: len(case.keys()) == FLUSHED + 50, TIMEOUT_S)
        assert running.failure is None
    assert not any("failed" in text for text in case.said), case.said
    assert case.keys() == list(range(FLUSHED + 50))
    rows = case.table(["topic", "partition"]).to_pylist()
    found = {(str(row["topic"]), row["partition"]) for row in rows}
    assert found == {*((case.topic, each) for each in range(PARTITIONS + 1)), (more, 0)}
    assert case.group() == {
        **{(case.topic, each): END for each in range(PARTITIONS)},
        (case.topic, PARTITIONS): 30,
        (more, 0): 20,
    }
    report = inspection.verify(case.settings(**chosen))
    assert report.is_right, report.all_problems


def run_again(case: Case) -> str:
    """What the command says at its end, which is a bad one."""
    words = ["-b", case.broker.bootstrap_servers, "-t", case.topic, "--target", case.target]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", "pipeline", "run", *words, "--available-now"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr[-4000:]
    return done.stderr.strip().splitlines()[-1]


def test_retention_that_passed_the_checkpoint_ends_it_with_the_reason(case: Case) -> None:
    case.produce(FLUSHED)
    case.run()
    case.produce(FLUSHED, first=FLUSHED)
    admin = admin_of(case.broker.bootstrap_servers)
    (deleted,) = admin.delete_records([TopicPartition(case.topic, 0, END + 20)]).values()
    deleted.result(30)
    told = run_again(case)
    assert f"data of topic {case.topic}, partition 0 is lost" in told
    assert f"(wanted offset {END}, available {END + 20})" in told
    # Not even what is still there: it would look as if nothing were missing.
    assert case.keys() == list(range(FLUSHED))
    assert set(case.group().values()) == {END}
    report = inspection.verify(case.settings())
    assert report.is_right, report.all_problems


def test_a_topic_made_anew_ends_it_with_the_reason(case: Case) -> None:
    case.produce(FLUSHED)
    case.run()
    servers = case.broker.bootstrap_servers
    admin = admin_of(servers)
    admin.delete_topics([case.topic])[case.topic].result(30)
    until(lambda: case.topic not in admin.list_topics(timeout=10).topics)
    create_topic(servers, case.topic, PARTITIONS)
    # More than the old one had: by offsets alone nothing would be seen.
    for partition in range(PARTITIONS):
        send(case, case.topic, partition, 1_000, 2 * FLUSHED)
    told = run_again(case)
    assert f"data of topic {case.topic}, partition " in told
    assert "the topic was deleted and created anew" in told
    assert case.keys() == list(range(FLUSHED))
