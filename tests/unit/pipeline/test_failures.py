"""Failures in one line: a file system without room says what to do."""

import pytest

from headrace.pipeline.failures import is_final, sentence
from headrace.pipeline.target_files import FilesError, NoRoom, _refused, _told

OF_A_NAMENODE = (
    "File /lake/x could only be written to 0 of the 1 minReplication nodes. There are 1 "
    "datanode(s) running and no node(s) are excluded in this operation."
)
ADVICE = "no DataNode has room or takes the block (0 of at least 1 took it, 1 running): free or"


def fail(error: Exception) -> None:
    raise error


def test_no_room_is_told_with_what_to_do() -> None:
    raw = RuntimeError(f'RPCError("java.io.IOException", "{OF_A_NAMENODE}")')
    with pytest.raises(NoRoom) as told:
        _told("/lake/x", lambda: fail(raw))
    assert str(told.value).startswith(f"/lake/x: {ADVICE}")
    assert "headrace fs report" in str(told.value)
    assert "RPCError" not in str(told.value)
    assert isinstance(_refused("/lake/x", "java.io.IOException", OF_A_NAMENODE), NoRoom)
    # Space may come back: it is tried again.
    assert not is_final(told.value)


def test_also_where_spark_hands_on_what_java_said() -> None:
    java = RuntimeError(
        f"org.apache.hadoop.ipc.RemoteException(java.io.IOException): {OF_A_NAMENODE}"
    )
    assert sentence(java).startswith(f"the file system: {ADVICE}")


def test_other_failures_keep_their_words() -> None:
    with pytest.raises(FilesError, match=r"^/lake/x: it is in safe mode$") as told:
        _told("/lake/x", lambda: fail(OSError("it is in safe mode")))
    assert type(told.value) is FilesError
    assert sentence(RuntimeError("\nfirst\nsecond")) == "first"
