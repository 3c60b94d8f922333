"""Kafka's Java client 4.3 in transactions v2, and the tools that look after transactions."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from tests.interop.confluent import TIMEOUT_S, consume, consumer_of, create_topic, producer_of
from tests.interop.conftest import Target, start_target
from tests.interop.holding_proxy import END_TXN, PRODUCE, HoldingProxy
from tests.interop.java_tools import JavaTools, ToolResult
from tests.wire.raw import Connection

from headrace.testing.cluster import LocalBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.records import build_batch

pytestmark = pytest.mark.java

Unique = Callable[[str], str]
Script = Callable[..., list[str]]


@pytest.fixture
def script(target: Target, java: JavaTools) -> Script:
    """Runs a transactional producer; the result of each of its words."""

    def run(transactional_id: str, *words: str, timeout_ms: int = 60_000) -> list[str]:
        arguments = (target.bootstrap_servers, transactional_id, str(timeout_ms), *words)
        told = java.run("TransactionScript", *arguments).check().stdout.splitlines()
        assert len(told) == len(words), told
        return [line.removeprefix(f"{word} ") for line, word in zip(told, words, strict=True)]

    return run


@pytest.fixture
def transactions(target: Target, java: JavaTools) -> Callable[..., ToolResult]:
    def run(*arguments: str) -> ToolResult:
        servers = ("--bootstrap-server", target.bootstrap_servers)
        return java.run("kafka-transactions", *servers, *arguments).check()

    return run


def read_committed(
    java: JavaTools, target: Target, topic: str, *more: str, timeout_ms: int = 30_000
) -> list[str]:
    told = java.run(
        "kafka-console-consumer",
        *("--bootstrap-server", target.bootstrap_servers),
        *("--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--isolation-level", "read_committed", "--timeout-ms", str(timeout_ms)),
        *more,
    )
    return told.stdout.splitlines()


def test_commit_and_abort(target: Target, java: JavaTools, script: Script, unique: Unique) -> None:
    topic = unique("java")
    create_topic(target.bootstrap_servers, topic)
    told = script(
        unique("tx"),
        *("init", "begin", f"send:{topic}:0:one", f"send:{topic}:0:two", "commit"),
        *("begin", f"send:{topic}:0:gone", "abort"),
        *("begin", "commit", "begin", "abort"),  # of nothing
        *("begin", f"send:{topic}:0:three", "commit"),
    )
    # A marker takes an offset after each transaction; an empty one writes none.
    assert told == [
        *("ok", "ok", "0", "1", "ok"),
        *("ok", "3", "ok"),
        *("ok", "ok", "ok", "ok"),
        *("ok", "5", "ok"),
    ]
    assert read_committed(java, target, topic, "--max-messages", "3") == ["one", "two", "three"]


def test_offsets_in_a_transaction(target: Target, script: Script, unique: Unique) -> None:
    topic, group = unique("offsets"), unique("group")
    create_topic(target.bootstrap_servers, topic)
    told = script(
        unique("tx"),
        *("init", "begin", f"offsets:{group}:{topic}:0:7", f"send:{topic}:0:x", "commit"),
        *("begin", f"offsets:{group}:{topic}:0:9", "abort"),
    )
    assert told == ["ok", "ok", "ok", "0", "ok", "ok", "ok", "ok"]
    consumer = consumer_of(target.bootstrap_servers, group)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    consumer.close()
    assert committed.offset == 7


def test_fencing(target: Target, java: JavaTools, script: Script, unique: Unique) -> None:
    topic = unique("fenced")
    create_topic(target.bootstrap_servers, topic)
    told = script(
        unique("tx"),
        *(
            "init",
            "begin",
            f"send:{topic}:0:zombie",
            "other:init",
            f"send:{topic}:0:late",
            "commit",
        ),
    )
    assert told[:4] == ["ok", "ok", "0", "ok"]
    assert told[4].startswith("refused")
    assert told[5].startswith("refused")
    assert read_committed(java, target, topic, timeout_ms=3_000) == []


def test_both_protocols_in_one_partition(
    target: Target, java: JavaTools, script: Script, unique: Unique
) -> None:
    topic = unique("both")
    create_topic(target.bootstrap_servers, topic)
    old = producer_of(target.bootstrap_servers, transactional_id=unique("old"))
    old.init_transactions(TIMEOUT_S)
    for number in range(3):
        old.begin_transaction()
        old.produce(topic, value=f"old-{number}".encode(), partition=0)
        assert old.flush(TIMEOUT_S) == 0
        words = ["init", "begin", f"send:{topic}:0:new-{number}", "commit" if number else "abort"]
        assert script(unique("new"), *words)[-1] == "ok"
        if number == 1:
            old.abort_transaction(TIMEOUT_S)
        else:
            old.commit_transaction(TIMEOUT_S)
    seen = read_committed(java, target, topic, "--max-messages", "4")
    assert seen == ["old-0", "new-1", "old-2", "new-2"]


def test_the_tool_lists_and_describes(
    target: Target,
    script: Script,
    transactions: Callable[..., ToolResult],
    unique: Unique,
) -> None:
    topic, done, open_id = unique("listed"), unique("done"), unique("open")
    create_topic(target.bootstrap_servers, topic)
    script(done, "init", "begin", f"send:{topic}:0:a", "commit")
    producer = producer_of(target.bootstrap_servers, transactional_id=open_id)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, value=b"b", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    listed = transactions("list").stdout
    assert re.search(rf"{done}\s+\d+\s+\d+\s+CompleteCommit", listed)
    assert re.search(rf"{open_id}\s+\d+\s+\d+\s+Ongoing", listed)
    longer = transactions("list", "--duration-filter", "3600000").stdout
    assert open_id not in longer
    described = transactions("describe", "--transactional-id", open_id).stdout
    assert re.search(rf"{open_id}\s+\d+\s+0\s+Ongoing\s+\d+\s+\d+\s+\d+\s+{topic}-0", described)
    producers = transactions("describe-producers", "--topic", topic, "--partition", "0").stdout
    # Id, epoch, coordinator epoch, last sequence, timestamp, start of the transaction.
    assert re.search(r"^\d+\s+0\s+-1\s+0\s+\d+\s+2\s*$", producers, re.MULTILINE), producers
    assert re.search(r"^\d+\s+1\s+0\s+-1\s+\d+\s+None\s*$", producers, re.MULTILINE), producers
    producer.abort_transaction(TIMEOUT_S)


def test_an_open_transaction_is_aborted_by_hand(
    target: Target,
    java: JavaTools,
    script: Script,
    transactions: Callable[..., ToolResult],
    unique: Unique,
) -> None:
    topic, transactional_id = unique("open"), unique("tx")
    create_topic(target.bootstrap_servers, topic)
    producer = producer_of(target.bootstrap_servers, transactional_id=transactional_id)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, value=b"stuck", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    aborted = transactions("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert aborted.status == 0
    script(unique("other"), "init", "begin", f"send:{topic}:0:free", "commit")
    assert read_committed(java, target, topic, "--max-messages", "1") == ["free"]


def test_a_transaction_is_terminated_by_its_id(
    target: Target, transactions: Callable[..., ToolResult], unique: Unique
) -> None:
    topic, transactional_id = unique("terminated"), unique("tx")
    create_topic(target.bootstrap_servers, topic)
    producer = producer_of(target.bootstrap_servers, transactional_id=transactional_id)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, value=b"stuck", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    transactions("forceTerminateTransaction", "--transactionalId", transactional_id)
    described = transactions("describe", "--transactional-id", transactional_id).stdout
    assert re.search(r"Complete|Empty", described), described
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].fatal(), "its producer is fenced"


def test_a_hanging_transaction_is_found_and_aborted(java: JavaTools, target_name: str) -> None:
    """Made by a broker that does not ask the coordinator, as those before KIP-890."""
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    settings = {"transaction.partition.verification.enable": "false"}
    with start_target(target_name, **settings) as own:
        create_topic(own.bootstrap_servers, "hanging")
        batch = build_batch(
            [(None, b"stuck", (), hour_ago_ms)],
            producer_id=4_711,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        data = {"name": "hanging", "partition_data": [{"index": 0, "records": bytes(batch)}]}
        host, port = own.bootstrap_servers.rsplit(":", 1)
        with Connection((host, int(port))) as connection:
            answer = connection.call(
                "produce", 8, transactional_id="nobody", acks=-1, timeout=5_000, topic_data=[data]
            )
        assert answer.responses[0].partition_responses[0].error_code == 0
        servers = ("--bootstrap-server", own.bootstrap_servers)
        words = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "15")
        found = java.run("kafka-transactions", *servers, *words).check().stdout
        assert re.search(r"^hanging\s+0\s+4711\s+0\s+-1\s+0\s", found, re.MULTILINE), found
        words = ("abort", "--topic", "hanging", "--partition", "0", "--start-offset", "0")
        java.run("kafka-transactions", *servers, *words).check()
        again = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "15")
        assert "4711" not in java.run("kafka-transactions", *servers, *again).check().stdout


def test_dump_log_reads_our_transaction_state(java: JavaTools, target_name: str) -> None:
    with start_target(target_name) as own:
        create_topic(own.bootstrap_servers, "dumped", 2)
        words = [own.bootstrap_servers, "dumped-id", "60000"]
        words += ["init", "begin", "send:dumped:0:a", "send:dumped:1:b", "commit"]
        words += ["begin", "send:dumped:0:c", "abort"]
        java.run("TransactionScript", *words).check()
        own.stop()
        files = [path for path in own.data.rglob("*.log") if "__transaction_state" in str(path)]
        told = "".join(dump(java, path, "--transaction-log-decoder") for path in files)
        states = re.findall(r'"dumped-id"\}\} payload: .*?"transactionStatus":(\d)', told)
        # Empty, Ongoing (once for each partition), PrepareCommit, CompleteCommit; then the abort.
        assert "".join(states) == "01124" + "135"
        (log,) = [path for path in own.data.rglob("*.log") if path.parent.name == "dumped-0"]
        batches = dump(java, log)
        markers = re.findall(r"endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: 0", batches)
        assert markers == ["COMMIT", "ABORT"]
        index = dump(java, log.with_suffix(".txnindex"))
        assert re.search(r"producerId: \d+ firstOffset: 2 lastOffset: 3 lastStableOffset: 4", index)


def dump(java: JavaTools, path: Path, *more: str) -> str:
    return (
        java.run("kafka-dump-log", "--print-data-log", *more, "--files", str(path)).check().stdout
    )


def test_an_end_that_comes_late_does_not_end_the_next_transaction(
    java: JavaTools, unique: Unique
) -> None:
    """The client's second try of EndTxn commits; the first one arrives in the midst of the next
    transaction of the same producer, which has another epoch by then."""
    topic = unique("late")
    with (
        HoldingProxy() as proxy,
        LocalBroker(settings=proxy.settings, listen=proxy.target) as broker,
    ):
        create_topic(broker.bootstrap_servers, topic)
        proxy.hold(END_TXN, until=PRODUCE)
        words = [
            *("init", "begin", f"send:{topic}:0:first", "commit"),
            *("begin", f"send:{topic}:0:second", "abort"),
            *("begin", f"send:{topic}:0:third", "commit"),
        ]
        told = java.run(
            "TransactionScript", broker.bootstrap_servers, unique("tx"), "60000", *words
        )
        told.check()
        assert told.stdout.splitlines() == [
            f"{word} {result}"
            for word, result in zip(
                words, ["ok", "ok", "0", "ok", "ok", "2", "ok", "ok", "4", "ok"], strict=True
            )
        ]
        assert proxy.answer.error_code == ErrorCode.PRODUCER_FENCED
        found = consumer_of(
            broker.bootstrap_servers, unique("reader"), isolation_level="read_committed"
        )
        found.assign([TopicPartition(topic, 0, 0)])
        seen = consume(found, 2)
        found.close()
    assert [message.value() for message in seen] == [b"first", b"third"]
