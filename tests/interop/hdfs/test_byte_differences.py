"""Random writers and readers, on our file system and on Apache's: the same bytes and refusals.

A seed is some two hundred calls (`file_calls`), made by Hadoop's client, by WebHDFS and by
hdfs-native on both. Every answer must be equal: lengths, contents, checksums in both modes, blocks,
what a second reader sees after a flush, and of a refusal its class. The client is the spec: an
answer that differs and is not named here is a mistake of ours.

What is left out on purpose, as it is known to differ:

- appends and truncations of files that were created with LAZY_PERSIST: Apache's refuses them, ours
  has no such policy and takes them as any file;
- appends with checksums to blocks that have none: Apache's breaks the pipeline at the first packet,
  ours checks the packets and keeps the bytes alone, as the block does;
- a create with OVERWRITE below a quota: refused by it, Apache's has deleted the old file by then;
- readers that stay open while their file is cut or deleted: how soon DataNodes let go of its
  blocks is nobody's promise, nor in which call a writer of a deleted file learns of it;
- quotas and sums of space where there are snapshots (docs/NAMESPACE.md).
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from tests.conftest import not_run
from tests.interop.hdfs.both_sides import Side
from tests.interop.hdfs.conftest import SETTINGS
from tests.interop.hdfs.file_calls import calls_of
from tests.interop.hdfs.real_hdfs import RealHdfs
from tests.interop.java_tools import JavaMissingError

from headrace.testing.filesystem import LocalFileSystem

CHOICES = 60
"""Of a seed; most of them are several calls."""
OURS = {**SETTINGS, "dfs.namenode.fs-limits.min-block-size": "1048576"}
PAIR = pytest.mark.parametrize("seed", range(30))


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    """Apache's and ours."""
    with ExitStack() as stack:
        try:
            apache = stack.enter_context(RealHdfs(datanodes=3, settings=SETTINGS))
        except JavaMissingError as missing:
            not_run(str(missing))
        ours = stack.enter_context(LocalFileSystem(datanodes=3, settings=OURS))
        yield (
            stack.enter_context(closing(Side(apache))),
            stack.enter_context(closing(Side(ours))),
        )


def seen(line: str, answer: str) -> str:
    """What is compared of an answer."""
    told, _, _ = answer.partition("\t")
    if line.startswith("checksum") and ".web " in line:
        # A file without one costs Apache's a NullPointerException.
        told = re.sub("PathIOException|RemoteException:NullPointerException", "IOException", told)
    return told


def is_same(line: str, apache: str, ours: str) -> bool:
    if line.startswith("blocks") and not apache.startswith("!"):
        # Apache's takes its time for missing replicas; ours has at least as many.
        counts = (re.findall(r"x(\d)", apache), re.findall(r"x(\d)", ours))
        enough = len(counts[0]) == len(counts[1]) and all(map(str.__ge__, counts[1], counts[0]))
        return enough and re.sub(r"x\d", "", apache) == re.sub(r"x\d", "", ours)
    return seen(line, apache) == seen(line, ours)


_NO_CHECKSUM = ("none", "! PathIOException")


def differences(lines: list[str], apache: list[str], ours: list[str]) -> list[str]:
    kept: set[str] = set()
    """What WebHDFS appended to, and what has bytes of it: ours goes on with the type of checksums
    that the file has, Apache's with CRC-32C, and then has no checksum of the whole file."""
    found = []
    for index, (line, its, mine) in enumerate(zip(lines, apache, ours, strict=True)):
        call, _, *words = line.split()
        if call == "append" and words[0].endswith(".web"):
            kept.add(words[1])
        elif call in ("concat", "rename", "replace"):
            paths = {words[0], *words[1].split(",")}
            kept |= paths if paths & kept else set()
        if call == "checksum" and words[0] in kept and seen(line, its) in _NO_CHECKSUM:
            continue
        if not is_same(line, its, mine):
            found.append(f"{index}: {line}\n  Apache's: {its}\n  ours:     {mine}")
    return found


@pytest.mark.java
@pytest.mark.long
@PAIR
def test_the_same_bytes(sides: tuple[Side, Side], seed: int) -> None:
    lines = calls_of(seed, CHOICES)
    with ThreadPoolExecutor(2) as pool:
        apache, ours = pool.map(lambda side: side.run(seed, lines), sides)
    assert differences(lines, apache, ours) == []
    read = sum(line.startswith(("read", "pread")) for line in lines)
    print(f"seed {seed}: {len(lines)} calls, {read} reads")


def test_a_difference_is_seen() -> None:
    lines = ["read s1.plain /f", "blocks s1.plain /f", "close s1.w1", "checksum s1.web /f -1"]
    answers = ["3:abc", "0+3x3 ", "! IOException\twhy", "! PathIOException\twhy"]
    assert differences(lines, answers, list(answers)) == []
    alike = ["3:abc", "0+3x3 ", "! IOException\tother words", "! IOException\twhy"]
    assert differences(lines, answers, alike) == []
    for index, wrong in enumerate(("3:abd", "0+3x2 ", "done", "MD5-of-0MD5-of-512CRC32C:00")):
        planted = list(answers)
        planted[index] = wrong
        assert len(differences(lines, answers, planted)) == 1
    assert len(differences(lines[1:2], ["0+3x3 "], ["0+4x3 "])) == 1


def test_a_seed_is_always_the_same_calls() -> None:
    assert calls_of(7, CHOICES) == calls_of(7, CHOICES)
    assert calls_of(7, CHOICES) != calls_of(8, CHOICES)
