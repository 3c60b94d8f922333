"""Text that is no UTF-8 is found wherever it stands in a message."""

from typing import Any

import pytest
from google.protobuf.message import Message

from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_protocols
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import acl_pb2 as acl
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.rpc_protocols import RpcProtocol
from headrace.wire.hadoop.texts import check_texts, text_fields


def spoiled(message: Any) -> Any:
    """The same with what is no UTF-8 in the place of `QQ`."""
    data = message.SerializeToString().replace(b"QQ", b"\xff\xfe")
    return type(message).FromString(data)


BLOCK = hdfs.ExtendedBlockProto(poolId="QQ", blockId=1, generationStamp=2)
ENTRY = acl.AclEntryProto(
    type=acl.AclEntryProto.USER,
    scope=acl.AclEntryProto.ACCESS,
    permissions=acl.AclEntryProto.READ,
    name="QQ",
)
GOOD = acl.AclEntryProto(
    type=acl.AclEntryProto.USER,
    scope=acl.AclEntryProto.ACCESS,
    permissions=acl.AclEntryProto.READ,
    name="ä",
)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (pb.GetFileInfoRequestProto(src="/QQ"), "src"),
        (pb.ConcatRequestProto(trg="/a", srcs=["/b", "/QQ"]), "srcs"),
        (pb.CompleteRequestProto(src="/a", clientName="c", last=BLOCK), "poolId"),
        (acl.ModifyAclEntriesRequestProto(src="/a", aclSpec=[GOOD, ENTRY]), "name"),
    ],
)
def test_it_is_refused_by_the_name_of_its_field(message: Any, name: str) -> None:
    check_texts(message)
    with pytest.raises(RemoteError, match=f"{name} is not UTF-8") as refused:
        check_texts(spoiled(message))
    assert refused.value.class_name == java.HADOOP_ILLEGAL_ARGUMENT


def test_a_refusal_shows_only_the_beginning() -> None:
    with pytest.raises(RemoteError) as refused:
        check_texts(spoiled(pb.GetFileInfoRequestProto(src="/QQ" + "x" * 1_000_000)))
    assert len(refused.value.message) < 1_000


def test_bytes_are_no_text() -> None:
    check_texts(pb.GetListingRequestProto(src="/", startAfter=b"\xff", needLocation=False))


PROTOCOLS = [value for value in vars(rpc_protocols).values() if isinstance(value, RpcProtocol)]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.java_name)
def test_fields_of_every_request_are_found(protocol: RpcProtocol) -> None:
    """A message that is inside itself would have no end."""
    for method in protocol.methods.values():
        request_class: type[Message] = method.request_class
        text_fields(request_class.DESCRIPTOR)
        check_texts(request_class())
