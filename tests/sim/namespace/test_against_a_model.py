"""Random operations against a dictionary of paths: same answers, same tree, after every restart.

The model knows directories, files with lengths, and snapshots as copies of itself. After every
operation the checkers run and a second namespace that only replays must equal the live one.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from headrace.namespace import requests
from headrace.namespace.checkpoint import replay_files
from headrace.namespace.filesystem import Namespace
from headrace.namespace.inodes import DirectoryInode, FileInode, Inode
from headrace.namespace.requests import (
    AllowSnapshot,
    Concat,
    CreateSnapshot,
    Delete,
    DeleteSnapshot,
    IsFileClosed,
    Mkdirs,
    Rename2,
    SetPermission,
    SetQuota,
    SetReplication,
    Truncate,
)
from headrace.testing.namenode import BLOCK_SIZE, SimulatedNameNode, Turns, durable_state
from headrace.testing.namespace_checkers import check_namespace
from headrace.wire.hadoop.exceptions import RemoteError

STEPS = 120
NAMES = ("a", "b", "c", "d")
DIRECTORY = -1
Tree = dict[str, int]
"""Path to length; directories have DIRECTORY."""


@dataclass
class Model:
    tree: Tree = field(default_factory=lambda: {"/": DIRECTORY, "/snap": DIRECTORY})
    snapshots: dict[str, Tree] = field(default_factory=dict)

    def below(self, path: str) -> list[str]:
        return [p for p in self.tree if p.startswith(path.rstrip("/") + "/") and p != path]

    def parents_are_directories(self, path: str) -> bool:
        above = path
        while above != "/":
            above = above.rpartition("/")[0] or "/"
            if self.tree.get(above, DIRECTORY) != DIRECTORY:
                return False
        return True

    def make_parents(self, path: str) -> None:
        above = path.rpartition("/")[0] or "/"
        while above not in self.tree:
            self.tree[above] = DIRECTORY
            above = above.rpartition("/")[0] or "/"

    # Each answers whether the operation is done, and does it.

    def mkdirs(self, path: str) -> bool:
        if not self.parents_are_directories(path) or self.tree.get(path, DIRECTORY) >= 0:
            return False
        self.make_parents(path)
        self.tree[path] = DIRECTORY
        return True

    def write(self, path: str, length: int, overwrite: bool) -> bool:
        if not self.parents_are_directories(path):
            return False
        if path in self.tree and (not overwrite or self.tree[path] == DIRECTORY):
            return False
        self.make_parents(path)
        self.tree[path] = length
        return True

    def delete(self, path: str, recursive: bool) -> bool:
        if not self.parents_are_directories(path) or path not in self.tree:
            return False
        below = self.below(path)
        holds_snapshots = self.snapshots and (path == "/snap" or "/snap" in below)
        if path == "/" or (below and not recursive) or holds_snapshots:
            return False
        for gone in (path, *below):
            del self.tree[gone]
        return True

    def rename(self, src: str, dst: str, overwrite: bool) -> bool:
        tree = self.tree
        if not self.parents_are_directories(src) or not self.parents_are_directories(dst):
            return False
        parent = dst.rpartition("/")[0] or "/"
        is_wrong = (
            src not in tree
            or "/" in (src, dst)
            or dst == src
            or dst.startswith(src + "/")
            or parent not in tree
        )
        if is_wrong:
            return False
        if dst in tree:
            same_kind = (tree[src] == DIRECTORY) == (tree[dst] == DIRECTORY)
            if not overwrite or not same_kind or self.below(dst):
                return False
        if self.snapshots and ("/snap" in (src, dst) or "/snap" in self.below(src)):
            return False
        moved = {p: tree[p] for p in (src, *self.below(src))}
        for path in moved:
            del tree[path]
        tree.pop(dst, None)
        for path, length in moved.items():
            tree[dst + path[len(src) :]] = length
        return True


def tree_of(root: Inode, prefix: str = "", snapshot_id: int = 2**31 - 2) -> Tree:
    found: Tree = {}
    stack = [(prefix or "/", root.at(snapshot_id))]
    while stack:
        path, inode = stack.pop()
        found[path] = inode.length if isinstance(inode, FileInode) else DIRECTORY
        if isinstance(inode, DirectoryInode):
            base = path.rstrip("/")
            stack += [(f"{base}/{n}", c.at(snapshot_id)) for n, c in inode.children.items()]
    return found


class Run:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = SimulatedNameNode(seed=seed, datanodes=3, turns=tuple(Turns)[seed % 3])
        self.cluster.ask(Mkdirs("/snap", 0o755))
        self.cluster.ask(AllowSnapshot("/snap"))
        self.model = Model()
        self.files = 0

    def path(self) -> str:
        depth = self.random.randrange(1, 4)
        names = [self.random.choice(NAMES) for _ in range(depth)]
        if self.random.random() < 0.5:
            names[0] = "snap"
        return "/" + "/".join(names)

    def file(self) -> str | None:
        files = sorted(p for p, length in self.model.tree.items() if length >= 0)
        return self.random.choice(files) if files else None

    def agree(self, request: object, expected: bool) -> None:
        refusal = ""
        try:
            answer = self.cluster.ask(request)
        except RemoteError as error:
            answer, refusal = False, error.message
        assert (answer is not False) == expected, f"{request} answered {answer} {refusal}"

    def step(self) -> None:
        random, model = self.random, self.model
        choice = random.randrange(12)
        if choice < 2:
            path = self.path()
            self.agree(Mkdirs(path, 0o755), model.mkdirs(path))
        elif choice < 5:
            self.write()
        elif choice < 6:
            path, recursive = self.path(), random.random() < 0.7
            self.agree(Delete(path, recursive), model.delete(path, recursive))
        elif choice < 9:
            src, dst, overwrite = self.path(), self.path(), random.random() < 0.5
            self.agree(Rename2(src, dst, overwrite), model.rename(src, dst, overwrite))
        elif choice < 10:
            self.change_a_file()
        else:
            self.snapshot()

    def write(self) -> None:
        path, overwrite = self.path(), self.random.random() < 0.4
        sizes = [BLOCK_SIZE] * self.random.randrange(2) + [self.random.randrange(1, 500)]
        if self.random.random() < 0.4:
            sizes = []
        expected = self.model.write(path, sum(sizes), overwrite)
        flags = requests.CREATE | (requests.OVERWRITE if overwrite else 0)
        refusal = ""
        try:
            self.cluster.write(path, *sizes, flags=flags)
        except RemoteError as error:
            refusal = error.message
        assert (not refusal) == expected, f"{path} {refusal}"

    def change_a_file(self) -> None:
        path = self.file()
        if path is None:
            return
        choice = self.random.randrange(4)
        if choice == 0:
            self.cluster.ask(SetPermission(path, self.random.randrange(0o777)))
        elif choice == 1:
            self.cluster.ask(SetReplication(path, self.random.randrange(1, 4)))
        elif choice == 2:
            self.truncate(path)
        else:
            self.concat(path)

    def truncate(self, path: str) -> None:
        """Anywhere: at a block's edge, inside one, and inside one that a snapshot needs whole."""
        length = self.random.randrange(self.model.tree[path] + 1)
        if not self.cluster.ask(Truncate(path, length, "cutter")):
            self.cluster.beat()
            assert self.cluster.ask(IsFileClosed(path))
        self.model.tree[path] = length

    def concat(self, target: str) -> None:
        source = self.file()
        assert source is not None
        try:
            self.cluster.ask(Concat(target, (source,)))
        except RemoteError:
            is_plain = not source.startswith("/snap") and not self.model.snapshots
            is_plain = is_plain and source.rpartition("/")[0] == target.rpartition("/")[0]
            assert source == target or not self.model.tree[source] or not is_plain
            return
        self.model.tree[target] += self.model.tree.pop(source)

    def snapshot(self) -> None:
        names = self.model.snapshots
        if names and self.random.random() < 0.4:
            name = self.random.choice(sorted(names))
            self.cluster.ask(DeleteSnapshot("/snap", name))
            del names[name]
        elif "/snap" in self.model.tree and len(names) < 4:
            name = f"s{self.random.randrange(1000)}"
            top = self.cluster.ns.root.children["snap"]
            if name in names or not isinstance(top, DirectoryInode) or top.snapshots is None:
                return
            self.cluster.ask(CreateSnapshot("/snap", name))
            below = {p: self.model.tree[p] for p in ("/snap", *self.model.below("/snap"))}
            names[name] = below

    # -- judging -----------------------------------------------------------------------------

    def judge(self) -> None:
        ns = self.cluster.ns
        check_namespace(ns)
        assert tree_of(ns.root) == self.model.tree
        assert not ns.leases.by_holder, "every file was closed"
        root = ns.root.children.get("snap")
        for name, tree in self.model.snapshots.items():
            assert isinstance(root, DirectoryInode)
            assert root.snapshots is not None
            seen = tree_of(root, "/snap", root.snapshots[name].snapshot_id)
            assert seen == tree, f"snapshot {name}"

    def judge_replay(self) -> None:
        """D11, D13: who only replays comes to the same state."""
        cluster = self.cluster
        cluster.namenode.journal.durable(None)
        cluster.settle()
        again = Namespace(cluster.settings)
        end = cluster.namenode.journal.log.log_end_offset
        if cluster.namenode.journal.log.log_start_offset == 0:
            replay_files(cluster.disk, "name/__namespace-0", again, end)
            assert durable_state(again) == durable_state(cluster.ns)

    def disturb(self) -> None:
        chance = self.random.random()
        if chance < 0.10:
            self.cluster.restart()
        elif chance < 0.16:
            self.cluster.lose_power()
        elif chance < 0.20:
            self.cluster.checkpoint()
        elif chance < 0.24:
            if self.model.tree.get("/a") == DIRECTORY:
                self.cluster.ask(SetQuota("/a", 10**6, 10**15))
        elif chance < 0.4:
            self.cluster.beat()


@pytest.mark.parametrize("seed", [*range(10), 107, 157])
def test_same_as_the_model(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
        run.judge()
        run.disturb()
        run.judge()
        run.judge_replay()
    run.cluster.restart()
    run.judge()
    run.cluster.run(20_000, 2_000)
    kept = set(run.cluster.ns.blocks)
    assert all(set(node.replicas) <= kept for node in run.cluster.nodes)
