"""A power cut, exactly: what was not synced is gone, as on a real machine.

The broker's data lies on an ext4 image behind a loop device. A copy of the image file, taken
while the broker stands still, holds what the file system had pushed to its "disk" and nothing of
the page cache above it: mounting the copy is the machine after the cut.

With `flush.messages=1` everything acknowledged must be there; so must every topic, since cluster
metadata is synced before it is answered. A second topic without flushes proves that the cut was
one: its acknowledged tail must be missing. Needs root and loop devices; told as NOT RUN without.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import not_run
from tests.faults.load import ProduceLoad, await_acknowledged
from tests.faults.readers import invented, read_by_librdkafka
from tests.interop.confluent import admin_of, create_topic

from headrace.testing import checkers
from headrace.testing.cluster import LocalBroker
from headrace.testing.history import History, Outcome, Poll, Send

CUTS = 3
SYNCED, LAZY = "synced", "lazy"
IMAGE_BYTES = 96 << 20


@pytest.fixture
def image(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        not_run("mounting needs root")
    for program in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(program) is None:
            not_run(f"{program} is not installed")
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True, timeout=30)
    return path


@contextlib.contextmanager
def mounted(image: Path) -> Iterator[Path]:
    """The image as a folder. The journal is not committed by a timer: only syncs reach the disk."""
    folder = image.with_suffix(".mnt")
    folder.mkdir()
    command = ["mount", "-o", "loop,commit=300", str(image), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        not_run(f"no loop mounts here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=60)


def cut_power(broker: LocalBroker, image: Path, copy: Path) -> None:
    """Copy the disk while every thread of the broker stands still, none within a sync."""
    broker.pause()
    deadline = time.monotonic() + 10
    while not all(state == "T" for state in thread_states(broker.pid)):
        assert time.monotonic() < deadline, "the broker does not stand still"
        time.sleep(0.005)
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True, timeout=30)
    broker.resume()


def thread_states(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]


def acknowledged(history: History) -> list[Send]:
    return [send for send in history.events(Send) if send.outcome is Outcome.OK]


def test_power_cuts_lose_nothing_that_was_synced(image: Path, tmp_path: Path) -> None:
    synced, lazy = History(), History()
    at_cut: list[tuple[list[Send], list[Send]]] = []
    copies = [tmp_path / f"cut-{number}.img" for number in range(CUTS)]
    with mounted(image) as folder:
        broker = LocalBroker(folder / "data").start()
        servers = broker.bootstrap_servers
        create_topic(servers, SYNCED, partitions=2, config={"flush.messages": "1"})
        create_topic(servers, LAZY, partitions=2)
        loads = [
            ProduceLoad(servers, SYNCED, 2, synced, idempotent=True),
            ProduceLoad(servers, LAZY, 2, lazy, idempotent=True),
        ]
        try:
            for load in loads:
                load.start()
            for number, copy in enumerate(copies):
                create_topic(servers, f"made-before-cut-{number}")
                await_acknowledged(synced, 300)
                await_acknowledged(lazy, 300)
                at_cut.append((acknowledged(synced), acknowledged(lazy)))
                cut_power(broker, image, copy)
        finally:
            for load in loads:
                load.abandon()
            broker.kill()
    for number, copy in enumerate(copies):
        with mounted(copy) as folder:
            check_after_cut(folder / "data", number, *at_cut[number], synced)


def check_after_cut(
    data: Path, number: int, synced: list[Send], lazy: list[Send], sent: History
) -> None:
    after, kept = History(synced), History()
    with LocalBroker(data) as broker:
        topics = admin_of(broker.bootstrap_servers).list_topics(timeout=20).topics
        made = {f"made-before-cut-{each}" for each in range(number + 1)}
        assert made <= set(topics)
        read_by_librdkafka(broker, SYNCED, 2, after)
        read_by_librdkafka(broker, LAZY, 2, kept)
    found = checkers.check(after)
    assert found == [], checkers.summary(after, found)
    known = {send.value for send in sent.events(Send)}
    assert [poll for poll in invented(after) if poll.value not in known] == []
    assert len(list(kept.events(Poll))) < len(lazy), "nothing was lost: that was no power cut"
