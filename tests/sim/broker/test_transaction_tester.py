"""Bugs planted on purpose: the simulated transactions find each of them, or they prove nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.broker.test_transaction_runs import run

from headrace.broker.groups.offsets import OffsetTable
from headrace.broker.transactions import adding, ending, fencing, writing
from headrace.broker.transactions.completion import Completion
from headrace.log.partition_log import PartitionLog
from headrace.log.producers import OK, Producers
from headrace.wire.kafka.errors import ErrorCode

SEEDS_MAX = 25

Plant = Callable[[pytest.MonkeyPatch], None]


def no_aborted_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "aborted_in", lambda *_: [])


def stable_means_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", lambda _, high_watermark: high_watermark)


def prepared_ends_are_forgotten_at_a_load(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Completion, "resume", lambda *_: None)


def everybody_is_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        adding, "decide_verify", lambda _m, _i, _e, keys: dict.fromkeys(keys, ErrorCode.NONE)
    )
    patch.setattr(Producers, "check", lambda *_: OK)


def offsets_count_at_once(patch: pytest.MonkeyPatch) -> None:
    add_pending = OffsetTable.add_pending

    def planted(self: OffsetTable, producer_id: int, offsets: Any) -> int:
        ticket = add_pending(self, producer_id, offsets)
        self.end_transaction(producer_id, is_commit=True)
        return ticket

    patch.setattr(OffsetTable, "add_pending", planted)


def aborts_of_offsets_are_commits(patch: pytest.MonkeyPatch) -> None:
    end_transaction = OffsetTable.end_transaction

    def planted(self: OffsetTable, producer_id: int, *, is_commit: bool) -> bool:
        del is_commit
        return end_transaction(self, producer_id, is_commit=True)

    patch.setattr(OffsetTable, "end_transaction", planted)


def fencing_bumps_nothing(patch: pytest.MonkeyPatch) -> None:
    fence = fencing.fence

    def planted(metadata: Any, now_ms: int, *, server_version: int) -> Any:
        from dataclasses import replace

        fenced = fence(metadata, now_ms, server_version=server_version)
        return replace(fenced, producer_epoch=metadata.producer_epoch)

    patch.setattr(fencing, "fence", planted)


def an_end_commits_whatever_was_asked(patch: pytest.MonkeyPatch) -> None:
    decide_end = ending.decide_end

    def planted(m: Any, i: int, e: int, is_commit: bool, *rest: Any, **more: Any) -> Any:
        del is_commit
        return decide_end(m, i, e, True, *rest, **more)

    patch.setattr(ending, "decide_end", planted)


def markers_go_to_one_partition_only(patch: pytest.MonkeyPatch) -> None:
    write = writing._write

    def planted(broker: Any, topic: str, index: int, marker: Any) -> Any:
        return write(broker, topic, 0 if topic == "sink" else index, marker)

    patch.setattr(writing, "_write", planted)


@pytest.mark.parametrize(
    "plant",
    [
        no_aborted_list,
        stable_means_high_watermark,
        prepared_ends_are_forgotten_at_a_load,
        offsets_count_at_once,
        aborts_of_offsets_are_commits,
        fencing_bumps_nothing,
        an_end_commits_whatever_was_asked,
        markers_go_to_one_partition_only,
        everybody_is_verified,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            run(seed, lives=2, steps_max=160)
        except AssertionError:
            return
    raise AssertionError(f"{SEEDS_MAX} seeds did not see it")
