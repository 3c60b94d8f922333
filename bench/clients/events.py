"""Fills a topic for the pipeline's benchmark, by librdkafka.

    python -m bench.clients.events ADDRESS TOPIC PARTITIONS COUNT random|json [RATE SECONDS]

Values of 1 KiB, either random bytes (nothing to squeeze) or orders as JSON. With a rate, sends that
many a second for so many seconds. Prints one JSON line: how many were acknowledged.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

VALUE_BYTES = 1024
POOL_BYTES = 1 << 20
STATUSES = ("created", "paid", "packed", "shipped", "delivered", "cancelled")
COUNTRIES = ("DE", "FR", "GB", "IN", "JP", "KE", "BR", "US")
WORDS = (
    *("please", "leave", "the", "parcel", "with", "neighbour", "ring", "twice", "gift", "wrapped"),
    *("express", "morning", "evening", "second", "floor", "back", "door", "fragile", "return"),
    *("later", "invoice", "company", "ground", "red", "blue", "green", "small", "large"),
)


def random_values() -> Callable[[int], bytes]:
    pool = os.urandom(POOL_BYTES + VALUE_BYTES)

    def value(number: int) -> bytes:
        start = number * 7919 % POOL_BYTES
        return number.to_bytes(8) + pool[start : start + VALUE_BYTES - 8]

    return value


def json_values() -> Callable[[int], bytes]:
    dice = random.Random(7)
    notes = [" ".join(dice.choices(WORDS, k=120)) for _ in range(4096)]

    def value(number: int) -> bytes:
        cents = dice.randrange(100, 1_000_000)
        text = (
            f'{{"order_id":"o-{number:012d}-{dice.getrandbits(48):012x}",'
            f'"customer_id":{dice.randrange(1_000_000)},"status":"{STATUSES[cents % 6]}",'
            f'"amount":{cents / 100},"currency":"EUR","created_ms":{int(time.time() * 1000)},'
            f'"country":"{COUNTRIES[cents % 8]}","note":"'
        )
        room = VALUE_BYTES - len(text) - 2
        return (text + notes[dice.randrange(4096)][:room] + '"}').encode()

    return value


def main() -> None:
    address, topic, partitions, count, kind, *paced = sys.argv[1:]
    value = random_values() if kind == "random" else json_values()
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": "5",
            "batch.size": "1000000",
            "queue.buffering.max.messages": "200000",
        }
    )
    acknowledged, failed = 0, []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failed.append(error)

    rate, seconds = (int(paced[0]), float(paced[1])) if paced else (0, 0.0)
    total = int(rate * seconds) if rate else int(count)
    began_s = time.monotonic()
    for number in range(total):
        while True:
            try:
                producer.produce(
                    topic,
                    value(number),
                    key=f"k{number % 10_000}",
                    partition=number % int(partitions),
                    on_delivery=on_delivery,
                )
                break
            except BufferError:
                producer.poll(0.05)
        if number % 200 == 0:
            producer.poll(0)
            early_s = number / rate - (time.monotonic() - began_s) if rate else 0.0
            if early_s > 0:
                time.sleep(early_s)
    producer.flush(120)
    if failed or acknowledged != total:
        raise SystemExit(f"{total - acknowledged} of {total} not acknowledged: {failed[:1]}")
    print(json.dumps({"count": acknowledged, "seconds": time.monotonic() - began_s}))


if __name__ == "__main__":
    main()
