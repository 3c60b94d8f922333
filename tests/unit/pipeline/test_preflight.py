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
from headrace.pipeline.plan import COMMIT
from headrace.pipeline.preflight import CannotStart, check_master, check_target, check_topics
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
    with pytest.raises(DataLost, match=r"orders.* made again \(id id, now another\)"):
        check_topics(flushing.batches(), {"orders": "another"})
    check_topics(Flushing().batches(), {"orders": "another"})
    # A batch that was begun may not need the log any more.
    flushing.files.delete(flushing.rooms.record_of(0, COMMIT))
    check_topics(flushing.batches(), {"orders": "another"})


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
