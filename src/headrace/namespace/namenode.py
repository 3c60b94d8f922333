"""The NameNode without its sockets: what the protocol handlers call.

Owns: the sum of its sides (`service` journals and answers, `datanode_side` and `writer_side`
converse) and the figures that operators ask for.
Must not know: RPC messages, HTTP, processes.
"""

from collections.abc import Callable, Generator
from typing import Any

from headrace.base.errors import UsageError
from headrace.base.promise import Promise
from headrace.namespace import meta_save, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import (
    AdminState,
    BlockName,
    DatanodeDescriptor,
    StorageInfo,
)
from headrace.namespace.host_orders import HostOrders, Order, Wish
from headrace.namespace.leaving import Hosts, names_of
from headrace.namespace.ops import set_quota
from headrace.namespace.permissions import require_superuser
from headrace.namespace.requests import GetContentSummary
from headrace.namespace.service import rejected
from headrace.namespace.trash import TrashEmptier
from headrace.namespace.values import ContentSummary, CorruptFileBlocks, FsStats
from headrace.namespace.writer_side import WriterSide
from headrace.wire.hadoop.exceptions import RemoteError

_CORRUPT_FILES_MAX = 100


class NameNode(WriterSide):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.trash = TrashEmptier(self)

    def start(self) -> None:
        super().start()
        self.trash.start()

    build_checkpoint: Callable[[], Promise[bool]] | None = None
    """Set by who runs the process: begins a checkpoint."""

    read_hosts: Callable[[], Hosts] | None = None
    """Set likewise: the lists of hosts, as the files have them now."""

    host_orders: HostOrders | None = None
    """Set likewise: who was told to leave by a call."""

    def reload_hosts(self) -> None:
        """dfsadmin's refreshNodes."""
        if self.read_hosts is None:
            return
        try:
            hosts = self.read_hosts()
        except UsageError as error:
            raise refusals.io(str(error)) from error
        if self.host_orders is not None:
            hosts = self.host_orders.added_to(hosts)
        self.refresh_nodes(hosts)

    def order_admin_state(self, name: str, order: Order) -> list[DatanodeDescriptor]:
        """Let DataNodes leave or come back; the ones that are meant."""
        fitting = [node for node in self.datanodes if name in names_of(node)]
        if not fitting:
            raise refusals.io(f"{name} is no DataNode of this cluster")
        if self.host_orders is None:
            raise refusals.io("This NameNode keeps no orders for DataNodes.")
        names = {name} if len(fitting) > 1 else names_of(fitting[0])
        self.host_orders.give(names, name, order)
        self.reload_hosts()
        if order.wish is Wish.IN_SERVICE and any(self.hosts.is_excluded(node) for node in fitting):
            raise refusals.io(f"{name} is on the list of dfs.hosts.exclude: take it off there")
        return fitting

    def save_namespace(self, caller: Caller) -> Promise[bool]:
        """dfsadmin's saveNamespace: in safe mode, by the superuser."""
        try:
            require_superuser(self.ns, caller, "saveNamespace")
            if not self.safe_mode.is_on:
                raise refusals.io(
                    "Safe mode should be turned ON in order to create namespace image."
                )
        except RemoteError as error:
            return rejected(error)
        if self.build_checkpoint is None:
            return rejected(refusals.io("This NameNode keeps no checkpoints."))
        return self.build_checkpoint()

    def fs_stats(self) -> FsStats:
        live = self.datanodes.live()
        missing = self.missing_blocks()
        return FsStats(
            capacity=sum(node.capacity for node in live),
            used=sum(node.dfs_used for node in live),
            remaining=sum(node.remaining for node in live),
            under_replicated=self.blocks.needed.low_count,
            corrupt_blocks=len(self.blocks.corrupt),
            missing_blocks=len(missing),
            missing_repl_one_blocks=sum(
                1 for block in missing if block.file is not None and block.file.replication == 1
            ),
            pending_deletion_blocks=sum(len(node.to_invalidate) for node in live),
            highest_priority_blocks=self.blocks.needed.highest_priority_count,
            badly_placed_blocks=self.blocks.needed.badly_placed_count,
            future_bytes=self.safe_mode.future_bytes,
        )

    def get_content_summary(
        self, request: GetContentSummary, caller: Caller
    ) -> Promise[ContentSummary]:
        """A large tree is summed in slices, between other requests."""
        summary: list[ContentSummary] = []
        refused: list[RemoteError] = []

        def steps() -> Generator[None, None, None]:
            try:
                summary.append((yield from set_quota.summing(self.ns, request, caller)))
            except RemoteError as error:
                refused.append(error)

        def answer(*_: object) -> ContentSummary:
            if refused:
                raise refused[0]
            return summary[0]

        outcome: Promise[ContentSummary] = Promise()

        def settle(promise: Promise[ContentSummary]) -> None:
            if promise.error is not None:
                outcome.reject(promise.error)
            else:
                outcome.resolve(promise.value())

        done = self.read_slices.add(steps())
        done.then(lambda _: self.read(answer, request, caller).then(settle))
        return outcome

    def datanode_report(self, kind: str) -> list[DatanodeDescriptor]:
        """all, live, dead, decommissioning, entering_maintenance, in_maintenance."""
        state = {
            "decommissioning": AdminState.DECOMMISSION_INPROGRESS,
            "entering_maintenance": AdminState.ENTERING_MAINTENANCE,
            "in_maintenance": AdminState.IN_MAINTENANCE,
        }.get(kind)
        if state is not None:
            return [node for node in self.datanodes if node.admin_state is state]
        if kind == "all":
            return list(self.datanodes)
        return [node for node in self.datanodes if node.is_alive == (kind == "live")]

    write_report: Callable[[str, str], None] | None = None
    """Set likewise: keeps a text for the operator, under a name, where the logs are."""

    def meta_save(self, filename: str) -> None:
        """dfsadmin's metasave: what is wrong with blocks and DataNodes, in a file of that name."""
        if not filename or "/" in filename or filename.startswith("."):
            raise refusals.illegal_argument(f"metasave needs a plain file name, not {filename!r}")
        if self.write_report is None:
            raise refusals.io("This NameNode keeps no reports.")
        self.write_report(filename, "\n".join(meta_save.lines(self)) + "\n")

    # -- balancing and damage ----------------------------------------------------------------

    def get_blocks(
        self, uuid: str, size: int, min_block_size: int = 0
    ) -> list[tuple[BlockName, tuple[StorageInfo, ...]]]:
        """NamenodeProtocol.getBlocks: blocks of a DataNode, together about `size` bytes.

        They begin at a random place, so that a balancer that asks again gets others.
        """
        self.require_known(uuid)
        blocks = list(self.ns.blocks.values())
        first = self.random.randrange(0, len(blocks)) if blocks else 0
        found: list[tuple[BlockName, tuple[StorageInfo, ...]]] = []
        total = 0
        for block in (*blocks[first:], *blocks[:first]):
            if total >= size:
                break
            if block.uc is not None or block.num_bytes < max(min_block_size, 1):
                continue
            if any(storage.datanode.uuid == uuid for storage in block.replicas):
                name = BlockName(block.block_id, block.generation_stamp, block.num_bytes)
                found.append((name, block.replicas))
                total += block.num_bytes
        return found

    def list_corrupt_file_blocks(self, path: str, cookie: str) -> CorruptFileBlocks:
        """Files below `path` with a block that has no good replica; 100 at a time."""
        skip = int(cookie) if cookie.isascii() and cookie.isdigit() else 0
        prefix = path.rstrip("/") + "/"
        named = sorted(
            {
                file_path
                for block in self.missing_blocks()
                if block.file is not None and (file_path := block.file.path()).startswith(prefix)
            }
        )
        page = tuple(named[skip : skip + _CORRUPT_FILES_MAX])
        return CorruptFileBlocks(page, str(skip + len(page)))
