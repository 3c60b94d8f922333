"""Which volumes a DataNode is given, and how many of them may be missing when it starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.datanode.volume import PoolIdentity
from headrace.node.datanode_volumes import OpenedVolumes, open_volumes, parse_volumes
from headrace.runtime.disk import DiskStorage


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("", []),
        ("/one", ["/one"]),
        ("/one, /two ,", ["/one", "/two"]),
        ("[DISK]/one,[disk]file:///two,[Disk] /three", ["/one", "/two", "/three"]),
        ("file:///one,file:/two,relative", ["/one", "/two", "relative"]),
    ],
)
def test_volumes_are_paths_or_uris_of_disks(text: str, paths: list[str]) -> None:
    assert parse_volumes(text) == paths


@pytest.mark.parametrize("storage_type", ["SSD", "ARCHIVE", "RAM_DISK", "NVDIMM", "ssd", "TAPE"])
def test_another_type_of_storage_is_refused_by_name(storage_type: str) -> None:
    with pytest.raises(UsageError, match=r"write \[DISK\]/two, or /two") as refused:
        parse_volumes(f"/one,[{storage_type}]/two")
    assert f"[{storage_type}]/two" in str(refused.value)


@pytest.fixture
def storage() -> Iterator[DiskStorage]:
    storage = DiskStorage()
    yield storage
    storage.close()


def opened(storage: DiskStorage, *paths: Path, tolerated: int = -1) -> OpenedVolumes:
    return open_volumes(storage, list(map(str, paths)), reserved_bytes=0, tolerated=tolerated)


@pytest.mark.parametrize("tolerated", [-1, 1, 2])
def test_a_volume_that_cannot_be_opened_is_left_out(
    storage: DiskStorage, tmp_path: Path, tolerated: int
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_bytes(b"")
    found = opened(storage, bad, good, tolerated=tolerated)
    assert [volume.path for volume in found.volumes] == [str(bad), str(good)]
    ((failed, error),) = found.failed
    assert failed is found.volumes[0]
    assert "File exists" in str(error)


@pytest.mark.parametrize(("bad", "tolerated"), [(1, 0), (2, 1), (3, -1), (3, 3), (3, 5)])
def test_too_few_volumes_are_refused_with_all_reasons(
    storage: DiskStorage, tmp_path: Path, bad: int, tolerated: int
) -> None:
    paths = [tmp_path / str(index) for index in range(3)]
    for path in paths[:bad]:
        path.write_bytes(b"")
    with pytest.raises(UsageError, match=f"too many volumes failed: {bad} of 3 ") as refused:
        opened(storage, *paths, tolerated=tolerated)
    assert all(str(path) in str(refused.value) for path in paths[:bad])


def test_the_node_is_who_the_volumes_that_are_left_say(
    storage: DiskStorage, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for volume in opened(storage, first, second).volumes:
        volume.format(PoolIdentity("BP-1", 1, "CID", 0), "its-uuid", lambda: "1")
    storage.close()
    (first / "in_use.lock").unlink()
    (first / "in_use.lock").mkdir()
    found = opened(storage, first, second)
    assert [volume.path for volume, _ in found.failed] == [str(first)]
    assert found.datanode_uuid == "its-uuid"


def test_a_volume_in_use_is_refused_however_many_may_fail(
    storage: DiskStorage, tmp_path: Path
) -> None:
    opened(storage, tmp_path / "one", tmp_path / "two")
    other = DiskStorage()
    try:
        with pytest.raises(UsageError, match="is in use by process"):
            opened(other, tmp_path / "one", tmp_path / "three")
    finally:
        other.close()
