"""The power fails right after a client was told that its directory is there.

The NameNode's edits lie on an ext4 image behind a loop device; a copy of the image, taken while
nobody asks for anything, is the disk after the cut. The log has zeros ahead of its end, a MiB at a
time, and cuts come while it is in the first of them, when they have just been renewed, and later.
A file that nobody synced proves that the cut was one.
"""

import subprocess
from pathlib import Path

import hdfs_native
from tests.faults.test_power_cut import image, mounted

from headrace.testing.filesystem import LocalFileSystem

__all__ = ["image"]

FEW = 40
NAMES_MAX = 8000
"""More than a MiB of edits."""
SETTINGS = {"dfs.namenode.resource.du.reserved": 0}
"""The image is smaller than what is kept free elsewhere."""


def name(number: int) -> str:
    return f"/{number:05d}".ljust(200, "-")


def log_bytes(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.glob("data/**/__namespace-0/*.log"))


def cut(image: Path, folder: Path, copy: Path) -> None:
    (folder / "lazy").write_bytes(b"not synced")
    subprocess.run(["cp", "--sparse=always", image, copy], check=True, timeout=30)


def cuts(image: Path, copies: Path) -> dict[int, Path]:
    """Disks after a cut, by how many directories had been answered."""
    after: dict[int, Path] = {}
    with (
        mounted(image) as folder,
        LocalFileSystem(folder / "data", datanodes=0, settings=SETTINGS) as dfs,
    ):
        client = hdfs_native.Client(dfs.url)
        renewed_at = NAMES_MAX
        first_bytes = log_bytes(folder)
        for number in range(NAMES_MAX):
            client.mkdirs(name(number), 0o755, False)
            count = number + 1
            if renewed_at == NAMES_MAX and log_bytes(folder) > first_bytes:
                renewed_at = count
            if count in (FEW, renewed_at, renewed_at + FEW):
                after[count] = copies / f"cut-{count}.img"
                cut(image, folder, after[count])
            if len(after) == 3:
                return after
    raise AssertionError("the zeros were not renewed")


def test_what_was_answered_is_there_and_nothing_else(image: Path, tmp_path: Path) -> None:
    for count, copy in cuts(image, tmp_path).items():
        with mounted(copy) as folder:
            lazy = folder / "lazy"
            assert not lazy.exists() or lazy.read_bytes() == b"", "that was no power cut"
            with LocalFileSystem(folder / "data", datanodes=0, settings=SETTINGS) as dfs:
                found = hdfs_native.Client(dfs.url).list_status("/")
                assert sorted(each.path for each in found) == [name(n) for n in range(count)]
