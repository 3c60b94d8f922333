"""Cleaned folders travel: Kafka serves what ours cleaned, ours serves what Kafka cleaned."""

import random
import shutil
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition
from tests.interop.confluent import TIMEOUT_S, consumer_of, create_topic, produce, producer_of
from tests.interop.conftest import Target, control, start_target
from tests.interop.foreign import TOPIC, folder, replace_files
from tests.interop.nodes import until

pytestmark = [pytest.mark.java, *control]

CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}
CLEANER = {"log.cleaner.backoff.ms": "200"}
CLEANED_BYTES_MAX = 2_000_000


def size_of(data: Path) -> int:
    return sum(path.stat().st_size for path in folder(data).glob("*.log"))


def write(target: Target) -> dict[bytes, bytes]:
    """Five megabytes over fifty keys, transactions among them; what is left of it."""
    servers, rng = target.bootstrap_servers, random.Random(7)
    create_topic(servers, TOPIC, config=CONFIG)
    values: dict[bytes, bytes] = {}
    plain = producer_of(servers, compression_type="zstd", batch_size=20_000)
    records = [(b"k%d" % rng.randrange(50), rng.randbytes(1000)) for _ in range(3000)]
    produce(plain, TOPIC, records)
    values.update(records)
    writer = producer_of(servers, transactional_id="traveller")
    writer.init_transactions(TIMEOUT_S)
    for is_committed in (True, False):
        writer.begin_transaction()
        records = [(b"k%d" % key, rng.randbytes(100)) for key in range(20)]
        produce(writer, TOPIC, records)
        if is_committed:
            writer.commit_transaction(TIMEOUT_S)
            values.update(records)
        else:
            writer.abort_transaction(TIMEOUT_S)
    produce(plain, TOPIC, [(b"k7", None)])
    values.pop(b"k7")
    records = [(b"last", rng.randbytes(1000)) for _ in range(2000)]
    produce(plain, TOPIC, records)
    values[b"last"] = records[-1][1]
    return values


def read(target: Target) -> dict[bytes, bytes]:
    reader = consumer_of(target.bootstrap_servers, "r", enable_partition_eof=True)
    reader.assign([TopicPartition(TOPIC, 0, 0)])
    values: dict[bytes, bytes] = {}
    for _ in range(100_000):
        message = reader.poll(TIMEOUT_S)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        values[message.key()] = message.value()
    reader.close()
    return {key: value for key, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("writer_name", "receiver_name"), [("headrace", "kafka"), ("kafka", "headrace")]
)
def test_a_cleaned_folder_is_served_by_the_other(
    tmp_path: Path, writer_name: str, receiver_name: str
) -> None:
    copy = tmp_path / "folder"
    with start_target(writer_name, **CLEANER) as writer:
        expected = write(writer)
        until(lambda: size_of(writer.data) < CLEANED_BYTES_MAX, timeout_s=90)
        assert read(writer) == expected
        writer.stop()
        shutil.copytree(folder(writer.data), copy)
    with start_target(receiver_name, **CLEANER) as receiver:
        create_topic(receiver.bootstrap_servers, TOPIC, config=CONFIG)
        produce(producer_of(receiver.bootstrap_servers), TOPIC, [(b"replaced", b"")])
        receiver.stop()
        replace_files(receiver.data, copy)
        receiver.start()
        assert read(receiver) == expected
        more = [(b"more", bytes(1000)) for _ in range(3000)]
        produce(producer_of(receiver.bootstrap_servers), TOPIC, more)
        until(lambda: size_of(receiver.data) < CLEANED_BYTES_MAX, timeout_s=90)
        assert read(receiver) == {**expected, b"more": bytes(1000)}
