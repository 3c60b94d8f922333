"""A broker whose disk is an older one, and which has written on since: the pipeline won't go on."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.interop.confluent import create_topic, producer_of
from tests.interop.conftest import TARGETS, Target, start_target

from headrace.node.lives import FILE
from headrace.pipeline.errors import DataLost
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.options import LogOptions
from headrace.pipeline.plan import positions_from_json
from headrace.pipeline.range_stream import RangeReader
from headrace.pipeline.topics import TopicWatchOptions

TIMEOUT_S = 60


def send(broker: Target, count: int) -> None:
    producer = producer_of(broker.bootstrap_servers)
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def boot(broker: Target) -> None:
    """Start it as on a machine that was booted: what ran there before is not known any more."""
    for lives in broker.data.rglob(FILE):
        lives.unlink()
    broker.start()


def looked(options: TopicWatchOptions) -> tuple[dict[str, Any], dict[tuple[str, int], int]]:
    """What a batch would read up to, and the leader epochs of that."""
    reader = RangeReader(options)
    try:
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        (rows,) = reader.partitions(start, end)
        return end, {(row[0], row[2]): row[-1] for row in reader.read(rows)}
    finally:
        reader.stop()


@pytest.mark.parametrize("kind", TARGETS)
def test_an_older_disk_that_has_grown_again(kind: str, tmp_path: Path) -> None:
    older = tmp_path / "older"
    where = ("orders", 0)
    with start_target(kind) as broker:
        create_topic(broker.bootstrap_servers, "orders")
        send(broker, 10)
        os.kill(broker.pid, signal.SIGSTOP)
        shutil.copytree(broker.data, older)
        os.kill(broker.pid, signal.SIGCONT)
        send(broker, 41)
        log = LogOptions(broker.bootstrap_servers)
        end, epochs = looked(TopicWatchOptions(log, ("orders",)))
        assert end == {"orders": {"0": 51}}
        flushed = TopicWatchOptions(
            log, ("orders",), known=positions_from_json(end), leader_epochs=epochs
        )
        # Another leader of the same log is none of our business.
        broker.kill()
        boot(broker)
        send(broker, 5)
        after, later = looked(flushed)
        assert after == {"orders": {"0": 56}}
        assert later[where] > epochs[where]
        broker.stop()
        shutil.rmtree(broker.data)
        shutil.copytree(older, broker.data)
        boot(broker)
        send(broker, 100)
        with LogClient(log) as client:
            assert client.epoch_ends(epochs) == {where: 10}
            assert client.epoch_ends({where: 1 << 20}) == {where: -1}
        with pytest.raises(DataLost, match=r"up to 51 was read .*left at 10: it was truncated"):
            looked(flushed)
