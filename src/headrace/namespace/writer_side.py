"""What writers and readers ask that needs DataNodes: blocks, pipelines, leases, locations.

Owns: the conversation with one writer of one file, leases' limits, and block recovery's start.
Must not know: RPC messages.

A writer that ends a block usually asks before the DataNodes' reports are in. HDFS says "not yet"
and the client sleeps; here the answer waits for the report, up to `complete_wait_ms`. Who wants a
block right after a start, before any DataNode is back, waits for the first: HDFS says that there
are none.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.base.promise import Promise
from headrace.namespace import recovery, refusals, requests
from headrace.namespace.blocks import BlockInfo, UcState
from headrace.namespace.caller import Caller
from headrace.namespace.datanode_side import DatanodeSide
from headrace.namespace.datanodes import BlockName, RecoveringBlock, StorageInfo
from headrace.namespace.deciding import Decide
from headrace.namespace.filesystem import Namespace
from headrace.namespace.inodes import FileInode
from headrace.namespace.leases import NN_RECOVERY
from headrace.namespace.ops import (
    add_block,
    append,
    complete,
    get_block_locations,
    update_pipeline,
)
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import WRITE, require
from headrace.namespace.placement import choose_targets, sort_for_reader
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.service import rejected
from headrace.namespace.values import (
    ExtendedBlock,
    LastBlockWithStatus,
    LocatedBlock,
    LocatedBlocks,
)
from headrace.namespace.writing import open_file
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

R = TypeVar("R")
_OPENING = frozenset({requests.Create, requests.Append, requests.Truncate})
_LOOK_FOR_DATANODES_MS = 50
_WRITING = frozenset({requests.AddBlock, requests.Fsync})
"""What the writer of a file asks that has no block yet."""


class WriterSide(DatanodeSide):
    _datanodes_due_ms = 0
    """Until then DataNodes may not have noticed yet that this NameNode has started."""

    def start(self) -> None:
        super().start()
        self._datanodes_due_ms = self.clock.monotonic_ms() + self.settings.first_datanode_wait_ms
        self._lease_round()

    # -- opening -----------------------------------------------------------------------------

    def decide_now(self, decide: Decide[R], request: Any, caller: Caller) -> R:
        """As everywhere; but a file whose writer has gone silent is recovered, and one that a start
        took for closed is opened again for a writer that goes on."""
        if type(request) not in _OPENING:
            if self.ns.leases.resumable and type(request) in _WRITING and not self.safe_mode.is_on:
                file_id = request.file_id or self._file_id(request.src, caller)
                self.decisions.resume(file_id, request.client_name, caller)
            return self.decisions.decide(decide, request, caller)
        response = self.decisions.decide_opening(decide, request, caller, self.recover_if_silent)
        if type(request) is requests.Truncate:
            self._begin_cut(request.src, caller)
        return response

    def append(self, request: requests.Append, caller: Caller) -> Promise[LastBlockWithStatus]:
        return self.execute(append.decide, request, caller)

    def _begin_cut(self, src: str, caller: Caller) -> None:
        """A truncation inside a block is a recovery of it, begun at once."""
        file = resolve(self.ns, src, caller).inode
        block = file.last_block if isinstance(file, FileInode) else None
        if block is not None and block.uc is not None and block.uc.truncate_length >= 0:
            self.begin_recovery(block, block.uc.recovery_id)

    def recover_if_silent(self, src: str, holder: str, caller: Caller) -> None:
        try:
            file = resolve(self.ns, src, caller).inode
        except RemoteError:
            return
        if not isinstance(file, FileInode) or file.writer is None or self.safe_mode.is_on:
            return
        current = file.writer.client_name
        now_ms = self.clock.monotonic_ms()
        if current == holder or not self._is_soft_expired(current, now_ms):
            return
        if not self.release_lease(file):
            raise refusals.recovery_in_progress(
                f"Failed to open {src} for {holder} on {caller.address} because lease recovery "
                f"is in progress. Try again later. Current lease holder: {current}"
            )

    def _is_soft_expired(self, holder: str, now_ms: int) -> bool:
        return self.ns.leases.age_ms(holder, now_ms) > self.settings.lease_soft_limit_ms

    # -- blocks ------------------------------------------------------------------------------

    def add_block(self, request: requests.AddBlock, caller: Caller) -> Promise[LocatedBlock]:
        chosen: list[tuple[StorageInfo, ...]] = []

        def choose(file: FileInode) -> tuple[StorageInfo, ...]:
            targets = self._targets(file, request, caller)
            chosen.append(targets)
            return targets

        def decide(
            ns: Namespace, asked: requests.AddBlock, who: Caller, _now_ms: int
        ) -> tuple[list[Edit], LocatedBlock]:
            return add_block.decide(ns, asked, who, choose)

        def attempt() -> Promise[LocatedBlock]:
            chosen.clear()
            promise = self.execute(decide, request, caller)
            if chosen and promise.error is None:
                self._expect(request, caller, chosen[0])
            return promise

        def is_final(promise: Promise[LocatedBlock]) -> bool:
            error = promise.error
            return not (
                isinstance(error, RemoteError) and error.class_name == exceptions.NOT_REPLICATED_YET
            )

        def begin() -> Promise[LocatedBlock]:
            file_id = request.file_id or self._file_id(request.src, caller)
            return self._until_reported(file_id, attempt, is_final)

        return self._with_datanodes(begin)

    def _with_datanodes(self, act: Callable[[], Promise[R]]) -> Promise[R]:
        """Act once a DataNode is there, or has had time to come back after the start."""
        if self._are_datanodes_back():
            return act()
        outcome: Promise[R] = Promise()

        def look() -> None:
            if self._are_datanodes_back():
                act().then(lambda promise: _settle(outcome, promise))
            else:
                self.timers.call_later(_LOOK_FOR_DATANODES_MS, look)

        look()
        return outcome

    def _are_datanodes_back(self) -> bool:
        return (
            any(node.storages for node in self.datanodes.live())
            or self.clock.monotonic_ms() >= self._datanodes_due_ms
        )

    def _file_id(self, src: str, caller: Caller) -> int:
        """For clients that do not tell it; 0: no such file, which the attempt will say."""
        try:
            inode = resolve(self.ns, src, caller).inode
        except RemoteError:
            return 0
        return 0 if inode is None else inode.inode_id

    def _expect(
        self, request: requests.AddBlock, caller: Caller, targets: tuple[StorageInfo, ...]
    ) -> None:
        file = open_file(self.ns, request.src, request.file_id, request.client_name, caller)
        last = file.last_block
        if last is not None and last.uc is not None and not last.uc.expected:
            last.uc.expected = targets

    def _targets(
        self, file: FileInode, request: requests.AddBlock, caller: Caller
    ) -> tuple[StorageInfo, ...]:
        targets = choose_targets(
            self.datanodes,
            self.random,
            file.replication,
            file.block_size,
            writer="" if request.ignore_locality else caller.address,
            excluded=request.excluded,
            favored=request.favored,
        )
        if len(targets) < self.settings.replication_min:
            live = len(self.datanodes.live())
            excluded = (
                f"{len(request.excluded)} node(s) are" if request.excluded else "no node(s) are"
            )
            raise refusals.io(
                f"File {file.path()} could only be written to {len(targets)} of the "
                f"{self.settings.replication_min} minReplication nodes. There are {live} "
                f"datanode(s) running and {excluded} excluded in this operation."
            )
        return targets

    def complete(self, request: requests.Complete, caller: Caller) -> Promise[bool]:
        try:
            if self.decide_now(complete.decide, request, caller):
                return (
                    Promise.resolved(True) if self.journal.is_ahead else self.journal.durable(True)
                )
        except Exception as error:
            return rejected(error)
        return self.completing(request, caller)

    def completing(self, request: requests.Complete, caller: Caller) -> Promise[bool]:
        """For a file whose blocks were not all reported when `complete` was decided."""
        tried = [self.journal.durable(False)]

        def attempt() -> Promise[bool]:
            return tried.pop() if tried else self.execute(complete.decide, request, caller)

        def is_final(promise: Promise[bool]) -> bool:
            return promise.error is not None or promise.value()

        file_id = request.file_id or self._file_id(request.src, caller)
        return self._until_reported(file_id, attempt, is_final)

    def _until_reported(
        self,
        inode_id: int,
        attempt: Callable[[], Promise[R]],
        is_final: Callable[[Promise[R]], bool],
    ) -> Promise[R]:
        """Try; where only a report is missing, try again when one comes or time is over."""
        outcome: Promise[R] = Promise()
        deadline_ms = self.clock.monotonic_ms() + self.settings.complete_wait_ms

        def run() -> None:
            generation = self.report_count
            attempt().then(lambda promise: on_answer(promise, generation))

        def on_answer(promise: Promise[R], generation: int) -> None:
            left_ms = deadline_ms - self.clock.monotonic_ms()
            if is_final(promise) or left_ms <= 0 or inode_id not in self.ns.inodes:
                _settle(outcome, promise)
            elif generation != self.report_count:
                # A report came while the answer waited for the disk.
                run()
            else:
                wait(left_ms)

        def wait(left_ms: int) -> None:
            def again() -> None:
                timer.cancel()
                self.stop_waiting(inode_id, again)
                run()

            timer = self.timers.call_later(left_ms, again)
            self.wait_for_report(inode_id, again)

        run()
        return outcome

    def get_additional_datanode(
        self, request: requests.GetAdditionalDatanode, caller: Caller
    ) -> Promise[LocatedBlock]:
        """More nodes for a pipeline that lost some."""

        def read(
            ns: Namespace, asked: requests.GetAdditionalDatanode, who: Caller, _now_ms: int
        ) -> LocatedBlock:
            file = open_file(ns, asked.src, asked.file_id, asked.client_name, who)
            existing = self.storages(asked.existing)
            targets = choose_targets(
                self.datanodes,
                self.random,
                asked.additional_count,
                file.block_size,
                existing=existing,
                excluded=asked.excluded,
            )
            return LocatedBlock(asked.block, 0, (*existing, *targets))

        return self.read(read, request, caller)

    def storages(self, named: Sequence[tuple[str, str]]) -> tuple[StorageInfo, ...]:
        """By (DataNode UUID, storage id); those unknown are left out."""
        found: list[StorageInfo] = []
        for uuid, storage_id in named:
            node = self.datanodes.get(uuid)
            if node is None:
                continue
            storage = node.storages.get(storage_id)
            if storage is None and node.storages:
                storage = next(iter(node.storages.values()))
            if storage is not None:
                found.append(storage)
        return tuple(found)

    def update_block_for_pipeline(
        self, request: requests.UpdateBlockForPipeline, caller: Caller
    ) -> Promise[LocatedBlock]:
        return self.execute(update_pipeline.decide_stamp, request, caller)

    def update_pipeline(self, request: requests.UpdatePipeline, caller: Caller) -> Promise[None]:
        promise = self.execute(update_pipeline.decide, request, caller)
        block = self.ns.blocks.get(request.new_block.block_id)
        if promise.error is None and block is not None and block.uc is not None:
            named = list(zip(request.new_nodes, request.storage_ids, strict=False))
            block.uc.expected = self.storages(named)
        return promise

    # -- reading -----------------------------------------------------------------------------

    def get_block_locations(
        self, request: requests.GetBlockLocations, caller: Caller
    ) -> Promise[LocatedBlocks]:
        may_write = not self.safe_mode.is_on
        now_ms = self.clock.now_ms()

        def decide(ns: Namespace) -> tuple[list[Edit], LocatedBlocks]:
            records, answer = get_block_locations.decide(
                ns, request, caller, now_ms, may_write=may_write
            )
            return records, self.sorted_for(answer, caller)

        return self.journal.submit(decide)

    def sorted_for(self, answer: LocatedBlocks, caller: Caller) -> LocatedBlocks:
        rack = ""
        if self.rack_of is not None and self.datanodes.has_racks:
            rack = self.rack_of(caller.address, "", 0)

        def ordered(block: LocatedBlock) -> LocatedBlock:
            storages = sort_for_reader(block.locations, caller.address, self.random, rack)
            return block._replace(locations=storages)

        last = answer.last_block
        return answer._replace(
            blocks=tuple(ordered(block) for block in answer.blocks),
            last_block=None if last is None else ordered(last),
        )

    # -- leases ------------------------------------------------------------------------------

    def renew_lease(self, client_name: str) -> None:
        self.ns.leases.renew(client_name, self.clock.monotonic_ms())

    def recover_lease(self, request: requests.RecoverLease, caller: Caller) -> Promise[bool]:
        """True: the file is closed. Else its recovery goes on; ask again."""
        if self.safe_mode.is_on:
            return rejected(self._safe_mode_refusal(request))
        try:
            file = append.file_at(self.ns, request.src, caller)
            if file.writer is None:
                return self._fence(file, caller)
            require(self.ns, file, caller, WRITE)
            closed = self.release_lease(file)
        except RemoteError as error:
            return rejected(error)
        return self.read(lambda *_: closed, request, caller)

    def _fence(self, file: FileInode, caller: Caller) -> Promise[bool]:
        """A file that is closed stays so, though a start only took it for closed."""
        if file.inode_id in self.ns.leases.resumable:
            require(self.ns, file, caller, WRITE)
        return self._forget_writer(file)

    def release_lease(self, file: FileInode) -> bool:
        """Close the file, or begin the recovery of its last block. RemoteError: not yet."""
        now_ms = self.clock.now_ms()
        block = file.last_block
        uc = None if block is None else block.uc
        is_recovering = (
            uc is not None
            and uc.state is UcState.UNDER_RECOVERY
            and uc.recovery_deadline_ms > self.clock.monotonic_ms()
        )
        all_reported = all(
            storage.has_reported
            for node in self.datanodes.live()
            for storage in node.storages.values()
        )
        released: list[recovery.Released] = []

        def decide(ns: Namespace) -> tuple[list[Edit], bool]:
            records, outcome = recovery.decide_release(
                ns, file, now_ms, all_reported=all_reported, is_recovering=is_recovering
            )
            released.append(outcome)
            return records, outcome.is_closed

        promise = self.journal.submit(decide)
        self.drain()
        if promise.error is not None:
            raise promise.error
        if not released:
            return False
        if released[0].recovery is not None:
            self.begin_recovery(*released[0].recovery)
        return released[0].is_closed

    def begin_recovery(self, block: BlockInfo, recovery_id: int) -> None:
        """Have a primary asked, once nobody can be given that stamp again (D5)."""
        uc = block.uc
        assert uc is not None
        uc.state = UcState.UNDER_RECOVERY
        uc.recovery_id = recovery_id
        uc.recovery_deadline_ms = self.clock.monotonic_ms() + self.settings.recovery_timeout_ms
        self.journal.durable(None).then(lambda _: self._ask_primary(block, recovery_id))

    def _ask_primary(self, block: BlockInfo, recovery_id: int) -> None:
        """It is told with its next heartbeat."""
        uc = block.uc
        is_there = self.ns.blocks.get(block.block_id) is block
        if not is_there or uc is None or uc.recovery_id != recovery_id:
            return  # deleted, ended or begun anew while the stamp went to disk
        primary = recovery.choose_primary(self.ns, block, self.clock.monotonic_ms())
        if primary is None:
            return
        locations = recovery.candidates(self.ns, block)
        source = recovery.recovered_from(self.ns, block)
        name = BlockName(source.block_id, source.generation_stamp, source.num_bytes)
        cut = None
        if uc.truncate_length >= 0:
            cut = BlockName(block.block_id, recovery_id, uc.truncate_length)
        primary.datanode.to_recover[block.block_id] = RecoveringBlock(
            name, locations, recovery_id, cut
        )

    def commit_block_synchronization(
        self,
        block: ExtendedBlock,
        new_generation_stamp: int,
        new_length: int,
        *,
        close_file: bool,
        delete_block: bool,
        new_targets: Sequence[tuple[str, str]],
    ) -> Promise[None]:
        if self.safe_mode.is_on:
            return rejected(
                refusals.safe_mode("Cannot commitBlockSynchronization. Name node is in safe mode.")
            )
        now_ms = self.clock.now_ms()
        targets = self.storages(new_targets)
        promise = self.journal.submit(
            lambda ns: recovery.decide_synchronization(
                ns,
                block.block_id,
                new_generation_stamp,
                new_length,
                now_ms,
                close_file=close_file,
                delete_block=delete_block,
                targets=targets,
            )
        )
        self.drain()
        return promise

    def _lease_round(self) -> None:
        """Writers that were silent beyond the hard limit lose their files (D6)."""
        now_ms = self.clock.monotonic_ms()
        leases, limit_ms = self.ns.leases, self.settings.lease_hard_limit_ms
        if not self.safe_mode.is_on:
            for lease in leases.older_than(limit_ms, now_ms):
                for inode_id in list(lease.files):
                    self._end(inode_id)
            for inode_id in leases.silent_resumable(limit_ms, now_ms):
                file = self.ns.inodes.get(inode_id)
                if isinstance(file, FileInode):
                    self._forget_writer(file)
            self._press_recoveries()
        self.timers.call_later(self.settings.lease_check_ms, self._lease_round)

    def _forget_writer(self, file: FileInode) -> Promise[bool]:
        return self.journal.submit(lambda ns: (complete.forget_writer(ns, file), True))

    def _press_recoveries(self) -> None:
        """Recoveries that the NameNode itself owns go on until they end."""
        lease = self.ns.leases.by_holder.get(NN_RECOVERY)
        for inode_id in [] if lease is None else list(lease.files):
            self._end(inode_id)

    def _end(self, inode_id: int) -> None:
        file = self.ns.inodes.get(inode_id)
        if not isinstance(file, FileInode) or file.writer is None:
            return
        try:
            self.release_lease(file)
        except RemoteError as error:
            self.events.debug("lease_recovery_waits", path=file.path(), reason=error.message)


def _settle(outcome: Promise[R], promise: Promise[R]) -> None:
    if promise.error is not None:
        outcome.reject(promise.error)
    else:
        outcome.resolve(promise.value())
