"""What is done to a node of a `Stage`: killed, put to sleep, cut off, deafened, delayed, slowed.

Owns: each fault, its end, and the proof that it struck; what struck nothing is void. Must not know:
who the victim is for, what must hold.
"""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from tests.conftest import not_run
from tests.faults.network_stage import NODES, PARTITIONS, Fault, Stage
from tests.faults.networks import CLIENT
from tests.faults.node_rig import RigNode
from tests.faults.quorum_view import describe
from tests.faults.replicas import WAIT_S
from tests.faults.topic_load import open_connection
from tests.interop.nodes import until

from headrace.base.ids import uuid_bytes
from headrace.client.quorum import QuorumClient
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

PROXY_PORT, MARK = 9191, 7
FLIPS, CUTS, DELAYS = 5, 40, 50
DEATHS_MAX = 12
"""At so many syncs, one after the other, a starting node is killed."""
LIVES_S = 8.0
"""A node that has started and lives for so long has made all syncs, or renames, of its start."""
CONNECTIONS = 100
FDS_SLACK = 12
SYNCS = "fdatasync,fsync"
RENAMES = "rename,renameat,renameat2"


def pid_of(node: RigNode) -> int:
    assert node.process is not None
    return node.process.pid


def need(program: str) -> None:
    if shutil.which(program) is None:
        not_run(f"{program} is not installed: apt-get install {program}")


# -- cut and lossy lines ---------------------------------------------------------------------------


def struck(hurt: Callable[[Stage, int], None]) -> Fault:
    """A fault by rules that count what they meet."""

    def fault(stage: Stage, victim: int) -> Generator[None, None, None]:
        hurt(stage, victim)
        yield
        assert stage.net.struck(victim) > 0, "void: no packet was struck"

    return fault


isolated = struck(lambda stage, victim: stage.net.isolate(victim))
deaf = struck(lambda stage, victim: stage.net.deafen(victim))
mute = struck(lambda stage, victim: stage.net.mute(victim))
clients_cut = struck(lambda stage, victim: stage.net.cut_from(victim, [CLIENT]))
reset = struck(lambda stage, victim: stage.net.reset(victim))
# A–B, B–C, not A–C.
half_cut = struck(
    lambda stage, victim: stage.net.cut_from(victim, [stage.chance.choice(stage.others(victim))])
)


def lossy(percent: int) -> Fault:
    return struck(lambda stage, victim: stage.net.lose(victim, percent))


def swizzled(stage: Stage, _victim: int) -> Generator[None, None, None]:
    """One after the other is cut off, and they come back in another order."""
    order = stage.chance.sample(NODES, 3)
    for node in order:
        stage.net.isolate(node)
        time.sleep(stage.chance.uniform(0.2, 1.0))
    yield
    packets = 0
    for node in stage.chance.sample(NODES, 3):
        packets += stage.net.struck(node)
        stage.net.heal(node)
        time.sleep(stage.chance.uniform(0.2, 1.0))
    assert packets > 0, "void: no packet was struck"


def narrow(stage: Stage, victim: int) -> Generator[None, None, None]:
    stage.net.narrow(victim, 256)
    yield
    assert stage.net.held_back(victim) > 0, "void: no packet had to wait"


# -- lines that lead through a proxy ---------------------------------------------------------------


@contextlib.contextmanager
def led_astray(stage: Stage, victim: int, mode: str, peers: list[int]) -> Iterator[list[Path]]:
    """What these peers say to the victim's port goes through a `link_proxy`; its counts."""
    proxies, counts = [], []
    for peer in peers:
        count = stage.rig.nodes[peer].data / "harm"
        count.unlink(missing_ok=True)
        words = [sys.executable, str(Path(__file__).with_name("link_proxy.py")), mode]
        words += [str(PROXY_PORT), stage.net.address(victim), str(stage.port), str(MARK)]
        proxies.append(subprocess.Popen([*stage.net.prefix(peer), *words, str(count)]))
        counts.append(count)
    try:
        for peer, count in zip(peers, counts, strict=True):
            until(count.exists)
            # Connections that stand are not led anywhere: they end first.
            stage.net.reset(peer)
            time.sleep(1.0)
            stage.net.lead_through(peer, victim, stage.port, PROXY_PORT, MARK)
        yield counts
    finally:
        stage.net.heal_all()
        for proxy in proxies:
            proxy.kill()
            proxy.wait()


def harm_of(counts: list[Path]) -> int:
    return sum(int(count.read_text() or 0) for count in counts)


def corrupted(stage: Stage, victim: int) -> Generator[None, None, None]:
    """What the others fetch from the victim has flipped bytes in its records."""
    with led_astray(stage, victim, "corrupt", stage.others(victim)) as counts:
        until(lambda: harm_of(counts) >= FLIPS, WAIT_S)
        yield


def delayed(stage: Stage, victim: int) -> Generator[None, None, None]:
    """75 ± 50 ms each way between the victim and the others."""
    with led_astray(stage, victim, "delay", stage.others(victim)) as counts:
        until(lambda: harm_of(counts) >= DELAYS, WAIT_S)
        yield


def cut_in_frames(stage: Stage, victim: int) -> Generator[None, None, None]:
    """A peer's connections are reset after 0, 1, 2 … bytes, of what it says and what it hears."""
    fds = descriptors(stage)
    peer = stage.chance.choice(stage.others(victim))
    with led_astray(stage, victim, "cut", [peer]) as counts:
        until(lambda: harm_of(counts) >= CUTS, WAIT_S)
        yield
    await_descriptors(stage, fds)


def half_open(stage: Stage, victim: int) -> Generator[None, None, None]:
    """A peer's connections are gone on its side, and nobody tells the victim."""
    fds = descriptors(stage)
    peer = stage.chance.choice(stage.others(victim))
    with led_astray(stage, victim, "carry", [peer]) as counts:
        until(lambda: harm_of(counts) >= 1, WAIT_S)
        time.sleep(1.0)
        stage.net.vanish(peer, MARK)
        yield
        assert stage.net.struck(peer) > 0, "void: no packet was struck"
        # They are given up while they are still half open: the proxy has not ended.
        await_descriptors(stage, fds, only=victim)
    await_descriptors(stage, fds)


def descriptors(stage: Stage) -> dict[int, int]:
    return {
        node: len(os.listdir(f"/proc/{pid_of(stage.rig.nodes[node])}/fd"))
        for node in NODES
        if stage.rig.is_alive(node)
    }


def await_descriptors(stage: Stage, before: dict[int, int], only: int | None = None) -> None:
    def is_back() -> bool:
        now = descriptors(stage)
        return all(
            now[node] <= count + FDS_SLACK for node, count in before.items() if only in (None, node)
        )

    until(is_back, WAIT_S)


def out_of_descriptors(stage: Stage, victim: int) -> Generator[None, None, None]:
    """Whatever needs a new descriptor is refused one, and many connect."""
    node = stage.rig.nodes[victim]
    pid = pid_of(node)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    fds = descriptors(stage)
    held: list[socket.socket] = []
    highest = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    try:
        for port in (node.port, node.controller_port):
            for _ in range(CONNECTIONS // 2):
                one = socket.socket()
                held.append(one)
                one.setblocking(False)
                one.connect_ex((node.host, port))
        until(lambda: len(os.listdir(f"/proc/{pid}/fd")) >= highest + 1, WAIT_S)
        yield
        if not stage.rig.is_alive(victim):
            assert stage.is_control, node.log_text()[-2_000:]
            stage.notes.append("the node ended")
            stage.rig.start(victim)
            pid = pid_of(node)
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        for one in held:
            one.close()
    await_descriptors(stage, fds)


# -- processes -------------------------------------------------------------------------------------


def asleep(at_least_s: float = 0.0) -> Fault:
    """SIGSTOP until others took over, and for so long."""

    def fault(stage: Stage, victim: int) -> Generator[None, None, None]:
        began_s = time.monotonic()
        stage.rig.signal(victim, signal.SIGSTOP)
        try:
            yield
            time.sleep(max(0.0, began_s + at_least_s - time.monotonic()))
        finally:
            stage.rig.signal(victim, signal.SIGCONT)

    return fault


def killed(stage: Stage, victim: int) -> Generator[None, None, None]:
    stage.rig.kill(victim)
    yield
    stage.rig.start(victim)


def all_killed(stage: Stage, _victim: int) -> Generator[None, None, None]:
    for node in NODES:
        stage.rig.kill(node)
    yield
    stage.rig.start_together(NODES)


def majority_restarted(stage: Stage, victim: int) -> Generator[None, None, None]:
    """All are killed, and two come back at once."""
    for node in NODES:
        stage.rig.kill(node)
    stage.rig.start_together(stage.others(victim))
    yield
    stage.rig.start(victim)


def killed_at(calls: str) -> Fault:
    """kill -9 at the N-th of these calls after a start, N = 1 up to all of them: recovery is
    interrupted too."""

    def fault(stage: Stage, victim: int) -> Generator[None, None, None]:
        need("strace")
        stage.rig.kill(victim)
        deaths = 0
        node = stage.rig.nodes[victim]
        while deaths < DEATHS_MAX:
            launch_doomed(stage, node, calls, deaths + 1)
            if not _has_died(stage, node):
                break
            deaths += 1
        assert deaths > 0, "void: it never died"
        stage.notes.append(f"died at each of its first {deaths}")
        yield
        stage.rig.start(victim)

    return fault


def all_killed_at(calls: str) -> Fault:
    """The same of all at once. Without the others the last may have nothing to sync: it is killed
    where it stands."""

    def fault(stage: Stage, _victim: int) -> Generator[None, None, None]:
        need("strace")
        for node in NODES:
            stage.rig.kill(node)
        for number in range(1, 1 + DEATHS_MAX // 2):
            for node in NODES:
                launch_doomed(stage, stage.rig.nodes[node], calls, number)
            until(lambda: sum(stage.rig.is_alive(node) for node in NODES) <= 1, WAIT_S)
            for node in NODES:
                end_group(stage.rig.nodes[node])
        yield
        stage.rig.start_together(NODES)

    return fault


def launch_doomed(stage: Stage, node: RigNode, calls: str, number: int) -> None:
    """To die at its N-th call."""
    prefix = node.prefix
    words = ["strace", "-f", "-qq", "-o", str(node.data / "strace.out")]
    words += ["-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when={number}"]
    node.prefix = [*prefix, *words]
    stage.rig.launch(node)
    node.prefix = prefix


def end_group(node: RigNode) -> None:
    """The process and what traces it."""
    assert node.process is not None
    if node.process.poll() is None:
        os.killpg(node.process.pid, signal.SIGKILL)
        node.process.wait()


def _has_died(stage: Stage, node: RigNode) -> bool:
    assert node.process is not None
    deadline_s = time.monotonic() + WAIT_S
    lives_until_s = float("inf")
    while time.monotonic() < min(deadline_s, lives_until_s):
        if node.process.poll() is not None:
            assert "killed by SIGKILL" in (node.data / "strace.out").read_text()
            return True
        if lives_until_s == float("inf") and stage.rig.has_started(node):
            lives_until_s = time.monotonic() + LIVES_S
        time.sleep(0.05)
    end_group(node)
    assert lives_until_s < float("inf"), f"it neither died nor started: {node.log_text()[-1_000:]}"
    return False


# -- slow syncs ------------------------------------------------------------------------------------


def slow_disk(delay_ms: int, is_majority: bool = False) -> Fault:
    """Every sync of the victim, or of it and another, takes so much longer."""

    def fault(stage: Stage, victim: int) -> Generator[None, None, None]:
        need("strace")
        victims = [victim, *stage.others(victim)[:1]] if is_majority else [victim]
        tracers, outs = [], []
        for each in victims:
            node = stage.rig.nodes[each]
            out = node.data / "slow.out"
            words = ["strace", "-f", "-qq", "-p", str(pid_of(node)), "-o", str(out)]
            words += ["-e", f"trace={SYNCS}"]
            words += ["-e", f"inject={SYNCS}:delay_enter={delay_ms * 1_000}"]
            tracers.append(subprocess.Popen(words))
            outs.append(out)
        try:
            yield
        finally:
            for tracer in tracers:
                tracer.terminate()
            for tracer in tracers:
                tracer.wait(WAIT_S)
        for out in outs:
            assert "DELAYED" in out.read_text(), "void: no sync was slow"

    return fault


# -- changes of the cluster meanwhile --------------------------------------------------------------


def killed_while_removed(stage: Stage, victim: int) -> Generator[None, None, None]:
    """It dies while its replicas are taken from it, and gets them back afterwards."""
    stage.rig.kill(victim)
    others = stage.others(victim)
    reassign(stage, others[0], others)
    yield
    stage.rig.start(victim)
    reassign(stage, others[0], list(NODES))


def reassign(stage: Stage, asked: int, replicas: list[int]) -> None:
    assert stage.topic
    wanted = [
        ReassignablePartition(partition_index=index, replicas=replicas)
        for index in range(PARTITIONS)
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=stage.topic, partitions=wanted)], timeout_ms=10_000
    )
    deadline_s = time.monotonic() + WAIT_S
    while True:
        connection = open_connection(stage.rig.nodes[asked].listen)
        try:
            answer = connection.call(request, AlterPartitionReassignmentsResponse)
        finally:
            connection.close()
        rows = [row for topic in answer.responses for row in topic.partitions]
        if not answer.error_code and all(not row.error_code for row in rows):
            return
        assert time.monotonic() < deadline_s, answer
        time.sleep(0.1)


def voter_removed(stage: Stage, victim: int) -> Generator[None, None, None]:
    """The active controller dies, is taken out of the voters meanwhile, and voted in again."""
    (voter,) = [each for each in describe(stage.rig).voters if each.node_id == victim]
    directory_id = uuid_bytes(voter.directory_id)
    stage.rig.kill(victim)
    quorum = QuorumClient(",".join(stage.rig.addresses(victim)), patience_ms=60_000)
    quorum.remove(victim, directory_id)
    assert victim not in {each.node_id for each in quorum.describe().voters}
    yield
    stage.rig.start(victim)
    node = stage.rig.nodes[victim]
    quorum.add(victim, directory_id, "CONTROLLER", node.host, node.controller_port)
    assert {each.node_id for each in quorum.describe().voters} == set(NODES), "void: not back"
