"""A target with files and a checkpoint: which of the two a new driver may believe."""

import socket
from dataclasses import replace

import pytest
from tests.unit.pipeline.flushing import Flushing, record

from headrace.base.errors import UsageError
from headrace.pipeline import preflight
from headrace.pipeline.errors import DataLost
from headrace.pipeline.failures import is_final
from headrace.pipeline.layout import Rooms
from headrace.pipeline.plan import COMMIT, MANIFEST
from headrace.pipeline.preflight import (
    CannotStart,
    check_epochs,
    check_master,
    check_target,
    check_topics,
)
from headrace.pipeline.settings import FILE_BYTES, FILE_BYTES_MIN, Settings
from headrace.wire.hadoop.exceptions import RemoteError

SETTINGS = Settings(
    "nowhere:1", "hdfs://nowhere:1/lake", topic_pattern="or.*|pay.*", name="p", checkpoint=""
)


def flushed() -> Flushing:
    flushing = Flushing({("orders", 0): [record(0, offset) for offset in range(10)]})
    flushing.flush()
    assert flushing.published()
    return flushing


def test_files_of_a_first_batch_that_was_not_committed_are_ours() -> None:
    flushing = flushed()
    flushing.files.delete(flushing.rooms.record_of(0, COMMIT))
    check_target(flushing.files, flushing.batches(), SETTINGS, ["orders"])
    assert len(flushing.flush()) == 1
    assert flushing.verify().is_right


def test_files_that_the_checkpoint_does_not_know_are_in_the_way() -> None:
    flushing = flushed()
    flushing.files.delete(flushing.rooms.batches)
    with pytest.raises(CannotStart, match="would be written twice"):
        check_target(flushing.files, flushing.batches(), SETTINGS, ["orders"])


def test_a_topic_that_is_added_may_have_files_too() -> None:
    flushing = flushed()
    of_another = Flushing({("payments", 0): [record(0, offset) for offset in range(10)]})
    of_another.files, of_another.rooms = flushing.files, Rooms("/lake", "/elsewhere", "q")
    of_another.flush()
    check_target(flushing.files, flushing.batches(), SETTINGS, ["orders"])
    with pytest.raises(CannotStart, match=r"files of topic payments .* would be written twice"):
        check_target(flushing.files, flushing.batches(), SETTINGS, ["orders", "payments"])


def test_a_topic_that_was_made_again_is_said_before_spark_starts() -> None:
    flushing = flushed()
    check_topics(flushing.batches(), {"orders": "id", "payments": "another"})
    with pytest.raises(DataLost, match=r"orders.* anew \(its id was id, now another\).* 10,"):
        check_topics(flushing.batches(), {"orders": "another"})
    check_topics(Flushing().batches(), {"orders": "another"})
    # A batch that was begun may not need the log any more.
    flushing.files.delete(flushing.rooms.record_of(0, COMMIT))
    check_topics(flushing.batches(), {"orders": "another"})


def test_a_log_that_was_cut_and_grew_again_is_said_before_spark_starts() -> None:
    where = ("orders", 0)
    flushing = Flushing({where: [record(0, offset) for offset in range(10)]}, leader_epoch=4)
    flushing.flush()
    check_epochs(flushing.batches(), ["orders"], lambda epochs: dict.fromkeys(epochs, 10))
    # Not known there: the watch gives it a moment.
    check_epochs(flushing.batches(), ["orders"], lambda epochs: dict.fromkeys(epochs, -1))
    with pytest.raises(DataLost, match=r"up to 10 was read under leader epoch 4.* left at 6"):
        check_epochs(flushing.batches(), ["orders"], lambda epochs: dict.fromkeys(epochs, 6))
    # A plan under way says it too, a batch that is all written aside does not.
    flushing.files.delete(flushing.rooms.record_of(0, COMMIT))
    check_epochs(flushing.batches(), ["orders"], lambda epochs: dict.fromkeys(epochs, 6))
    flushing.files.delete(flushing.rooms.record_of(0, MANIFEST))
    with pytest.raises(DataLost, match="left at 6"):
        check_epochs(flushing.batches(), ["orders"], lambda epochs: dict.fromkeys(epochs, 6))


def test_the_epochs_of_positions_follow_the_batches() -> None:
    where = ("orders", 0)
    flushing = Flushing({where: [record(0, offset) for offset in range(10)]}, leader_epoch=4)
    (first,) = flushing.flush()
    assert first.plan.leader_epochs == {where: 4}
    # Nothing new in this one: it stays with the leader that named its end.
    other = ("orders", 1)
    flushing.rows[other], flushing.leader_epoch = [record(1, 0)], 5
    (second,) = flushing.flush()
    assert second.plan.leader_epochs == {where: 4, other: 5}
    # Who does not say its epoch leaves nothing to ask for.
    flushing.rows[where].append(record(0, 10))
    flushing.leader_epoch = -1
    (third,) = flushing.flush()
    assert third.plan.leader_epochs == {other: 5}
    asked = []
    check_epochs(flushing.batches(), [], lambda epochs: asked.append(dict(epochs)) or {})
    assert asked == [{}]


def test_files_in_the_way_end_a_running_pipeline() -> None:
    assert is_final(CannotStart("files are in the way"))


def test_a_master_that_does_not_answer_is_said_before_spark_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(CannotStart, match=f"master does not answer: 127.0.0.1:{port}"):
        check_master(f"spark://127.0.0.1:{port}")
    for address in ("127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":7077"):
        with pytest.raises(UsageError, match="--master is spark://HOST:PORT"):
            check_master(f"spark://{address}")
    check_master("local[2]")
    check_master(None)


class FakeNameNode:
    """Its block size is an answer or a refusal."""

    answer: int | Exception = 0

    def __init__(self, url: str) -> None:
        assert url == "hdfs://nowhere:1"

    def __enter__(self) -> "FakeNameNode":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def block_size(self) -> int:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "file_bytes"),
    [
        (32 << 20, 32 << 20),
        (0, FILE_BYTES),
        (1024, FILE_BYTES_MIN),
        (RemoteError("java.lang.UnsupportedOperationException", "no"), FILE_BYTES),
    ],
)
def test_files_are_as_large_as_blocks(
    monkeypatch: pytest.MonkeyPatch, answer: int | Exception, file_bytes: int
) -> None:
    monkeypatch.setattr(preflight, "NameNodeClient", FakeNameNode)
    monkeypatch.setattr(FakeNameNode, "answer", answer)
    assert preflight.sized(SETTINGS).file_bytes == file_bytes
    given = replace(SETTINGS, file_bytes=1 << 20)
    assert preflight.sized(given) == given
