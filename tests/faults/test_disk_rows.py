"""Disks that lose power, fail, fill up, lie or are replaced, and files that are damaged, of the
active controller.

Rows P1 to B4 of docs/TESTING.md. What happens to a leader's disk of ours is in `test_directories`,
`test_full_disk`, `test_power_cut_replicas` and `test_replaced_disks`, which look closer. Every node
has one log directory, on a file system of its own; a run goes as `network_stage` says, with topics
created all the while where the controller is the victim. Needs root.

A node whose metadata log fails ends, or hands over and stays; a node whose files are damaged starts
and is whole again in the end, or says which file keeps it from starting. Nobody else is harmed:
what was granted is there, and the metadata logs are the same on all nodes.
"""

import contextlib
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import not_run
from tests.faults import disk_faults as faults
from tests.faults.disk_faults import DiskStage, damaged
from tests.faults.disks import image_at
from tests.faults.network_stage import (
    CONTROLLER,
    LEADER,
    NODES,
    SETTINGS,
    SHORT,
    Row,
    Stage,
    rounds_of,
)
from tests.faults.networks import Network
from tests.faults.node_rig import KafkaRig, NodeRig, RigNode
from tests.faults.quorum_view import metadata_batches
from tests.faults.test_replication import tell
from tests.interop import java_tools
from tests.interop.nodes import until

IMAGE_MIB = 128
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "20000"}
"""So that there are some."""


# -- what happens to a file ------------------------------------------------------------------------


def flip(place: float) -> Callable[[Path], None]:
    """One bit, at this part of the file."""

    def hurt(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(len(content) - 1, int(len(content) * place))] ^= 0x10
        path.write_bytes(bytes(content))

    return hurt


def cut(kept: Callable[[int], int]) -> Callable[[Path], None]:
    def hurt(path: Path) -> None:
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(max(0, kept(size)))

    return hurt


def overwrite_tail(tail: Callable[[int], bytes]) -> Callable[[Path], None]:
    def hurt(path: Path) -> None:
        content = path.read_bytes()
        size = min(100, len(content) // 2)
        path.write_bytes(content[:-size] + tail(size))

    return hurt


def double_tail(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content + content[-300:])


def delete(path: Path) -> None:
    path.unlink()


def older_copy(stage: Stage, victim: int) -> Generator[None, None, None]:
    """The log of a while ago is put back."""
    log = faults.hurt_log(stage, victim)
    content = log.read_bytes()
    until(lambda: log.stat().st_size > len(content) + 500, 60.0)
    stage.rig.kill(victim)
    yield
    log.write_bytes(content)
    stage.rig.start(victim)


DISKS: dict[str, Row] = {
    "P1-P2-power-cut": Row(faults.power_cut, takes_over=True),
    "W1-full": Row(faults.full, spell_s=8.0),
    "W2-eio-write": Row(faults.failing(faults.WRITES), takes_over=True),
    "W2-eio-sync": Row(faults.failing(faults.SYNCS), takes_over=True),
    "W2-eio-read": Row(faults.failing(faults.READS), takes_over=True),
    "W4-lying": Row(faults.lied_to, takes_over=True),
    "W5-read-only": Row(faults.read_only, takes_over=True),
    "W5-unchangeable": Row(faults.unchangeable, spell_s=8.0),
    "W5-removed": Row(faults.removed, spell_s=8.0),
    "W6-replaced": Row(faults.replaced, takes_over=True),
}
LOGS: dict[str, Row] = {
    "B1-flip": Row(damaged(flip(0.5)), takes_over=True),
    "B1-flip-last": Row(damaged(flip(0.999)), takes_over=True),
    "B2-cut": Row(damaged(cut(lambda size: size - 37)), takes_over=True),
    "B2-cut-half": Row(damaged(cut(lambda size: size // 2)), takes_over=True),
    "B2-cut-to-nothing": Row(damaged(cut(lambda _size: 0)), takes_over=True),
    "B3-zeros": Row(damaged(overwrite_tail(bytes)), takes_over=True),
    "B3-ones": Row(damaged(overwrite_tail(lambda size: b"\xff" * size)), takes_over=True),
    "B3-garbage": Row(damaged(overwrite_tail(random.Random(3).randbytes)), takes_over=True),
    "B3-doubled": Row(damaged(double_tail), takes_over=True),
    "B3-older": Row(older_copy, takes_over=True),
    "B4-delete": Row(damaged(delete), takes_over=True),
}
FILES = (
    "quorum-state",
    "quorum-synced",
    "meta.properties",
    ".checkpoint",
    ".index",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
BESIDE: dict[str, Row] = {
    **{f"B1-{name}": Row(damaged(flip(0.4), name), takes_over=True) for name in FILES},
    **{f"B4-{name}": Row(damaged(delete, name), takes_over=True) for name in FILES},
}


@contextlib.contextmanager
def disk_stage(base: Path, target: str) -> Iterator[DiskStage]:
    is_control = target == "kafka"
    with contextlib.ExitStack() as stack:
        images = {
            node: stack.enter_context(image_at(base / str(node) / "disk", IMAGE_MIB))
            for node in NODES
        }
        nodes = [RigNode(node, base / str(node), [images[node].folder / "log"]) for node in NODES]
        if is_control:
            try:
                java_tools.prepare()
            except java_tools.JavaMissingError as missing:
                not_run(str(missing))
            rig: NodeRig = KafkaRig(nodes, SETTINGS)
        else:
            rig = NodeRig(nodes, SETTINGS | SHORT | SNAPSHOTS)
        stack.enter_context(rig)
        if is_control:
            # Kafka does not sync all of what formatting writes: those were to be longer ago.
            for image in images.values():
                image.sync()
        # A network of nobody: there is nothing to cut, and nothing to heal.
        yield DiskStage(Network(()), rig, random.Random(7), is_control, images=images)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskStage]:
    with disk_stage(tmp_path_factory.mktemp("disks"), "headrace") as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("row", [*DISKS, *LOGS, *BESIDE])
def test_a_row_of_the_active_controller(
    stage: DiskStage, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    rows = {**DISKS, **LOGS, **BESIDE}
    line = rounds_of(stage, rows[row], 1, row.lower(), CONTROLLER)
    assert all(len(metadata_batches(node)) > 1 for node in stage.rig.nodes.values())
    tell(capsys, f"{row}, the active controller", line)


@pytest.mark.long
@pytest.mark.parametrize("row", ["W2-eio-write", "W2-eio-sync"])
def test_a_row_of_a_leader(stage: DiskStage, capsys: pytest.CaptureFixture[str], row: str) -> None:
    """Whose one directory fails with it."""
    configs = {"flush.messages": "1"} if row == "W2-eio-sync" else {}
    line = rounds_of(stage, replace(DISKS[row], configs=configs), 1, f"{row.lower()}-l", LEADER)
    tell(capsys, f"{row}, a leader", line)
