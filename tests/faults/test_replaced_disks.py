"""Copies that are gone or damaged when a broker starts again: not electable, and made anew.

Three brokers with two directories each, three replicas. A broker is killed, something happens to
one of its disks, and it is started again:

W6  the disk is replaced by an empty one, after all three were killed, and it starts first
B1  bits are flipped in the middle of the last segment, in an index, a producer snapshot, the epochs
B2  the last segment loses its end, or an older one
B3  the end of the last segment is zeros, or of an older one
B4  a segment is deleted: the last, an older one, all of them; the whole folder

What was acknowledged is there, once and in order, and in the end every replica holds the same. The
damaged broker must have said what it found, and may lead nothing that was damaged before it is in
sync again; damage that nobody noticed makes the run void, and it fails. What is only derived from
the log (indexes, snapshots, epochs) is rebuilt without a word.
"""

import random
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import pytest
from confluent_kafka.admin import NewTopic
from tests.faults.load import ProduceLoad, await_acknowledged, record_poll
from tests.faults.node_rig import NodeRig, rig_of
from tests.faults.readers import held_by, invented
from tests.faults.replicas import Led, await_told, is_whole, led_at
from tests.faults.test_replication import IMPATIENCE, tell, verdict
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.nodes import until

from headrace.testing.history import History, Send

PARTITIONS = 4
SEGMENT_BYTES = 32 * 1024
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": "500"}
"""A log that lost whole batches at its end is told by the high watermark that was noted of it."""
WATCH_S = 0.05


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeRig]:
    with rig_of(tmp_path_factory.mktemp("disks"), directories=2, settings=SETTINGS) as running:
        yield running


def written(rig: NodeRig, topic: str, history: History) -> None:
    new = NewTopic(topic, PARTITIONS, 3, config={"internal.segment.bytes": str(SEGMENT_BYTES)})
    admin = admin_of(rig.bootstrap_servers)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    await_told(rig.addresses(), topic, is_whole)
    load_for(rig, topic, history, 2_000)


def load_for(rig: NodeRig, topic: str, history: History, count: int) -> None:
    load = ProduceLoad(
        rig.bootstrap_servers, topic, PARTITIONS, history, idempotent=True, settings=IMPATIENCE
    )
    load.sent_count = sum(1 for _ in history.events(Send))  # values that nobody has used
    load.start()
    await_acknowledged(history, count)
    load.stop()


def check(rig: NodeRig, topic: str, history: History) -> str:
    await_told(rig.addresses(), topic, is_whole)
    for message in read_all(rig.bootstrap_servers, topic, PARTITIONS):
        record_poll(history, "librdkafka", message)
    assert invented(history) == []
    for partition in range(PARTITIONS):
        held = [held_by(node, topic, partition) for node in rig.nodes.values()]
        assert held[0]
        assert held[0] == held[1] == held[2]
    return verdict(history, 1, [0.0])


def held_in(folder: Path, topic: str) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{topic}-[0-9]")}


class LeaderWatch:
    """Asks everybody all the time who leads, and judges the damaged broker by it.

    Whoever leads in an epoch that began after the damage must have been seen in sync before, with
    another leader.
    """

    def __init__(self, rig: NodeRig, topic: str, victim: int, damaged: Iterable[int]) -> None:
        self._addresses: Sequence[str] = rig.addresses()
        self._topic, self._victim = topic, victim
        self._damaged = set(damaged)
        self._before = {index: led.leader_epoch for index, led in self._ask().items()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader-watch", daemon=True)
        self.refilled: set[int] = set()
        self.other_led: set[int] = set()
        self.too_early: list[tuple[int, Led]] = []

    def _ask(self) -> dict[int, Led]:
        return next(filter(None, (led_at(each, self._topic) for each in self._addresses)), {})

    def __enter__(self) -> "LeaderWatch":
        assert self._before, "void: nobody says who leads"
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.wait(WATCH_S):
            for address in self._addresses:
                for index, led in led_at(address, self._topic).items():
                    self._look(index, led)

    def _look(self, index: int, led: Led) -> None:
        if index not in self._damaged or led.leader_epoch <= self._before[index]:
            return
        if led.leader not in (-1, self._victim):
            self.other_led.add(index)
            if self._victim in led.isr:
                self.refilled.add(index)
        elif led.leader == self._victim and index not in self.refilled:
            self.too_early.append((index, led))

    def judge(self) -> None:
        """Once the topic is whole again."""
        until(lambda: self.refilled >= self._damaged, TIMEOUT_S)
        assert self.too_early == [], "it led before it had what the others have"
        assert self.other_led >= self._damaged, "void: nobody else took over"


@pytest.mark.long
def test_w6_a_replaced_disk_is_refilled_and_not_elected_before(
    rig: NodeRig, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, history = "replaced", History()
    written(rig, topic, history)
    before = await_told(rig.addresses(), topic, is_whole)
    led: set[int] = set()
    for victim, node in rig.nodes.items():
        disk = node.log_dirs[1]
        lost = held_in(disk, topic)
        led = {index for index in lost if before[index].leader == victim}
        if led:
            break
    assert led, "void: nobody led anything there"
    others = set(rig.nodes) - {victim}
    with LeaderWatch(rig, topic, victim, led) as watch:
        for node_id in rig.nodes:
            rig.kill(node_id)
        shutil.rmtree(disk)
        disk.mkdir()
        rig.launch(rig.nodes[victim])
        for node_id in others:
            rig.launch(rig.nodes[node_id])
        for node in rig.nodes.values():
            rig.await_started(node)

        def is_led_by_others(told: dict[int, Led]) -> bool:
            return bool(told) and all(told[index].leader in others for index in lost)

        await_told(rig.addresses(), topic, is_led_by_others)
        load_for(rig, topic, history, 400)
        line = check(rig, topic, history)
        watch.judge()
    text = rig.nodes[victim].log_text()
    assert "event=partition_missing" in text, "void: nobody missed the disk"
    for index in lost:
        assert said(text, "replica_made_anew", f"{topic}-{index}")
    assert held_in(disk, topic) | held_in(rig.nodes[victim].log_dirs[0], topic) == set(range(4))
    tell(capsys, f"W6: an empty disk in place of one with {len(lost)} replicas", line)


def said(text: str, event: str, partition: str) -> bool:
    events = [f"event={each} " for each in event.split("|")]
    return any(
        partition in line and any(each in line for each in events) for line in text.splitlines()
    )


# -- damaged files -------------------------------------------------------------------------------


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(8):
        content[chance.randrange(len(content) // 4, max(1, len(content) * 3 // 4))] ^= 0x10
    path.write_bytes(bytes(content))


def cut(path: Path, chance: random.Random) -> None:
    with path.open("r+b") as file:
        file.truncate(chance.randrange(path.stat().st_size // 2, path.stat().st_size))


def zero(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    kept = chance.randrange(len(content) // 2, len(content) - 1)
    path.write_bytes(content[:kept] + bytes(len(content) - kept))


def delete(path: Path, _chance: random.Random) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def last_log(folder: Path) -> list[Path]:
    """The last that has something."""
    return [log for log in sorted(folder.glob("*.log")) if log.stat().st_size][-1:]


def older_log(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))[1:2]


def of_older_log(suffix: str) -> Callable[[Path], list[Path]]:
    return lambda folder: sorted(folder.glob(f"*.{suffix}"))[1:2]


REFUSED = ("storage_failed", "replica_made_anew")
"""The copy is set aside whole, and made anew."""
CUT = ("log_recovered|log_shortened",)
"""The second where the cut happens to leave whole batches."""
FOUND = ("storage_failed|log_recovered",)
"""The second where no good batch is behind the damage."""
SHORT = ("log_shortened",)
REBUILT = ()
Damage = tuple[Callable[[Path, random.Random], None], Callable[[Path], list[Path]], tuple[str, ...]]
"""What is done, to which files of the partition's folder, and what the broker says of it."""
DAMAGE: dict[str, Damage] = {
    "B1-flip": (flip, last_log, FOUND),
    "B2-cut": (cut, last_log, CUT),
    "B2-cut-older": (cut, older_log, REFUSED),
    "B3-zeros": (zero, last_log, CUT),
    "B3-zeros-older": (zero, older_log, REFUSED),
    "B4-delete": (delete, last_log, SHORT),
    "B4-delete-older": (delete, older_log, REFUSED),
    "B4-delete-all": (delete, lambda folder: sorted(folder.glob("*.log")), REFUSED),
    "B4-delete-folder": (delete, lambda folder: [folder], SHORT),
    "B1-index": (flip, of_older_log("index"), REBUILT),
    "B1-snapshot": (flip, of_older_log("snapshot"), REBUILT),
    "B1-epochs": (flip, lambda folder: [folder / "leader-epoch-checkpoint"], REBUILT),
}


@pytest.mark.long
@pytest.mark.parametrize("row", DAMAGE)
def test_a_damaged_copy_is_found_and_harms_nobody(
    rig: NodeRig, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    """The copy of a leader: what it had is judged against what the others have."""
    topic, history, chance = row.lower(), History(), random.Random(row)
    written(rig, topic, history)
    before = await_told(rig.addresses(), topic, is_whole)
    partition = chance.randrange(PARTITIONS)
    victim = before[partition].leader
    (folder,) = [
        path
        for directory in rig.nodes[victim].log_dirs
        for path in directory.glob(f"{topic}-{partition}")
    ]
    await_noted(folder)
    damage, choose, events = DAMAGE[row]
    with LeaderWatch(rig, topic, victim, {partition}) as watch:
        rig.kill(victim)
        paths = choose(folder)
        assert paths, "void: there is no such file"
        for path in paths:
            damage(path, chance)
        rig.start(victim)
        load_for(rig, topic, history, 400)
        line = check(rig, topic, history)
        watch.judge()
    text = rig.nodes[victim].log_text()
    for event in events:
        assert said(text, event, folder.name), f"void: nobody noticed, {event} is not in\n{text}"
    if events in (CUT, SHORT):
        assert "event=logs_shortened " in text, "it said that it lost nothing"
    tell(capsys, row, line)


def await_noted(folder: Path) -> None:
    """Until the high watermark of the log's end is in its directory's checkpoint."""
    checkpoint = folder.parent / "replication-offset-checkpoint"
    topic, _, index = folder.name.rpartition("-")

    def is_noted() -> bool:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        noted = [int(line.split()[2]) for line in lines if line.startswith(f"{topic} {index} ")]
        return bool(noted) and noted[0] > int(last_log(folder)[0].stem)

    until(is_noted, TIMEOUT_S)
