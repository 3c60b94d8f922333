"""The conversation with a NameNode, and the scanner: on a simulated clock, without sockets."""

import os
import random
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from headrace.base.errors import HeadraceError, StorageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.datanode import complaints
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.commands import Commands
from headrace.datanode.context import Context
from headrace.datanode.dataset import Dataset
from headrace.datanode.pinning import PinnedReplicas
from headrace.datanode.replica import Replica
from headrace.datanode.scanner import BlockScanner, ScanSettings, VolumeScanner
from headrace.datanode.service import NameNodeService, ServiceSettings
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.block_meta import CRC32C_512
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import datanode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server
from headrace.wire.hadoop.protos.hdfs_pb2 import BlockProto, DatanodeIDProto
from headrace.wire.hadoop.transfer import ExtendedBlock

POOL = PoolIdentity("BP-1", 1, "CID", 0)


class Hand:
    """Timers that a test turns by hand."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> "Hand":
        self.waiting.append((delay_ms, callback))
        return self

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.waiting.append((0, callback))

    def cancel(self) -> None:
        """A cancelled beat is sent by somebody else: one too many does not matter here."""

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, callback in waiting:
            callback()


class FakeNameNode:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Message]] = []
        self.commands: list[pb.DatanodeCommandProto] = []
        self.down = False
        self.refused: dict[str, str] = {}
        """Methods, and the class of exception with which they are refused."""
        self.software_version = "3.5.0"

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def call(self, method: str, request: Message) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        if self.down:
            promise.reject(HeadraceError("down"))
            return promise
        self.calls.append((method, request))
        if method in self.refused:
            promise.reject(RemoteError(self.refused[method], "by the test"))
            return promise
        promise.resolve(getattr(self, method)(request))
        return promise

    def versionRequest(self, _: Message) -> Message:
        info = server.StorageInfoProto(layoutVersion=0, namespceID=1, clusterID="CID", cTime=0)
        return server.VersionResponseProto(
            info=server.NamespaceInfoProto(
                buildVersion="",
                unused=0,
                blockPoolID="BP-1",
                storageInfo=info,
                softwareVersion=self.software_version,
            )
        )

    def registerDatanode(self, request: Any) -> Message:
        return pb.RegisterDatanodeResponseProto(registration=request.registration)

    def sendHeartbeat(self, _: Message) -> Message:
        commands, self.commands = self.commands, []
        status = server.NNHAStatusHeartbeatProto(state=0, txid=0)  # type: ignore[arg-type]
        return pb.HeartbeatResponseProto(cmds=commands, haStatus=status)

    def blockReport(self, _: Message) -> Message:
        return pb.BlockReportResponseProto()

    def blockReceivedAndDeleted(self, _: Message) -> Message:
        return pb.BlockReceivedAndDeletedResponseProto()

    def cacheReport(self, _: Message) -> Message:
        return pb.CacheReportResponseProto()

    def errorReport(self, _: Message) -> Message:
        return pb.ErrorReportResponseProto()

    def reportBadBlocks(self, _: Message) -> Message:
        return pb.ReportBadBlocksResponseProto()


class DataNode:
    def __init__(self, folder: Path) -> None:
        storage, self.lines = DiskStorage(), []
        volume = Volume(storage, str(folder))
        storage.make_directory(volume.path)
        self.dataset = Dataset(storage, [volume], lambda action: action())
        self.timers, self.namenode = Hand(), FakeNameNode()
        clock = SystemClock()
        self.context = Context(
            self.dataset,
            lambda *_: None,
            clock,
            self.timers,
            EventLog(self.lines.append, clock),
            identity=DatanodeIDProto(
                ipAddr="127.0.0.1",
                hostName="h",
                datanodeUuid="u",
                xferPort=1,
                infoPort=2,
                ipcPort=3,
            ),
        )
        self.fatal: list[BaseException] = []
        self.service = NameNodeService(
            self.context,
            ServiceSettings(),
            self.namenode.call,
            random.Random(1),
            self._on_pool,
            self.fatal.append,
        )
        self.service.commands = Commands(
            self.context,
            lambda *_: Promise(),
            lambda _: Promise(),
            self.service.register_again,
            lambda: None,
        )

    def _on_pool(self, pool: PoolIdentity) -> None:
        self.dataset.volumes[0].format(pool, "u", lambda: "1")
        self.dataset.pool = pool

    def write(self, block_id: int, data: bytes = b"data") -> Replica:
        replica = self.dataset.create_rbw(ExtendedBlock("BP-1", block_id, 1001), CRC32C_512)
        assert replica.pipeline is not None
        replica.pipeline.data.write([data])
        replica.pipeline.meta.write([compute_checksums(CRC32C_512, data)])
        replica.num_bytes = replica.pipeline.bytes_acked = len(data)
        self.dataset.finalize(replica)
        return replica


@pytest.fixture
def node(tmp_path: Path) -> DataNode:
    return DataNode(tmp_path)


def test_registration_then_report_and_heartbeat(node: DataNode) -> None:
    node.service.start()
    assert node.namenode.names() == [
        "versionRequest",
        "registerDatanode",
        "blockReport",
        "sendHeartbeat",
    ]
    assert node.service.registered


def test_a_namenode_that_is_down_is_asked_again(node: DataNode) -> None:
    node.namenode.down = True
    node.service.start()
    node.timers.turn()
    assert not node.service.registered
    node.namenode.down = False
    node.timers.turn()
    assert node.service.registered


REFUSALS = (exceptions.DISALLOWED_DATANODE, exceptions.INCORRECT_VERSION)


@pytest.mark.parametrize("class_name", REFUSALS)
def test_a_first_registration_that_is_refused_is_told_and_tried_again(
    node: DataNode, class_name: str
) -> None:
    node.namenode.refused["registerDatanode"] = class_name
    node.service.start()
    (line,) = [line for line in node.lines if "registration_refused" in line]
    assert "level=error" in line
    assert "by the test" in line
    assert [delay_ms for delay_ms, _ in node.timers.waiting] == [5_000]
    node.namenode.refused.clear()
    node.timers.turn()
    assert node.service.registered
    assert not node.fatal


@pytest.mark.parametrize("method", ["registerDatanode", "sendHeartbeat"])
@pytest.mark.parametrize("class_name", [*REFUSALS, exceptions.UNREGISTERED_NODE])
def test_a_node_that_is_shut_out_later_ends(node: DataNode, class_name: str, method: str) -> None:
    node.service.start()
    node.namenode.refused[method] = class_name
    node.namenode.commands = [
        pb.DatanodeCommandProto(
            cmdType=pb.DatanodeCommandProto.RegisterCommand, registerCmd=pb.RegisterCommandProto()
        )
    ]
    node.timers.turn()
    (error,) = node.fatal
    assert "by the test" in str(error)


def test_the_heart_goes_on_whatever_an_order_leads_to(node: DataNode) -> None:
    node.service.start()
    assert node.service.commands is not None
    node.service.commands.obey = None  # type: ignore[assignment, method-assign]
    node.namenode.commands = [
        pb.DatanodeCommandProto(
            cmdType=pb.DatanodeCommandProto.RegisterCommand, registerCmd=pb.RegisterCommandProto()
        )
    ]
    with pytest.raises(TypeError):
        node.timers.turn()
    beats = node.service.heartbeats
    node.timers.turn()
    assert node.service.heartbeats > beats


def test_another_refusal_of_a_heartbeat_is_a_reason_to_register_again(node: DataNode) -> None:
    node.service.start()
    node.namenode.refused["sendHeartbeat"] = exceptions.RETRIABLE
    node.timers.turn()
    assert not node.service.registered
    node.namenode.refused.clear()
    node.timers.turn()
    assert node.service.registered
    assert not node.fatal


def test_a_namenode_that_is_too_old_ends_the_node(node: DataNode) -> None:
    node.namenode.software_version = "2.0.5-alpha"
    node.service.start()
    (error,) = node.fatal
    assert str(error) == (
        "The reported NameNode version is too low to communicate with this DataNode. "
        "NameNode version: '2.0.5-alpha' Minimum NameNode version: '2.1.0-beta'"
    )
    assert node.namenode.names() == ["versionRequest"]


def test_a_namenode_of_another_version_will_do(node: DataNode) -> None:
    node.namenode.software_version = "3.9.9"
    node.service.start()
    assert node.service.registered
    assert any("namenode_version_differs" in line for line in node.lines)


def test_changes_are_told_at_once_and_again_if_they_could_not_be(node: DataNode) -> None:
    node.service.start()
    node.write(5)
    method, request = node.namenode.calls[-1]
    assert method == "blockReceivedAndDeleted"
    assert _told(request) == [(5, 2)]
    node.namenode.down = True
    node.write(6)
    node.dataset.delete(node.dataset.replicas[5])
    node.namenode.down = False
    node.timers.turn()
    told = [r for name, r in node.namenode.calls if name == "blockReceivedAndDeleted"]
    assert sorted(_told(told[-1])) == [(5, 3), (6, 2)]


def _told(request: Any) -> list[tuple[int, int]]:
    return [(c.block.blockId, c.status) for storage in request.blocks for c in storage.blocks]


def test_told_to_register_it_does_and_reports_all(node: DataNode) -> None:
    node.service.start()
    node.write(5)
    node.namenode.calls.clear()
    node.namenode.commands = [
        pb.DatanodeCommandProto(
            cmdType=pb.DatanodeCommandProto.RegisterCommand, registerCmd=pb.RegisterCommandProto()
        )
    ]
    node.timers.turn()
    names = node.namenode.names()
    assert names.index("registerDatanode") < names.index("blockReport")
    (report,) = [r for name, r in node.namenode.calls if name == "blockReport"]
    assert report.reports[0].numberOfBlocks == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("stamp", "left"), [(1001, 0), (1002, 0), (1000, 1)])
def test_invalidation_spares_what_is_newer(node: DataNode, stamp: int, left: int) -> None:
    node.service.start()
    path = node.write(5).data_path
    node.namenode.commands = [
        pb.DatanodeCommandProto(
            cmdType=pb.DatanodeCommandProto.BlockCommand,
            blkCmd=pb.BlockCommandProto(
                action=pb.BlockCommandProto.INVALIDATE,
                blockPoolId="BP-1",
                blocks=[BlockProto(blockId=5, genStamp=stamp, numBytes=4)],
            ),
        )
    ]
    node.timers.turn()
    assert len(node.dataset.replicas) == left
    assert os.path.exists(path) == bool(left)


def test_another_block_pool_stops_the_node(node: DataNode) -> None:
    node.service.start()
    node.dataset.pool = PoolIdentity("BP-2", 1, "CID", 0)
    node.service.register_again()
    assert len(node.fatal) == 1


def test_a_volume_that_is_gone_is_told_and_the_last_one_is_fatal(
    node: DataNode, tmp_path: Path
) -> None:
    node.service.start()
    second = Volume(node.dataset.storage, str(tmp_path / "second"))
    second.format(POOL, "uuid", lambda: "second")
    node.dataset.volumes.append(second)
    shutil.rmtree(second.path)
    beats = node.service.heartbeats
    node.timers.turn()
    node.timers.turn()
    assert node.service.heartbeats > beats, "no heartbeat came after the loss"
    (last,) = [r for name, r in node.namenode.calls if name == "sendHeartbeat"][-1:]
    assert last.failedVolumes == 1  # type: ignore[attr-defined]
    assert [one.storageUuid for one in last.reports] != ["DS-second"]  # type: ignore[attr-defined]
    assert not node.fatal
    shutil.rmtree(node.dataset.volumes[0].path)
    node.timers.turn()
    assert node.fatal


def test_a_volume_that_was_out_of_service_at_the_start_is_told_with_the_first_heartbeat(
    node: DataNode, tmp_path: Path
) -> None:
    missing = Volume(node.dataset.storage, str(tmp_path / "missing"))
    node.dataset.volumes.append(missing)
    node.dataset.volume_failed(missing, StorageError(missing.path, "gone"))
    node.service.start()
    assert node.service.registered
    beat: Any = next(r for name, r in node.namenode.calls if name == "sendHeartbeat")
    assert beat.failedVolumes == 1
    assert list(beat.volumeFailureSummary.failedStorageLocations) == [missing.path]
    assert [one.storageUuid for one in beat.reports] == ["DS-1"]
    assert not node.fatal


# -- complaints ------------------------------------------------------------------------


def bad_blocks_told(node: DataNode) -> list[list[int]]:
    told: list[Any] = [r for name, r in node.namenode.calls if name == "reportBadBlocks"]
    return [[block.b.blockId for block in request.blocks] for request in told]


def name_of(replica: Replica) -> ExtendedBlock:
    return ExtendedBlock("BP-1", replica.block_id, replica.generation_stamp, replica.num_bytes)


def test_a_bad_replica_is_told_until_the_namenode_has_answered(node: DataNode) -> None:
    node.service.start()
    bad = [node.write(number) for number in (5, 6)]
    node.namenode.down = True
    for _ in range(3):
        for replica in bad:
            node.service.report_bad_block(name_of(replica), None)
    node.timers.turn()
    node.namenode.down = False
    assert not bad_blocks_told(node)
    node.timers.turn()
    assert bad_blocks_told(node) == [[5, 6]]
    node.timers.turn()
    assert bad_blocks_told(node) == [[5, 6]]
    node.service.report_bad_block(name_of(bad[0]), None)
    assert bad_blocks_told(node) == [[5, 6], [5]], "found once more"


@pytest.mark.parametrize("fate", ["deleted", "deleted and copied anew", "appended to"])
def test_of_a_bad_replica_that_is_gone_nothing_is_told(node: DataNode, fate: str) -> None:
    node.service.start()
    bad = node.write(5)
    node.namenode.down = True
    node.service.report_bad_block(name_of(bad), None)
    if fate == "appended to":
        node.dataset.reopen(bad, 1002)
    else:
        node.dataset.delete(bad)
    if fate == "deleted and copied anew":
        node.write(5)
    node.namenode.down = False
    node.timers.turn()
    assert not bad_blocks_told(node)


def test_a_namenode_that_came_back_hears_of_a_bad_replica_behind_the_full_report(
    node: DataNode,
) -> None:
    node.service.start()
    bad = node.write(5)
    node.service.report_bad_block(name_of(bad), None)
    assert bad_blocks_told(node) == [[5]]
    node.namenode.calls.clear()
    node.service.register_again()
    names = node.namenode.names()
    assert names.index("blockReport") < names.index("reportBadBlocks")
    assert bad_blocks_told(node) == [[5]]
    node.dataset.delete(bad)
    node.namenode.calls.clear()
    node.service.register_again()
    assert not bad_blocks_told(node)


def test_before_the_first_registration_what_is_bad_waits(node: DataNode) -> None:
    node.namenode.refused["blockReport"] = exceptions.IO
    node.service.start()
    node.service.report_bad_block(name_of(node.write(5)), None)
    assert not bad_blocks_told(node)
    node.namenode.refused.clear()
    node.timers.turn()
    assert bad_blocks_told(node) == [[5]]


@pytest.mark.parametrize(
    ("class_name", "calls"),
    [(exceptions.RETRIABLE, 2), (exceptions.STANDBY, 2), (exceptions.IO, 1)],
)
def test_a_refusal_is_an_answer_unless_it_says_later(
    node: DataNode, class_name: str, calls: int
) -> None:
    node.service.start()
    bad = node.write(5)
    node.namenode.refused["reportBadBlocks"] = class_name
    node.service.report_bad_block(name_of(bad), None)
    node.namenode.refused.clear()
    node.timers.turn()
    node.timers.turn()
    assert len(bad_blocks_told(node)) == calls


def test_another_node_s_bad_replica_is_told_once(node: DataNode) -> None:
    node.service.start()
    other = DatanodeIDProto(
        ipAddr="h", hostName="h", datanodeUuid="other", xferPort=1, infoPort=2, ipcPort=3
    )
    node.namenode.down = True
    for _ in range(2):
        node.service.report_bad_block(ExtendedBlock("BP-1", 9, 1001, 4), other)
    node.namenode.down = False
    node.timers.turn()
    assert bad_blocks_told(node) == [[9]]
    node.service.register_again()
    assert bad_blocks_told(node) == [[9]]


def test_many_are_told_in_several_calls_one_after_the_other(node: DataNode) -> None:
    node.service.start()
    node.namenode.down = True
    for number in range(250):
        node.service.report_bad_block(name_of(node.write(number)), None)
    node.namenode.down = False
    node.timers.turn()
    assert [len(told) for told in bad_blocks_told(node)] == [100, 100, 50]
    assert sorted(chain(*bad_blocks_told(node))) == list(range(250))


def test_no_more_waits_than_there_is_room_for(
    node: DataNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complaints, "_WAITING_MAX", 3)
    node.service.start()
    node.namenode.down = True
    bad = [node.write(number) for number in range(5)]
    for replica in bad[:4]:
        node.service.report_bad_block(name_of(replica), None)
    node.dataset.delete(bad[0])
    node.service.report_bad_block(name_of(bad[4]), None)
    node.namenode.down = False
    node.timers.turn()
    assert bad_blocks_told(node) == [[1, 2, 4]]
    assert any("too_much_to_tell" in line for line in node.lines)


def test_a_failed_volume_is_told_by_name_once_the_namenode_is_back(
    node: DataNode, tmp_path: Path
) -> None:
    node.service.start()
    second = Volume(node.dataset.storage, str(tmp_path / "second"))
    second.format(POOL, "uuid", lambda: "second")
    node.dataset.volumes.append(second)
    node.namenode.down = True
    node.dataset.volume_failed(second, StorageError(second.path, "gone"))
    node.namenode.down = False
    node.timers.turn()
    node.timers.turn()
    told: list[Any] = [r for name, r in node.namenode.calls if name == "errorReport"]
    assert [request.msg for request in told] == [f"{second} failed: {second.path}: gone"]


# -- the scanner -----------------------------------------------------------------------


def a_scanner(node: DataNode) -> VolumeScanner:
    return VolumeScanner(node.context, node.dataset.volumes[0], ScanSettings(1 << 30, 1000))


def scanned(node: DataNode) -> list[Any]:
    """Let the scanner look at everything; the bad blocks it told of."""
    scanner = a_scanner(node)
    for _ in range(20):
        scanner.step()
    return [r for name, r in node.namenode.calls if name == "reportBadBlocks"]


def test_good_replicas_are_left_alone(node: DataNode) -> None:
    node.service.start()
    for number in range(3):
        node.write(number, os.urandom(2_000_000))
    assert scanned(node) == []
    assert node.context.counters.blocks_scanned == 3
    assert node.context.counters.bytes_scanned == 6_000_000


@pytest.mark.parametrize("damage", ["flip", "cut", "no meta", "cut meta", "no data"])
def test_every_damage_is_found(node: DataNode, damage: str) -> None:
    node.service.start()
    node.write(1, os.urandom(5000))
    replica = node.write(2, os.urandom(5000))
    match damage:
        case "flip":
            with open(replica.data_path, "r+b") as file:
                file.seek(4000)
                byte = file.read(1)[0]
                file.seek(4000)
                file.write(bytes([byte ^ 1]))
        case "cut":
            os.truncate(replica.data_path, 4999)
        case "no meta":
            os.remove(replica.meta_path)
        case "cut meta":
            os.truncate(replica.meta_path, 2)
        case _:
            os.remove(replica.data_path)
    (told,) = scanned(node)
    assert told.blocks[0].b.blockId == 2
    assert told.blocks[0].locs[0].id.datanodeUuid == "u"


def test_a_replica_that_goes_away_meanwhile_is_no_corruption(node: DataNode) -> None:
    node.service.start()
    replica = node.write(1, os.urandom(3_000_000))
    scanner = a_scanner(node)
    scanner.step()
    node.dataset.delete(replica)
    for _ in range(5):
        scanner.step()
    assert "reportBadBlocks" not in node.namenode.names()


def test_what_is_held_in_memory_is_told(node: DataNode) -> None:
    class Pin:
        def release(self) -> None:
            return None

    commands = node.service.commands
    assert commands is not None
    commands.pinned = PinnedReplicas(
        node.dataset,
        node.context.log,
        capacity_bytes=10_000,
        page_bytes=1_000,
        pin_file=lambda _file, _length: Pin(),
        off_the_loop=lambda action, on_done: on_done(action()),
    )
    commands.pinned.on_changed = node.service.report_cache
    node.service.start()
    node.write(1)
    beats = [request for name, request in node.namenode.calls if name == "sendHeartbeat"]
    assert (beats[-1].cacheCapacity, beats[-1].cacheUsed) == (10_000, 0)  # type: ignore[attr-defined]
    ids = pb.BlockIdCommandProto(
        action=pb.BlockIdCommandProto.CACHE, blockPoolId="BP-1", blockIds=[1, 2**64 - 5]
    )
    kinds = pb.DatanodeCommandProto
    node.namenode.commands = [kinds(cmdType=kinds.BlockIdCommand, blkIdCmd=ids)]
    node.timers.turn()
    reports = [request for name, request in node.namenode.calls if name == "cacheReport"]
    assert list(reports[-1].blocks) == [1]  # type: ignore[attr-defined]
    ids.action = pb.BlockIdCommandProto.UNCACHE
    node.namenode.commands = [kinds(cmdType=kinds.BlockIdCommand, blkIdCmd=ids)]
    node.timers.turn()
    reports = [request for name, request in node.namenode.calls if name == "cacheReport"]
    assert list(reports[-1].blocks) == []  # type: ignore[attr-defined]
    assert commands.pinned.used_bytes == 0


def test_a_replica_that_a_reader_complains_of_is_looked_at_next(node: DataNode) -> None:
    node.service.start()
    for block_id in range(1, 6):
        node.write(block_id, os.urandom(2000))
    scanner = BlockScanner(node.context, ScanSettings(1 << 20, 3_600_000))
    scanner.start()
    suspect = node.dataset.replicas[3]
    with open(suspect.data_path, "r+b") as file:
        file.seek(100)
        file.write(b"\0\1\2\3")
    node.timers.waiting.clear()
    scanner.suspect(3)
    scanner.suspect(3)
    assert [delay for delay, _ in node.timers.waiting] == [0]
    node.timers.turn()
    (told,) = [request for name, request in node.namenode.calls if name == "reportBadBlocks"]
    assert [block.b.blockId for block in told.blocks] == [3]  # type: ignore[attr-defined]
