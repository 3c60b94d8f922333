"""The short way of a call and the long one give the same bytes: answers, refusals, and endings.

Two NameNodes in memory get the same frames, good and broken ones; one of them has its sessions take
the long way always. Whatever they send must be equal.
"""

from random import Random
from typing import Any

import pytest

from headrace.base.errors import ProtocolError
from headrace.namespace import requests as asked
from headrace.namespace.rpc.endpoint import namenode_endpoint
from headrace.namespace.rpc.shapes import status_message
from headrace.namespace.rpc.short_ways import one_string
from headrace.namespace.rpc.status_bytes import inode_status
from headrace.namespace.status import status_of
from headrace.namespace.values import AclEntry
from headrace.testing.disk import SimulatedDisk
from headrace.testing.namenode import BLOCK_SIZE, SUPERUSER, SimulatedNameNode
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_calls, rpc_frames
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as pb_hdfs
from headrace.wire.hadoop.protos.acl_pb2 import FsPermissionProto
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE
from headrace.wire.hadoop.rpc_session import RpcSession

NAMES = ["a", "b", "ä", "a/b", "a/b/c", ".hidden", "a/../b", "a//b", "x:y", "link", "a/.snapshot"]
USERS = [SUPERUSER, "anna"]


class Wire:
    """A transport that keeps what is sent."""

    peer = "10.9.9.9:50000"

    def __init__(self) -> None:
        self.sent = b""
        self.closed = ""

    def send(self, parts: Any) -> None:
        self.sent += b"".join(parts)

    def close(self, reason: str) -> None:
        self.closed = reason

    def resume(self) -> None:
        raise AssertionError("never so many calls in flight")


class Side:
    """A NameNode and one session at a time."""

    def __init__(self, *, long: bool = False) -> None:
        self.cluster = SimulatedNameNode(disk=SimulatedDisk(defer_syncs=True))
        self.failures: list[BaseException] = []
        self.endpoint = namenode_endpoint(
            self.cluster.namenode, lambda _: ("staff",), lambda _, e: self.failures.append(e)
        )
        self._long = long
        self.short_count = 0
        self.history: list[tuple[bytes, str]] = []

    @property
    def journal(self) -> bytes:
        log = self.cluster.namenode.journal.log
        region = log.read(0, 2**30, log.log_end_offset).region
        assert region is not None
        return region.file.read(region.position, region.length)

    def open(self, user: str, client_id: bytes) -> None:
        self.wire = Wire()
        self.session = RpcSession(self.endpoint, self.wire)
        opening = rpc_calls.opening(user, CLIENT_NAMENODE.java_name, client_id)
        self.session.on_preamble(opening[:7])
        self.session.on_frame(memoryview(opening[11:]))
        self.session.on_read_end()

    def say(self, frame: bytes) -> bool:
        """False: it broke the protocol, and the session is over."""
        if self._long:
            self.endpoint.known.clear()  # a method that was not seen before has no short way
        try:
            answer = self.session.on_lone_frame(frame)
            if answer is None:
                self.session.on_frame(memoryview(bytearray(frame)))
            else:
                self.short_count += 1
                self.wire.sent += answer
        except ProtocolError as error:
            self.history.append((self.wire.sent, str(error)))
            self.session.on_closed()
            return False
        self.session.on_read_end()
        return True


MODE = FsPermissionProto(perm=0o755)


def some_create(path: str, client_name: str) -> pb.CreateRequestProto:
    return pb.CreateRequestProto(
        src=path,
        masked=MODE,
        clientName=client_name,
        createFlag=1,
        createParent=True,
        replication=1,
        blockSize=BLOCK_SIZE,
    )


def some_call(rng: Random) -> tuple[str, Any]:
    path = "/" + rng.choice(NAMES)
    other = "/" + rng.choice(NAMES)
    mode = FsPermissionProto(perm=rng.choice([0o755, 0o700, 0o644]))
    client_name = rng.choice(["one", "two"])
    calls: list[tuple[str, Any]] = [
        ("getFileInfo", pb.GetFileInfoRequestProto(src=path)),
        ("getFileInfo", pb.GetFileInfoRequestProto(src=path + rng.choice(["", "/", "/x"]))),
        ("mkdirs", pb.MkdirsRequestProto(src=path, masked=mode, createParent=True)),
        (
            "create",
            pb.CreateRequestProto(
                src=path,
                masked=mode,
                clientName=client_name,
                createFlag=rng.choice([1, 2, 3]),
                createParent=rng.random() < 0.8,
                replication=rng.choice([1, 3, 3, 1000]),
                blockSize=rng.choice([BLOCK_SIZE, BLOCK_SIZE, 7]),
                cryptoProtocolVersion=[pb_hdfs.ENCRYPTION_ZONES],
                unmasked=rng.choice([None, mode]),
                ecPolicyName=rng.choice([None, None, None, "replication", "RS-6-3-1024k"]),
            ),
        ),
        (
            "complete",
            pb.CompleteRequestProto(
                src=path, clientName=client_name, fileId=rng.choice([0, 16390])
            ),
        ),
        ("rename", pb.RenameRequestProto(src=path, dst=other)),
        ("rename2", pb.Rename2RequestProto(src=path, dst=other, overwriteDest=rng.random() < 0.3)),
        ("delete", pb.DeleteRequestProto(src=path, recursive=rng.random() < 0.5)),
        ("getListing", pb.GetListingRequestProto(src=path, startAfter=b"", needLocation=False)),
        ("renewLease", pb.RenewLeaseRequestProto(clientName=client_name)),
    ]
    return rng.choice(calls)


def broken(frame: bytes, rng: Random) -> bytes:
    data = bytearray(frame)
    for _ in range(rng.choice([1, 1, 3])):
        kind = rng.randrange(4)
        if kind == 0:
            data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == 1:
            del data[rng.randrange(1, len(data) + 1) :]
        elif kind == 2:
            data += rng.randbytes(rng.randrange(1, 5))
        else:
            data[rng.randrange(len(data))] ^= 0x80
    return bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_say_the_same(seed: int) -> None:
    rng = Random(seed)
    sides = [Side(), Side(long=True)]
    client_ids = [rng.randbytes(16) for _ in range(2)]
    call_id = -1
    is_open = False
    for number in range(300):
        if not is_open or number % 60 == 59:
            user = rng.choice(USERS)
            for side in sides:
                if is_open:
                    side.history.append((side.wire.sent, ""))
                side.open(user, client_ids[0])
            is_open = True
            rng_id = client_ids[0]
        call_id += 1 if rng.random() < 0.95 else 9_000
        if rng.random() < 0.05:
            rng_id = rng.choice(client_ids)
        method, message = some_call(rng)
        repeated = max(call_id - rng.choice([0, 0, 0, 1]), 0)
        retry_count = rng.choice([0, 0, 0, 0, 1])
        frame = rpc_calls.request(
            repeated, rng_id, CLIENT_NAMENODE, method, message, retry_count=retry_count
        )[4:]
        if rng.random() < 0.15:
            frame = broken(frame, rng)
        told = {side.say(frame) for side in sides}
        assert len(told) == 1, (method, frame)
        is_open = told.pop()
        if rng.random() < 0.3:
            for side in sides:
                side.cluster.advance(5)
        short, long = sides
        assert short.wire.sent == long.wire.sent, (number, method, message)
    for side in sides:
        side.cluster.advance(1_000)
    assert sides[0].wire.sent == sides[1].wire.sent
    assert sides[0].history == sides[1].history
    assert sides[0].journal == sides[1].journal
    assert sides[0].endpoint.calls == sides[1].endpoint.calls
    assert sides[0].endpoint.refused == sides[1].endpoint.refused
    assert not sides[0].failures + sides[1].failures
    assert len(sides[0].cluster.ns.inodes) > 1
    assert sides[0].short_count > 100
    assert sides[1].short_count == 0


NO_TEXT = b"\xff\xfe"
"""Put in the place of `QQ`: no UTF-8."""


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("getFileInfo", pb.GetFileInfoRequestProto(src="/QQ")),
        ("create", some_create("/QQ", "one")),
        ("create", some_create("/new", "QQ")),
        ("mkdirs", pb.MkdirsRequestProto(src="/QQ", masked=MODE, createParent=True)),
        ("delete", pb.DeleteRequestProto(src="/QQ", recursive=True)),
        ("rename", pb.RenameRequestProto(src="/d", dst="/QQ")),
        ("rename2", pb.Rename2RequestProto(src="/QQ", dst="/b", overwriteDest=True)),
        ("complete", pb.CompleteRequestProto(src="/QQ", clientName="one")),
        ("complete", pb.CompleteRequestProto(src="/d", clientName="QQ", fileId=16390)),
        ("setOwner", pb.SetOwnerRequestProto(src="/d", username="QQ")),
        ("renewLease", pb.RenewLeaseRequestProto(clientName="one", namespaces=["QQ"])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text_that_is_no_utf_8_is_refused(method: str, message: Any, is_long: bool) -> None:
    side = Side(long=is_long)
    side.cluster.ask(asked.Mkdirs("/d", 0o755))
    side.open(SUPERUSER, bytes(16))
    journal = side.journal
    for call_id in range(2):
        before = len(side.wire.sent)
        frame = rpc_calls.request(call_id, bytes(16), CLIENT_NAMENODE, method, message)[4:]
        assert side.say(frame.replace(b"QQ", NO_TEXT))
        side.cluster.settle()
        answer = side.wire.sent[before:]
        assert java.HADOOP_ILLEGAL_ARGUMENT.encode() in answer
        assert b"is not UTF-8" in answer
    assert not side.failures
    assert not side.wire.closed
    assert side.journal == journal


def test_an_answer_is_held_until_its_edits_are_durable() -> None:
    side = Side()
    side.open(SUPERUSER, bytes(16))
    mkdirs = pb.MkdirsRequestProto(
        src="/d", masked=FsPermissionProto(perm=0o755), createParent=True
    )
    stat = pb.GetFileInfoRequestProto(src="/d")
    for call_id, (method, message) in enumerate([("getFileInfo", stat), ("mkdirs", mkdirs)] * 2):
        side.say(rpc_calls.request(call_id, bytes(16), CLIENT_NAMENODE, method, message)[4:])
    before = side.wire.sent
    assert side.session.busy
    side.cluster.settle()
    assert not side.session.busy
    assert len(side.wire.sent) > len(before)
    assert before.count(bytes(16)) == 1  # the first question, of what is not there


def test_a_journal_that_failed_ends_the_session() -> None:
    side = Side()
    side.open(SUPERUSER, bytes(16))
    mkdirs = pb.MkdirsRequestProto(
        src="/d", masked=FsPermissionProto(perm=0o755), createParent=True
    )
    stat = pb.GetFileInfoRequestProto(src="/d")
    side.say(rpc_calls.request(0, bytes(16), CLIENT_NAMENODE, "getFileInfo", stat)[4:])
    side.say(rpc_calls.request(1, bytes(16), CLIENT_NAMENODE, "mkdirs", mkdirs)[4:])
    sent = side.wire.sent
    error = OSError("the disk is gone")
    side.cluster.namenode.journal._host._fail(error)
    assert side.wire.closed == f"internal error: {error!r}"
    assert side.failures == [error]
    assert side.wire.sent == sent


def test_a_status_by_hand_is_the_message_of_every_inode() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.ask(asked.Mkdirs("/d/e", 0o1777))
    cluster.ask(asked.Mkdirs("/ä", 0o700))
    cluster.create("/d/open")
    cluster.write("/d/closed", BLOCK_SIZE, 300)
    cluster.ask(asked.SetOwner("/d/closed", "ünal", "g" * 200))
    cluster.ask(asked.SetTimes("/d/closed", 0, 2**40))
    entry = AclEntry(0, 0, 7, "anna")
    cluster.ask(asked.ModifyAclEntries("/d/e", (entry,)))
    cluster.ask(asked.ModifyAclEntries("/d/open", (entry,)))
    cluster.ask(asked.AllowSnapshot("/d"))
    cluster.ask(asked.CreateSnapshot("/d", "s"))
    cluster.ask(asked.SetStoragePolicy("/d", "HOT"))
    cluster.ask(asked.CreateSymlink("/d/e", "/link", 0o777, False))
    left_to_the_message = []
    for inode in cluster.ns.inodes.values():
        by_hand = inode_status(inode)
        if by_hand is None:
            left_to_the_message.append(inode.name)
        else:
            message = status_message(status_of(cluster.ns, inode))
            assert by_hand == message.SerializeToString(), inode.path()
    assert left_to_the_message == ["link"]


@pytest.mark.parametrize("path", ["", "/", "/ä", "x" * 127])
def test_one_string(path: str) -> None:
    assert one_string(pb.GetFileInfoRequestProto(src=path).SerializeToString()) == path


@pytest.mark.parametrize(
    "body",
    [b"", b"\x0a", b"\x0a\x02/", b"\x0a\x01/\x00", b"\x0a\x01\xff", b"\x12\x01/", b"\x0a\x81\x00/"],
)
def test_what_is_not_one_string_is_left_to_the_message(body: bytes) -> None:
    assert one_string(body) is None


@pytest.mark.parametrize("call_id", [0, 63, 64, 8191, 8192, 300_000, 2**31 - 1])
def test_a_repeated_header_is_read_as_any(call_id: int) -> None:
    client_id = bytes(range(16))
    tail, answer_tail = rpc_frames.tails(client_id)
    message = pb.GetFileInfoRequestProto(src="/")
    frame = rpc_calls.request(call_id, client_id, CLIENT_NAMENODE, "getFileInfo", message)[4:]
    plain = rpc_frames.take_call(memoryview(frame))
    assert plain is not None
    assert rpc_frames.take_repeated_call(frame, tail) == (plain[0], plain[3])
    for body_bytes in (0, 3, 127, 128, 300, 70_000):
        body = b"x" * body_bytes
        by_hand = rpc_frames.repeated_answer(call_id, answer_tail, body)
        assert by_hand == rpc_frames.answer(call_id, client_id, 0, body)
