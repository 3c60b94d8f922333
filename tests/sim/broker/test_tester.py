"""The runs find bugs: each promise, broken on purpose, is noticed within a few seeds."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.broker.test_broker_runs import run

from headrace.base.errors import ProtocolError
from headrace.broker.offsets_log import PartitionOffsetsLog
from headrace.broker.partition import Partition
from headrace.log import partition_log
from headrace.log.producers import OK, Producers
from headrace.log.segment import Segment

SEEDS = range(40)
Patch = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    ready = property(lambda _: False)
    patch.setattr(partition_log.PartitionLog, "needs_flush_before_ack", ready)


def forget_sequences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "check", lambda _self, _header: OK)


def forget_producers_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    load = partition_log.load_producers  # type: ignore[attr-defined]

    def forgetful(*arguments: Any) -> Any:
        yield from load(*arguments)
        return Producers()

    patch.setattr(partition_log, "load_producers", forgetful)


def hide_the_last_record(patch: pytest.MonkeyPatch) -> None:
    commit = Partition.commit

    def shy(partition: Partition) -> None:
        commit(partition)
        partition.high_watermark -= partition.log.log_end_offset % 5 == 4

    patch.setattr(Partition, "commit", shy)


def lose_every_ninth_write(patch: pytest.MonkeyPatch) -> None:
    append = Segment.append
    count = 0

    def lossy(segment: Segment, buffers: Any, marks: Any, *, write_out: bool = False) -> None:
        nonlocal count
        count += 1
        if count % 9 == 0 and "/__" not in segment.log.path:
            buffers = [bytes(len(buffer)) for buffer in buffers]
        append(segment, buffers, marks, write_out=write_out)

    patch.setattr(Segment, "append", lossy)


def forget_the_last_commit_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    read = PartitionOffsetsLog.read

    def forgetful(log: PartitionOffsetsLog, partition: int) -> Any:
        yield from list(read(log, partition))[:-1]

    patch.setattr(PartitionOffsetsLog, "read", forgetful)


@pytest.mark.parametrize(
    "sabotage",
    [
        acknowledge_before_the_sync,
        forget_sequences,
        forget_producers_at_a_restart,
        hide_the_last_record,
        pytest.param(lose_every_ninth_write, marks=pytest.mark.sources),
        forget_the_last_commit_at_a_restart,
    ],
)
def test_a_broken_promise_is_noticed(sabotage: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch)
    for seed in SEEDS:
        try:
            run(seed, lives=3, steps_max=110)
        except (AssertionError, ProtocolError):  # whoever saw it: a checker, a reader, a client
            return
    raise AssertionError(f"{len(SEEDS)} seeds saw nothing")
