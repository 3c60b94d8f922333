"""Copies a topic to another, exactly once, with librdkafka: a program that is made to be killed.

Arguments: bootstrap servers, input, output, group, transactional id, records per transaction,
pause of each transaction in ms, half of it while it is open, and after how many seconds without a
record it ends (two unless told). Tells the input offset after each commit; every fifth transaction
is aborted on purpose and done again.
"""

import sys
import time

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

TIMEOUT_S = 20.0
QUIET_S = 2.0


def main(arguments: list[str]) -> None:
    servers, source, sink, group, transactional_id, per_transaction, pause_ms = arguments[:7]
    quiet_s = float(arguments[7]) if len(arguments) > 7 else QUIET_S
    half_s = int(pause_ms) / 2000
    calm = {"bootstrap.servers": servers, "log_level": 2, "reconnect.backoff.max.ms": 200}
    producer = Producer({**calm, "transactional.id": transactional_id, "linger.ms": 1})
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer(
        {
            **calm,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 1500,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.subscribe([source])
    quiet_since, has_read, round_number = time.monotonic(), False, 0
    while not has_read or time.monotonic() - quiet_since < quiet_s:
        messages = [m for m in consumer.consume(int(per_transaction), 0.2) if m.error() is None]
        if not messages:
            continue
        quiet_since, has_read = time.monotonic(), True
        round_number += 1
        is_aborted = round_number % 5 == 4
        if not copy(producer, consumer, messages, sink, open_s=half_s, is_aborted=is_aborted):
            rewind(consumer)
        time.sleep(half_s)
    print("done", flush=True)
    consumer.close()


def copy(
    producer: Producer,
    consumer: Consumer,
    messages: list[Message],
    sink: str,
    *,
    open_s: float,
    is_aborted: bool,
) -> bool:
    producer.begin_transaction()
    offsets: dict[tuple[str, int], int] = {}
    for message in messages:
        producer.produce(sink, value=message.value(), partition=message.partition())
        offsets[message.topic(), message.partition()] = message.offset() + 1
    time.sleep(open_s)
    try:
        producer.send_offsets_to_transaction(
            [TopicPartition(*where, offset) for where, offset in offsets.items()],
            consumer.consumer_group_metadata(),
            TIMEOUT_S,
        )
        if is_aborted:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
            return False
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException as failed:
        error = failed.args[0]
        if error.txn_requires_abort():
            producer.abort_transaction(TIMEOUT_S)
            return False
        raise
    for offset in offsets.values():
        print(offset, flush=True)
    return True


def rewind(consumer: Consumer) -> None:
    assigned = consumer.assignment()
    for committed in consumer.committed(assigned, TIMEOUT_S):
        offset = max(committed.offset, 0)
        consumer.seek(TopicPartition(committed.topic, committed.partition, offset))


if __name__ == "__main__":
    main(sys.argv[1:])
