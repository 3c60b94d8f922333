"""DataNodes without a NameNode, in this process: sockets and files are real."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import uvloop

from headrace.base.events import EventLog
from headrace.datanode.context import Context, TransferSettings
from headrace.datanode.dataset import Dataset
from headrace.datanode.operations import OPERATIONS
from headrace.datanode.session import TransferSession
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import LoopTimers, SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.runtime.transfer import TransferPort
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeIDProto, DatanodeInfoProto
from headrace.wire.hadoop.transfer import ExtendedBlock

POOL = PoolIdentity("BP-1-127.0.0.1-1", 7, "CID-test", 0)
T = TypeVar("T")


class Node:
    """One DataNode's transfer side."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, folder: Path, name: str, volumes: int = 1
    ) -> None:
        self.lines: list[str] = []
        clock = SystemClock()
        log = EventLog(self.lines.append, clock, "debug")
        self.storage = DiskStorage(loop, syncs_by_ring=True)
        self.volumes = []
        for index in range(volumes):
            volume = Volume(self.storage, str(folder / f"{name}-{index}"))
            volume.format(POOL, f"uuid-{name}", lambda key=f"{name}-{index}": key)
            self.volumes.append(volume)
        self.dataset = Dataset(self.storage, self.volumes, lambda action: action())
        self.dataset.pool = POOL
        self.received: list[tuple[int, int, int]] = []
        self.dataset.on_received = lambda replica, _hint: self.received.append(
            (replica.block_id, replica.generation_stamp, replica.num_bytes)
        )
        self.port = TransferPort(loop, log, BufferPool(), 1000)
        self.host, number = self.port.listen("127.0.0.1", 0)
        self.bad_blocks: list[tuple[ExtendedBlock, str]] = []
        self.context = Context(
            self.dataset,
            self.port.connect,
            clock,
            LoopTimers(loop),
            log,
            TransferSettings(min_length_wait_ms=300),
            identity=DatanodeIDProto(
                ipAddr=self.host,
                hostName=self.host,
                datanodeUuid=f"uuid-{name}",
                xferPort=number,
                infoPort=0,
                ipcPort=0,
            ),
        )
        self.context.report_bad_block = lambda block, node: self.bad_blocks.append(
            (block, node.datanodeUuid if node else "")
        )
        self.port.start(lambda: TransferSession(self.context, OPERATIONS))

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.context.identity.xferPort

    @property
    def info(self) -> DatanodeInfoProto:
        return DatanodeInfoProto(id=self.context.identity)

    def close(self) -> None:
        self.port.close()
        self.storage.close()


class Nodes:
    """Several nodes on one loop in a thread; `call` runs a function there."""

    def __init__(self, folder: Path, count: int, volumes: int = 1) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.all = self.call(
            lambda: [Node(self._loop, folder, f"n{i}", volumes) for i in range(count)]
        )

    def __getitem__(self, index: int) -> Node:
        return self.all[index]

    def call(self, function: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(10)

    def close(self) -> None:
        self.call(lambda: [node.close() for node in self.all])
        self.call(lambda: None)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
