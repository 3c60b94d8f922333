"""/fsck: the health of what lies below a path, in the words that `hdfs fsck` looks for.

Owns: the walk and its report. Spec: NamenodeFsck's text; the tool's exit code comes from the last
line ("is HEALTHY", "is CORRUPT"). Everybody may look at what he may read; `-move` and `-delete` are
for superusers, outside safe mode (`fsck_repairs`, after the walk). Complete blocks are judged by
their live replicas.
A large tree is walked in slices, between other requests: what changes meanwhile is told as it was
when the walk came by.
"""

import re
from collections.abc import Generator, Iterator
from datetime import UTC, datetime

from headrace.base.promise import Promise
from headrace.base.web import WebRequest, WebResponse, text
from headrace.namespace import refusals
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import AdminState
from headrace.namespace.http.fsck_repairs import Repairs, Salvage, live_replicas
from headrace.namespace.inodes import CURRENT, DirectoryInode, FileInode, Inode
from headrace.namespace.namenode import NameNode
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import EXECUTE, READ, require, require_superuser
from headrace.namespace.rpc.translation import Groups
from headrace.wire.hadoop.exceptions import RemoteError

_SLICE_INODES = 1_000
_LISTED_MAX = 100
_BLOCK_NAME = re.compile(r"(?:blk_)?(-?[0-9]{1,19})(?:_[0-9]+)?(?:\.meta)?")
_STORAGE_TYPES = {1: "DISK", 2: "SSD", 3: "ARCHIVE", 4: "RAM_DISK", 5: "PROVIDED", 6: "NVDIMM"}


class Fsck:
    """The page. Without a `salvage` it moves nothing."""

    def __init__(self, namenode: NameNode, groups: Groups, salvage: Salvage | None = None) -> None:
        self._namenode = namenode
        self._groups = groups
        self._salvage = salvage

    def __call__(self, request: WebRequest) -> WebResponse | Promise[WebResponse]:
        query = request.query
        user = query.get("ugi", "dr.who")
        caller = Caller(user, self._groups(user), b"", -1, request.address)
        if "move" in query and self._salvage is None:
            return text(400, "this fsck moves nothing: -move is not served here\n")
        check = Check(self._namenode, query, caller)
        repairs = Repairs(
            self._namenode,
            caller,
            self._salvage if "move" in query else None,
            deletes="delete" in query,
        )
        lines: list[str] = []

        def walk() -> Generator[None, None, None]:
            for line in check.lines():
                if line is None:
                    yield
                else:
                    lines.append(line)

        def end(_: None) -> WebResponse:
            report = [*lines, *repairs.lines, *check.ending(has_failed=repairs.has_failed)]
            return text(200, "\n".join(report) + "\n")

        repaired: Promise[None] = Promise()

        def on_repaired(settled: Promise[None]) -> None:
            if settled.error is None:
                repaired.resolve(None)
            else:
                repaired.reject(settled.error)

        def repair(_: Promise[None]) -> None:
            repairs.run(check.damaged if check.repairs else ()).then(on_repaired)

        self._namenode.read_slices.add(walk()).then(repair)
        return repaired.map(end)


class Check:
    """One walk."""

    def __init__(self, namenode: NameNode, query: dict[str, str], caller: Caller) -> None:
        self._namenode = namenode
        self._query = query
        self._caller = caller
        self._path = query.get("path", "/") or "/"
        self._pool = namenode.ns.pool_id
        self._shows_files = "files" in query
        self._shows_blocks = "blocks" in query
        self._shows_locations = "locations" in query or "racks" in query
        self._includes_open = "openforwrite" in query
        self.directories = self.symlinks = self.files = self.size = self.open_files = 0
        self.blocks = self.minimal = self.over = self.under = self.replicas = 0
        self.missing = self.corrupt = self.missing_replicas = self.expected = 0
        self.badly_placed = 0
        self.corrupt_files: dict[str, list[BlockInfo]] = {}
        """With their blocks that nobody can read."""
        self.damaged: list[FileInode] = []
        """The same files."""
        self.repairs = "move" in query or "delete" in query
        """Whether what is damaged is to be repaired; no more once the walk was refused."""
        self._has_walked = False

    def lines(self) -> Iterator[str | None]:
        """The report as far as the walk goes; None: others may have a turn."""
        self.repairs, wanted = False, self.repairs
        now = self._now()
        try:
            if "blockid" in self._query:
                yield from self._named_blocks(now)
                return
            top = self._find(to_repair=wanted)
            if top is None:
                yield f"\nPath '{self._path}' does not exist"
                return
            if "listcorruptfileblocks" in self._query:
                require_superuser(self._namenode.ns, self._caller, "listCorruptFileBlocks")
                yield from self._corrupt_listing(top)
                return
            yield self._began() + f"for path {self._path} at {now}\n"
            yield from self._walk(top)
        except RemoteError as refused:
            yield f"FSCK ended at {now} in 0 milliseconds\n{refused.message}\n\n"
            yield f"Fsck on path '{self._path}' FAILED"
            return
        self._has_walked = True
        self.repairs = wanted

    def ending(self, *, has_failed: bool) -> Iterator[str]:
        """The rest of it: sums and the verdict, of what the walk saw."""
        if not self._has_walked:
            return
        yield from self._totals()
        yield f"FSCK ended at {self._now()} in 0 milliseconds\n\n"
        if has_failed:
            yield f"fsck encountered internal errors!\n\n\nFsck on path '{self._path}' FAILED"
            return
        verdict = "CORRUPT" if self.corrupt_files else "HEALTHY"
        yield f"The filesystem under path '{self._path}' is {verdict}"

    def _now(self) -> str:
        now_s = self._namenode.clock.now_ms() / 1000
        return datetime.fromtimestamp(now_s, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")

    def _find(self, *, to_repair: bool) -> Inode | None:
        namenode = self._namenode
        found = resolve(namenode.ns, self._path, self._caller, follow=False)
        if to_repair:
            require_superuser(namenode.ns, self._caller, "fsck")
            if found.snapshot_id != CURRENT:
                raise refusals.snapshot(f"{self._path} is in a snapshot, which nobody changes")
            if namenode.safe_mode.is_on:
                raise refusals.safe_mode(
                    "fsck repairs nothing in safe mode: blocks may be reported yet.\n"
                    + namenode.safe_mode.tip(len(namenode.datanodes.live()))
                )
        return found.inode

    def _began(self) -> str:
        return f"FSCK started by {self._caller.user} (auth:SIMPLE) from /{self._caller.address} "

    def _named_blocks(self, now: str) -> Iterator[str]:
        """`-blockId`: whose they are, and where they are."""
        require_superuser(self._namenode.ns, self._caller, "fsck_blockId")
        yield self._began() + f"at {now}\n"
        for name in self._query["blockid"].split():
            yield from self._one_block(name)

    def _one_block(self, name: str) -> Iterator[str]:
        found = _BLOCK_NAME.fullmatch(name)
        blocks = self._namenode.blocks
        block = None if found is None else self._namenode.ns.blocks.get(int(found[1]))
        if block is None or block.file is None:
            yield f"Block {name} does not exist"
            return
        bad = blocks.corrupt.get(block.block_id, {})
        states = [storage.datanode.admin_state for storage in block.replicas]
        yield f"Block Id: {name}"
        yield f"Block belongs to: {block.file.path()}"
        yield f"No. of Expected Replica: {block.file.replication}"
        yield f"No. of live Replica: {blocks.live_replicas(block)}"
        yield f"No. of excess Replica: {len(blocks.excess.get(block.block_id, ()))}"
        yield f"No. of stale Replica: {sum(not s.has_reported for s in block.replicas)}"
        yield f"No. of decommissioned Replica: {states.count(AdminState.DECOMMISSIONED)}"
        yield (
            f"No. of decommissioning Replica: {states.count(AdminState.DECOMMISSION_INPROGRESS)}"
        )
        yield f"No. of corrupted Replica: {len(bad)}"
        for storages, verdict in ((block.replicas, "HEALTHY"), (tuple(bad), "CORRUPT")):
            for storage in storages:
                node = storage.datanode
                where = f"{node.identity.host_name}{node.rack}"
                yield f"Block replica on datanode/rack: {where} is {verdict}"

    def _walk(self, top: Inode) -> Iterator[str | None]:
        base = self._path.rstrip("/")
        stack: list[tuple[Inode, str]] = [(top, base or "/")]
        seen = 0
        while stack:
            seen += 1
            if seen % _SLICE_INODES == 0:
                yield None
            inode, path = stack.pop()
            if isinstance(inode, DirectoryInode):
                require(self._namenode.ns, inode, self._caller, READ | EXECUTE)
                self.directories += 1
                if self._shows_files:
                    yield f"{path} <dir>"
                below = "" if path == "/" else path
                for name in sorted(inode.children, reverse=True):
                    stack.append((inode.children[name], f"{below}/{name}"))
            elif isinstance(inode, FileInode):
                yield from self._file(inode, path)
            else:
                self.symlinks += 1

    def _file(self, file: FileInode, path: str) -> Iterator[str]:
        if file.writer is not None:
            self.open_files += 1
            if not self._includes_open:
                return
        self.files += 1
        self.size += file.length
        problems: list[str] = []
        details: list[str] = []
        for index, block in enumerate(file.blocks):
            problems += self._block(file, path, block)
            if self._shows_blocks:
                details.append(self._block_line(index, block))
        if self._shows_files:
            count = len(file.blocks)
            yield (
                f"{path} {file.length} bytes, replicated: replication={file.replication}, "
                f"{count} block(s): {'' if problems else ' OK'}"
            )
        yield from problems
        if self._shows_files:
            yield from details
            if details:
                yield ""

    def _block(self, file: FileInode, path: str, block: BlockInfo) -> list[str]:
        if not block.is_complete:
            return []
        live = live_replicas(block)
        self.blocks += 1
        self.replicas += len(live)
        self.expected += file.replication
        name = f"{self._namenode.ns.pool_id}:blk_{block.block_id}_{block.generation_stamp}"
        if not live:
            self.missing += 1
            if path not in self.corrupt_files:
                self.damaged.append(file)
            self.corrupt_files.setdefault(path, []).append(block)
            if block.block_id in self._namenode.blocks.corrupt:
                self.corrupt += 1
                return [f"\n{path}: CORRUPT blockpool {self._pool} block blk_{block.block_id}"]
            return [f"\n{path}: MISSING 1 blocks of total size {block.num_bytes} B."]
        if len(live) >= self._namenode.settings.replication_min:
            self.minimal += 1
        if len(live) > file.replication:
            self.over += 1
        if self._namenode.blocks.is_badly_placed(block):
            self.badly_placed += 1
        if len(live) < file.replication:
            self.under += 1
            self.missing_replicas += file.replication - len(live)
            return [
                f"\n{path}:  Under replicated {name}. Target Replicas is {file.replication} "
                f"but found {len(live)} live replica(s), 0 decommissioned replica(s), "
                "0 decommissioning replica(s)."
            ]
        return []

    def _block_line(self, index: int, block: BlockInfo) -> str:
        pool_id = self._namenode.ns.pool_id
        live = [storage for storage in block.finalized() if storage.datanode.is_alive]
        line = (
            f"{index}. {pool_id}:blk_{block.block_id}_{block.generation_stamp} "
            f"len={block.num_bytes} "
        )
        line += f"Live_repl={len(live)}" if live else "MISSING!"
        if self._shows_locations:
            where = ", ".join(
                f"DatanodeInfoWithStorage[{storage.datanode.name},{storage.storage_id},"
                f"{_STORAGE_TYPES.get(storage.storage_type, 'DISK')}]"
                for storage in live
            )
            line += f"  [{where}]"
        return line

    def _corrupt_listing(self, top: Inode) -> Iterator[str | None]:
        """In parts of a hundred: `hdfs fsck` asks on, from the cookie, until there is no more."""
        for line in self._walk(top):
            if line is None:
                yield None
        text = self._query.get("startblockafter", "0")
        cookie = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
        damaged = [(block, path) for path, held in self.corrupt_files.items() for block in held]
        part = damaged[cookie : cookie + _LISTED_MAX]
        yield f"Cookie:\t{cookie + len(part)}"
        for block, path in part:
            yield f"blk_{block.block_id}\t{path}"
        count = str(len(part)) if part else "no more" if cookie else "no"
        yield f"\n\nThe filesystem under path '{self._path}' has {count} CORRUPT files"

    def _totals(self) -> Iterator[str]:
        namenode = self._namenode
        live = namenode.datanodes.live()
        blocks = self.blocks
        average = self.size // blocks if blocks else 0
        yield f"\nStatus: {'CORRUPT' if self.corrupt_files else 'HEALTHY'}"
        yield f" Number of data-nodes:\t{len(live)}"
        yield f" Number of racks:\t\t{len({node.rack for node in live})}"
        yield f" Total dirs:\t\t\t{self.directories}"
        yield f" Total symlinks:\t\t{self.symlinks}"
        if self.open_files and not self._includes_open:
            yield f" Files currently being written:\t{self.open_files}"
        yield "\nReplicated Blocks:"
        yield f" Total size:\t{self.size} B"
        yield f" Total files:\t{self.files}"
        yield f" Total blocks (validated):\t{blocks} (avg. block size {average} B)"
        if self.corrupt_files:
            yield f"  CORRUPT FILES:\t{len(self.corrupt_files)}"
            yield f"  MISSING BLOCKS:\t{self.missing}"
        yield f" Minimally replicated blocks:\t{self.minimal} ({_share(self.minimal, blocks)} %)"
        yield f" Over-replicated blocks:\t{self.over} ({_share(self.over, blocks)} %)"
        yield f" Under-replicated blocks:\t{self.under} ({_share(self.under, blocks)} %)"
        share = _share(self.badly_placed, blocks)
        yield f" Mis-replicated blocks:\t\t{self.badly_placed} ({share} %)"
        yield f" Default replication factor:\t{namenode.settings.replication}"
        yield f" Average block replication:\t{self.replicas / blocks if blocks else 0.0}"
        yield f" Missing blocks:\t\t{self.missing}"
        yield f" Corrupt blocks:\t\t{self.corrupt}"
        share = _share(self.missing_replicas, self.expected)
        yield f" Missing replicas:\t\t{self.missing_replicas} ({share} %)"
        yield f" Blocks queued for replication:\t{namenode.fs_stats().under_replicated}\n"


def _share(part: int, whole: int) -> float:
    return round(100.0 * part / whole, 4) if whole else 0.0
