"""A request that is read from its bytes is the one that its message gives."""

from random import Random
from typing import Any

import pytest

from headrace.namespace import requests as asked
from headrace.namespace.rpc.client_files import FILES
from headrace.namespace.rpc.client_tree import TREE
from headrace.namespace.rpc.short_requests import (
    ReadRequest,
    Rests,
    one_path,
    read_complete,
    two_paths,
)
from headrace.namespace.rpc.short_ways import message_class
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.acl_pb2 import FsPermissionProto
from headrace.wire.hadoop.protos.hdfs_pb2 import ExtendedBlockProto

TRANSLATIONS = {**TREE, **FILES}
PATHS = ["", "/", "/a", "/ä/b", "/" + "x" * 126, "/" + "y" * 127, "/" + "z" * 5_000]
CLIENT = "hdfs_native_client-244d7fba-528c-4300-b785-5e408615bed9"


def readers() -> dict[str, ReadRequest]:
    def rests(name: str, *paths: str) -> Rests:
        return Rests(message_class(name), TRANSLATIONS[name].request, paths)

    return {
        "create": one_path(asked.Create, rests("create", "src")),
        "mkdirs": one_path(asked.Mkdirs, rests("mkdirs", "src")),
        "delete": one_path(asked.Delete, rests("delete", "src")),
        "rename": two_paths(asked.Rename, rests("rename", "src", "dst")),
        "rename2": two_paths(asked.Rename2, rests("rename2", "src", "dst")),
        "complete": read_complete,
    }


def some_message(rng: Random, name: str) -> Any:
    path, other = rng.choice(PATHS), rng.choice(PATHS)
    mode = FsPermissionProto(perm=rng.choice([0, 0o644, 0o1777]))
    flag = rng.random() < 0.5
    if name == "create":
        return pb.CreateRequestProto(
            src=path,
            masked=mode,
            clientName=rng.choice(["", CLIENT, "ü" * 300]),
            createFlag=rng.choice([1, 3]),
            createParent=flag,
            replication=rng.choice([0, 3, 2**32 - 1]),
            blockSize=rng.choice([1, 2**27, 2**64 - 1]),
            cryptoProtocolVersion=rng.choice([[], [2], [1, 2]]),
            unmasked=rng.choice([None, mode]),
            ecPolicyName=rng.choice([None, None, "", "replication", "RS-6-3-1024k"]),
        )
    if name == "complete":
        block = ExtendedBlockProto(poolId="p", blockId=1, generationStamp=2)
        return pb.CompleteRequestProto(
            src=path,
            clientName=rng.choice(["", CLIENT]),
            fileId=rng.choice([None, 0, 1, 127, 128, 16_390, 2**21, 2**28 - 1, 2**28, 2**64 - 1]),
            last=rng.choice([None, None, None, block]),
        )
    if name == "mkdirs":
        return pb.MkdirsRequestProto(
            src=path, masked=mode, createParent=flag, unmasked=rng.choice([None, mode])
        )
    if name == "delete":
        return pb.DeleteRequestProto(src=path, recursive=flag)
    if name == "rename":
        return pb.RenameRequestProto(src=path, dst=other)
    return pb.Rename2RequestProto(
        src=path, dst=other, overwriteDest=flag, moveToTrash=rng.choice([None, True])
    )


def damaged(body: bytes, rng: Random) -> bytes:
    data = bytearray(body)
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.randrange(5)
        place = rng.randrange(len(data) + 1)
        if kind == 0:
            data[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            data += rng.randbytes(rng.randrange(1, 5))
        elif kind == 3:  # a field again, or one that nobody knows
            data += rng.choice([b"\x0a\x01q", b"\x12\x01q", b"\x20\x07", b"\xba\x3e\x01u"])
        else:
            data[place:place] = rng.choice([b"\x0a\x01q", b"\x20\x07", b"\x28\x01"])
    return bytes(data)


@pytest.mark.parametrize("name", ["create", "mkdirs", "delete", "rename", "rename2", "complete"])
def test_what_is_read_is_what_the_message_says(name: str) -> None:
    rng = Random(name)
    read = readers()[name]
    message_type = message_class(name)()
    read_count = 0
    for _ in range(4_000):
        body = some_message(rng, name).SerializeToString()
        if rng.random() < 0.5:
            body = damaged(body, rng)
        request = read(body)
        if request is None:
            continue
        read_count += 1
        message = message_type()
        message.ParseFromString(body)
        assert message.IsInitialized()
        expected = TRANSLATIONS[name].request(message)
        assert request == expected
        assert type(request) is type(expected)
    assert read_count > 300


@pytest.mark.parametrize("name", ["create", "mkdirs", "delete", "rename", "rename2", "complete"])
def test_what_clients_send_is_read(name: str) -> None:
    bodies = {
        "create": "0a042f612f62120308a4031a016320012801300338808080404002",
        "mkdirs": "0a042f612f62120308ed031801",
        "delete": "0a042f612f621000",
        "rename": "0a042f612f6212022f63",
        "rename2": "0a042f612f6212022f6318002000",
        "complete": "0a042f612f6212016320858001",
    }
    body = bytes.fromhex(bodies[name])
    message: Any = message_class(name)().FromString(body)
    assert readers()[name](body) == TRANSLATIONS[name].request(message)


def test_what_is_behind_the_path_is_kept_within_limits() -> None:
    rests = Rests(message_class("delete"), TREE["delete"].request, ("src",))
    for number in range(10_000):
        # A field that nobody knows, with another number each time.
        assert rests[b"\x10\x01\xf8\x3f" + bytes([number & 0x7F | 0x80, number >> 7])] is not None
        assert len(rests) <= 4_096
    assert rests[b"\x10\x01\xba\x3e\xe8\x07" + bytes(1_000)] is None
    assert rests[b""] is None
    assert rests[b"\x10"] is None


def test_a_refusal_is_left_to_the_message() -> None:
    message = pb.CreateRequestProto(
        src="/a",
        masked=FsPermissionProto(perm=0o644),
        clientName="c",
        createFlag=1,
        createParent=True,
        replication=3,
        blockSize=2**27,
        ecPolicyName="RS-6-3-1024k",
    )
    assert readers()["create"](message.SerializeToString()) is None
    with pytest.raises(RemoteError):
        FILES["create"].request(message)
