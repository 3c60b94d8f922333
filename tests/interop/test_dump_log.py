"""Kafka's dump-log tool reads what the broker left on disk, after a stop and after a kill."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.interop.confluent import consume, consumer_of, create_topic, produce, producer_of
from tests.interop.conftest import Target, start_target
from tests.interop.java_tools import JavaTools

pytestmark = pytest.mark.java

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS_PER_CODEC = 800
TOPIC, GROUP = "dumped", "dump-readers"

Dump = Callable[..., str]


@pytest.fixture(scope="module", params=["stopped", "killed and recovered"])
def written(request: pytest.FixtureRequest, target_name: str) -> Iterator[Target]:
    """A data directory with several segments in all codecs and a group's offsets; no broker."""
    target = start_target(target_name)
    with target:
        write(target.bootstrap_servers)
        if request.param != "stopped":
            target.kill()
            target.start()
        target.stop()
        yield target


def write(servers: str) -> None:
    # 1 MiB is the smallest segment Kafka accepts; values that no codec makes much smaller roll it.
    config = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}
    create_topic(servers, TOPIC, config=config)
    for codec in CODECS:
        producer = producer_of(
            servers, compression_type=codec, enable_idempotence=True, batch_size=16_384
        )
        records = [(f"{codec}-{n}".encode(), noise(n)) for n in range(RECORDS_PER_CODEC)]
        produce(producer, TOPIC, records)
    consumer = consumer_of(servers, GROUP)
    consumer.subscribe([TOPIC])
    consume(consumer, RECORDS_PER_CODEC * len(CODECS))
    consumer.close()


def noise(seed: int) -> bytes:
    """Shrinks a little in every codec: librdkafka sends what does not shrink as it is."""
    return random.Random(seed).randbytes(800) + bytes(400)


def folder(target: Target, partition: str) -> Path:
    return next(target.data.rglob(partition))


@pytest.fixture
def dump(java: JavaTools) -> Dump:
    def run(*arguments: str) -> str:
        done = java.run("kafka-dump-log", *arguments).check()
        return done.stdout + done.stderr

    return run


def files(path: Path, suffix: str) -> list[Path]:
    return sorted(path.glob(f"*{suffix}"))


def test_deep_iteration_accepts_every_segment(written: Target, dump: Dump) -> None:
    logs = files(folder(written, f"{TOPIC}-0"), ".log")
    assert len(logs) >= 3, "too little data to roll segments"
    keys: list[str] = []
    codecs: set[str] = set()
    offsets: list[int] = []
    for log in logs:
        told = dump("--deep-iteration", "--print-data-log", "--files", str(log))
        batches = re.findall(r"^baseOffset: .*$", told, re.MULTILINE)
        assert batches
        assert all("isvalid: true" in batch for batch in batches)
        codecs |= set(re.findall(r"compresscodec: (\w+)", told))
        offsets += [int(n) for n in re.findall(r"^\| offset: (\d+)", told, re.MULTILINE)]
        keys += re.findall(r" key: (\S+)", told)
        assert int(log.stem) == int(re.findall(r"baseOffset: (\d+)", told)[0])
    expected = [f"{codec}-{n}" for codec in CODECS for n in range(RECORDS_PER_CODEC)]
    assert keys == expected
    assert offsets == list(range(len(expected)))
    assert codecs == set(CODECS)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_sane_and_agree_with_the_log(written: Target, dump: Dump, suffix: str) -> None:
    indexes = files(folder(written, f"{TOPIC}-0"), suffix)
    assert len(indexes) >= 3
    for index in indexes:
        sane = dump("--index-sanity-check", "--files", str(index))
        assert "passed sanity check" in sane, sane
        compared = dump("--verify-index-only", "--files", str(index))
        for complaint in ("Mismatches in", "out of order", "Exception", "not found"):
            assert complaint not in compared, compared
        if index.stat().st_size == 0:
            assert index == indexes[-1], "only the last segment may be too short for an entry"
            continue
        entries = dump("--files", str(index))
        expected = (
            r"offset: \d+ position: \d+" if suffix == ".index" else r"timestamp: \d+ offset: \d+"
        )
        assert re.search(expected, entries), entries


def test_producer_snapshots_are_read(written: Target, dump: Dump) -> None:
    snapshots = files(folder(written, f"{TOPIC}-0"), ".snapshot")
    assert snapshots
    told = dump("--files", str(snapshots[-1]))
    assert len(re.findall(r"producerId: \d+ producerEpoch: 0 ", told)) == len(CODECS), told


def test_committed_offsets_are_decoded(written: Target, dump: Dump) -> None:
    told = ""
    for log in written.data.rglob("__consumer_offsets-*/*.log"):
        if log.stat().st_size:
            told += dump("--offsets-decoder", "--files", str(log))
    committed = RECORDS_PER_CODEC * len(CODECS)
    assert f'"group":"{GROUP}","topic":"{TOPIC}","partition":0' in told, told
    assert f'"offset":{committed},' in told, told
    assert re.search(r'"protocolType":"consumer"', told), told


def test_cluster_metadata_is_decoded(written: Target, dump: Dump) -> None:
    told = ""
    for log in written.data.rglob("__cluster_metadata-0/*.log"):
        told += dump("--cluster-metadata-decoder", "--files", str(log))
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{TOPIC}"' in told, told
    for kind in (
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
        "FEATURE_LEVEL_RECORD",
    ):
        assert f'"type":"{kind}"' in told, f"no {kind}:\n{told}"
    assert "Could not decode" not in told
