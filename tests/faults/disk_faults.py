"""What is done to the disk of a node of a `DiskStage`: power cuts, failing, full, lying, replaced.

Owns: each fault, its end, and the proof that it struck; what struck nothing is void. Must not know:
what must hold. With the leader of a partition as the victim the files of that partition are hurt,
with the active controller its metadata log; what lies beside them on the same disk shares their
fate, as it does.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.disks import (
    COMMAND_TIMEOUT_S,
    Image,
    allow_changes,
    fill,
    forbid_changes,
    make_read_only,
    remove_everything,
)
from tests.faults.network_faults import need, pid_of
from tests.faults.network_stage import CONTROLLER, Fault, Stage
from tests.faults.node_rig import RigNode
from tests.faults.quorum_view import metadata_folder
from tests.faults.replicas import WAIT_S
from tests.faults.test_power_cut import thread_states

from headrace.node import lives

WRITES = "write,writev,pwrite64,pwritev,pwritev2"
SYNCS = "fdatasync,fsync"
READS = "read,readv,pread64,preadv,preadv2,sendfile"
LIES_S = 8.0


@dataclass(slots=True)
class DiskStage(Stage):
    """Nodes on 127.0.0.1, each with a file system of its own for its one log directory."""

    images: dict[int, Image] = field(default_factory=dict)


def image_of(stage: Stage, victim: int) -> Image:
    assert isinstance(stage, DiskStage)
    return stage.images[victim]


def hurt_log(stage: Stage, victim: int) -> Path:
    """The newest segment of what the row is about."""
    node = stage.rig.nodes[victim]
    folder = metadata_folder(node)
    if stage.kind != CONTROLLER:
        folder = Path(node.log_dirs[0]) / f"{stage.topic}-0"
    return sorted(folder.glob("*.log"))[-1]


def restart(stage: Stage, victim: int) -> None:
    if stage.rig.is_alive(victim):
        stage.rig.kill(victim)
    stage.rig.start(victim)


# -- power -----------------------------------------------------------------------------------------


def power_cut(stage: Stage, victim: int) -> Generator[None, None, None]:
    node = stage.rig.nodes[victim]
    cost_bytes = cut_power(node, image_of(stage, victim))
    assert cost_bytes > 0, "void: everything had reached the disk"
    yield
    stage.rig.start(victim)


def cut_power(node: RigNode, image: Image) -> int:
    """How many bytes of logs the cut has cost."""
    pid = pid_of(node)
    os.kill(pid, signal.SIGSTOP)
    deadline_s = time.monotonic() + WAIT_S
    while not all(state in "Tt" for state in thread_states(pid)):
        assert time.monotonic() < deadline_s, "the node does not stand still"
        time.sleep(0.005)
    copy = image.file.with_suffix(".copy")
    words = ["cp", "--sparse=always", str(image.file), str(copy)]
    subprocess.run(words, check=True, timeout=COMMAND_TIMEOUT_S)
    had = log_bytes(node)
    assert node.process is not None
    node.process.kill()
    node.process.wait()
    image.unmount()
    copy.replace(image.file)
    image.mount()
    # A machine that has started anew has another boot id: processes of before are not known.
    (Path(node.log_dirs[0]) / lives.FILE).unlink(missing_ok=True)
    return had - log_bytes(node)


def log_bytes(node: RigNode) -> int:
    return sum(log.stat().st_size for log in Path(node.log_dirs[0]).glob("*/*.log"))


def lied_to(stage: Stage, victim: int) -> Generator[None, None, None]:
    """Syncs were answered and not made, and then the power goes."""
    node = stage.rig.nodes[victim]
    # Of ours an fsync is for small files and names, which are to speak of what is not there.
    calls = SYNCS if stage.is_control else "fdatasync"
    with injected(node, calls, "retval=0"):
        time.sleep(LIES_S)  # the lies themselves: there is no end that could be waited for
    cost_bytes = cut_power(node, image_of(stage, victim))
    assert cost_bytes > 0, "void: everything had reached the disk"
    yield
    stage.rig.start(victim)


@contextmanager
def injected(node: RigNode, calls: str, what: str, path: Path | None = None) -> Iterator[Path]:
    """These calls of the process, on this file if one is named, do `what` (see strace)."""
    need("strace")
    out = node.data / "injected.out"
    words = ["strace", "-f", "-qq", "-p", str(pid_of(node)), "-o", str(out)]
    if path is not None:
        words += ["-P", str(path)]
    words += ["-e", f"trace={calls}", "-e", f"inject={calls}:{what}"]
    tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        yield out
        assert "INJECTED" in out.read_text(), "void: nothing was injected"
    finally:
        tracer.terminate()
        tracer.wait(WAIT_S)


# -- errors ----------------------------------------------------------------------------------------


def failing(calls: str) -> Fault:
    """EIO of every such call on the log."""

    def fault(stage: Stage, victim: int) -> Generator[None, None, None]:
        with injected(stage.rig.nodes[victim], calls, "error=EIO", hurt_log(stage, victim)):
            yield
        restart(stage, victim)

    return fault


def full(stage: Stage, victim: int) -> Generator[None, None, None]:
    """To the last byte, while logs grow, roll and are noted; then there is room again."""
    image = image_of(stage, victim)
    ballast = fill(image.folder)
    yield
    assert os.statvfs(image.folder).f_bavail < 256, "void: there was room"
    ballast.unlink()
    if not stage.rig.is_alive(victim):
        assert stage.is_control, "a full disk ended the node"
        stage.notes.append("the node ended")
        stage.rig.start(victim)


def read_only(stage: Stage, victim: int) -> Generator[None, None, None]:
    image = image_of(stage, victim)
    make_read_only(image.folder)
    yield
    if stage.rig.is_alive(victim):
        stage.rig.kill(victim)
    image.mend()
    stage.rig.start(victim)


def unchangeable(stage: Stage, victim: int) -> Generator[None, None, None]:
    """No name can be made, changed or removed; files that are open go on."""
    folder = Path(stage.rig.nodes[victim].log_dirs[0])
    forbid_changes(folder)
    try:
        yield
    finally:
        if stage.rig.is_alive(victim):
            stage.rig.kill(victim)
        allow_changes(folder)
    stage.rig.start(victim)


def removed(stage: Stage, victim: int) -> Generator[None, None, None]:
    """All of it; what is open goes on where nobody will find it, until the process ends."""
    remove_everything(Path(stage.rig.nodes[victim].log_dirs[0]))
    yield
    if stage.rig.is_alive(victim):
        stage.rig.kill(victim)
    with suppress(FileNotFoundError):
        remove_everything(Path(stage.rig.nodes[victim].log_dirs[0]))
    stage.rig.start(victim)


def replaced(stage: Stage, victim: int) -> Generator[None, None, None]:
    """An empty one in its place."""
    stage.rig.kill(victim)
    yield
    image_of(stage, victim).replace()
    stage.rig.start(victim)


# -- damaged files ---------------------------------------------------------------------------------


def damaged(hurt: Callable[[Path], None], suffix: str = "") -> Fault:
    """The log, or a file beside it, is damaged while the node is down. It starts and is whole again
    in the end, or it says which file keeps it from starting; then a person removes that one."""

    def fault(stage: Stage, victim: int) -> Generator[None, None, None]:
        node = stage.rig.nodes[victim]
        stage.rig.kill(victim)
        yield
        if not found(stage, victim, suffix):
            # An index is written when a segment ends, or when recovery has read it.
            stage.rig.start(victim)
            stage.rig.kill(victim)
        path = found(stage, victim, suffix)[-1]
        hurt(path)
        stage.rig.launch(node)
        if not starts(stage, node):
            refusal = node.log_text()
            set_aside(path)
            stage.rig.start(victim)
            assert path.name in refusal, f"it does not name {path.name}:\n{refusal[-2_000:]}"
            stage.notes.append(f"did not start with a damaged {path.name}, and said so")

    return fault


def found(stage: Stage, victim: int, suffix: str) -> list[Path]:
    """By their names in the log's folder or in the directory of all; without a name, the log."""
    log = hurt_log(stage, victim)
    if not suffix:
        return [log]
    paths = [*log.parent.glob(f"*{suffix}"), *log.parent.parent.glob(f"*{suffix}")]
    return sorted(path for path in paths if path.stat().st_size)


def set_aside(path: Path) -> None:
    """A damaged segment goes; without its votes a node is another one, so its disk is emptied."""
    if path.suffix == ".log":
        path.unlink()
        return
    folder = path.parent
    if folder.name.startswith("__cluster_metadata"):
        folder = folder.parent
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def starts(stage: Stage, node: RigNode) -> bool:
    assert node.process is not None
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        if stage.rig.has_started(node):
            return True
        if node.process.poll() is not None:
            return False
        time.sleep(0.05)
    raise AssertionError(f"it neither started nor ended: {node.log_text()[-2_000:]}")
