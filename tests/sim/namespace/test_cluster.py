"""DataNodes that die, return, lie and lose disks, under writers and restarts: then all is healed.

After every step no complete block has lost its last good replica (D8); at the end, when everything
runs again, every closed file has its length and its replicas, and nobody keeps strays (D1, D16).
"""

import contextlib
from random import Random

import pytest

from headrace.namespace.datanodes import ReportedReplica
from headrace.namespace.requests import (
    Append,
    Complete,
    Delete,
    GetFileInfo,
    IsFileClosed,
    RecoverLease,
    Rename2,
    SetReplication,
)
from headrace.namespace.values import ExtendedBlock
from headrace.testing.namenode import SimulatedDatanode, SimulatedNameNode, Turns
from headrace.testing.namespace_checkers import (
    check_good_replicas,
    check_healed,
    check_namespace,
)
from headrace.wire.hadoop.exceptions import RemoteError

STEPS = 150
DATANODES = 5


class Run:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = SimulatedNameNode(
            seed=seed, datanodes=DATANODES, racks=2, turns=tuple(Turns)[seed % 3]
        )
        self.lengths: dict[str, int] = {}
        """Closed files whose close was answered."""
        self.made = 0

    def down(self) -> list[SimulatedDatanode]:
        return [node for node in self.cluster.nodes if not node.is_running]

    def step(self) -> None:
        actions = [
            self.write,
            self.write,
            self.append,
            self.leave_half_written,
            self.delete,
            self.rename,
            self.set_replication,
            self.kill_datanode,
            self.start_datanode,
            self.flip_a_byte,
            self.lose_a_replica,
            self.report_late,
            self.restart_namenode,
            self.pass_time,
            self.pass_time,
        ]
        self.random.choice(actions)()

    # -- clients -----------------------------------------------------------------------------

    def write(self) -> None:
        self.made += 1
        path = f"/f{self.made}"
        size = self.random.randrange(1, 1000)
        try:
            self.cluster.write(path, size, client=f"c{self.made}", replication=3)
        except (RemoteError, AssertionError):
            return
        self.lengths[path] = size

    def append(self) -> None:
        path = self.pick()
        if path is None:
            return
        client = f"a{self.made}"
        self.made += 1
        try:
            last = self.cluster.ask(Append(path, client)).block
        except RemoteError:
            return
        grown = last.block._replace(num_bytes=last.block.num_bytes + 10)
        size = self.lengths.pop(path)
        nodes = [self.cluster.node(storage.datanode.uuid) for storage in last.locations]
        alive = [node for node in nodes if node.is_running]
        for node in alive:
            node.received(grown)
        if not alive:
            # Nobody acknowledged anything: such a writer gives up.
            self.recover_later(path)
            return
        try:
            closed = self.cluster.ask(Complete(path, client, grown))
        except RemoteError:
            closed = False
        if closed:
            self.lengths[path] = size + 10
        else:
            self.recover_later(path)

    def leave_half_written(self) -> None:
        """A writer dies with replicas of different length."""
        self.made += 1
        path = f"/h{self.made}"
        try:
            self.cluster.create(path, f"h{self.made}", replication=3)
            located = self.cluster.add_block(path, f"h{self.made}")
        except RemoteError:
            return
        for storage in located.locations:
            node = self.cluster.node(storage.datanode.uuid)
            if node.is_running:
                node.receiving(located.block._replace(num_bytes=self.random.randrange(100, 200)))
        self.recover_later(path)

    def recover_later(self, path: str) -> None:
        if self.random.random() < 0.5:
            with contextlib.suppress(RemoteError):
                self.cluster.ask(RecoverLease(path, "recoverer"))

    def pick(self) -> str | None:
        return self.random.choice(sorted(self.lengths)) if self.lengths else None

    def delete(self) -> None:
        path = self.pick()
        if path is None or self.cluster.namenode.safe_mode.is_on:
            return
        assert self.cluster.ask(Delete(path, False)) is True
        del self.lengths[path]

    def rename(self) -> None:
        path = self.pick()
        if path is None or self.cluster.namenode.safe_mode.is_on:
            return
        self.made += 1
        target = f"/r{self.made}"
        self.cluster.ask(Rename2(path, target))
        self.lengths[target] = self.lengths.pop(path)

    def set_replication(self) -> None:
        path = self.pick()
        if path is None or self.cluster.namenode.safe_mode.is_on:
            return
        self.cluster.ask(SetReplication(path, self.random.randrange(2, 4)))

    # -- faults ------------------------------------------------------------------------------

    def kill_datanode(self) -> None:
        if len(self.down()) < 2:
            self.random.choice(self.cluster.nodes).is_running = False

    def start_datanode(self) -> None:
        for node in self.down()[:1]:
            node.is_running = True
            node.register()

    def flip_a_byte(self) -> None:
        """A reader finds a bad replica, if another one is good."""
        cluster = self.cluster
        blocks = [b for b in cluster.ns.blocks.values() if len(b.replicas) >= 2]
        if not blocks:
            return
        block = self.random.choice(blocks)
        storage = self.random.choice(block.replicas)
        node = cluster.node(storage.datanode.uuid)
        mine = node.replicas.get(block.block_id)
        alive = [s for s in block.replicas if cluster.node(s.datanode.uuid).is_running]
        if mine is None or not node.is_running or len(alive) < 2:
            return
        node.bad.add(block.block_id)
        name = ExtendedBlock("", block.block_id, block.generation_stamp, block.num_bytes)
        cluster.namenode.report_bad_blocks([(name, [(node.uuid, node.storage_id)])])

    def lose_a_replica(self) -> None:
        """A file is removed behind the DataNode's back; its next full report tells."""
        node = self.random.choice(self.cluster.nodes)
        ids = [i for i in node.replicas if self.good_copies(i, without=node) >= 1]
        if ids and node.is_running:
            gone = self.random.choice(ids)
            del node.replicas[gone]
            node.bad.discard(gone)
            node.report()

    def good_copies(self, block_id: int, without: SimulatedDatanode) -> int:
        block = self.cluster.ns.blocks.get(block_id)
        if block is None or block.uc is not None:
            return 0
        return sum(
            1
            for node in self.cluster.nodes
            if node is not without
            and block_id not in node.bad
            and (mine := node.replicas.get(block_id)) is not None
            and mine == ReportedReplica(block_id, block.num_bytes, block.generation_stamp)
        )

    def report_late(self) -> None:
        """A full report that was made before the latest changes arrives after them."""
        node = self.random.choice(self.cluster.nodes)
        if not node.is_running:
            return
        old = list(node.replicas.values())
        self.write()
        done = self.cluster.namenode.block_report(node.uuid, node.storage, old)
        while not done.settled:
            self.cluster.timers.run_due()
        node.report()

    def restart_namenode(self) -> None:
        if self.random.random() < 0.5:
            self.cluster.restart()
        else:
            self.cluster.lose_power()
        if self.random.random() < 0.3 and not self.cluster.namenode.safe_mode.is_on:
            self.cluster.checkpoint()

    def pass_time(self) -> None:
        self.cluster.run(self.random.randrange(1, 40) * 1_000, 3_000)

    # -- judging -----------------------------------------------------------------------------

    def judge(self) -> None:
        check_namespace(self.cluster.ns)
        check_good_replicas(self.cluster)
        for path, length in self.lengths.items():
            status = self.cluster.ask(GetFileInfo(path))
            assert status is not None, f"D9: {path} is gone"
            assert status.length == length, f"D1: {path} has {status.length}, not {length}"

    def heal(self) -> None:
        for node in self.cluster.nodes:
            if not node.is_running:
                node.is_running = True
                node.register()
        # Longer than the hard limit of a lease: every half-written file must close (D6).
        self.cluster.run(1_500_000, 30_000 - 1_000)
        self.cluster.run(60_000, 3_000)


@pytest.mark.parametrize("seed", [*range(10), 124, 138, 273, 436])
def test_everything_heals(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
        run.judge()
    run.heal()
    run.judge()
    check_healed(run.cluster)
    assert run.cluster.ns.leases.by_holder == {}, "D6: recovery always ends"
    for path in run.lengths:
        assert run.cluster.ask(IsFileClosed(path)) is True
