"""ClientNamenodeProtocol, the service itself: defaults, and what is asked but not offered.

Encryption zones and erasure coding are not served: what asks whether there are any is
told that there are none, what wants to make some is refused. Without security there is no
delegation token: a client that asks for one gets none, as from Apache's.
"""

from typing import Any

from google.protobuf.message import Message

from headrace.namespace.namenode import NameNode
from headrace.namespace.ops.storage_policy import POLICIES
from headrace.namespace.rpc.client_reads import policy_message
from headrace.namespace.rpc.translation import Callers, for_superusers
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import encryption_pb2 as encryption
from headrace.wire.hadoop.protos import erasure_coding_pb2 as coding
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import security_pb2 as security
from headrace.wire.hadoop.protos.ha_service_pb2 import ACTIVE
from headrace.wire.hadoop.rpc_session import Handler, RpcCall

_WRITE_PACKET_BYTES = 64 * 1024
_FILE_BUFFER_BYTES = 4096


def _always(response: Message) -> Handler:
    return lambda _, __: response


def _not_served(feature: str) -> Handler:
    def refuse(_: Any, __: RpcCall) -> Message:
        raise RemoteError(java.UNSUPPORTED_OPERATION, f"{feature} is not served by this NameNode")

    return refuse


def service_handlers(namenode: NameNode, callers: Callers) -> dict[str, Handler]:
    settings = namenode.settings
    defaults = hdfs.FsServerDefaultsProto(
        blockSize=settings.block_size,
        bytesPerChecksum=settings.bytes_per_checksum,
        writePacketSize=_WRITE_PACKET_BYTES,
        replication=settings.replication,
        fileBufferSize=_FILE_BUFFER_BYTES,
        encryptDataTransfer=False,
        trashInterval=settings.trash_interval_min,
        checksumType=hdfs.CHECKSUM_CRC32C,
        keyProviderUri="",
        policyId=0,
    )
    refused: dict[str, Handler] = {
        name: _not_served(feature)
        for feature, names in _NOT_SERVED.items()
        for name in names.split()
    }
    zones: dict[str, Handler] = {
        "listEncryptionZones": _always(
            encryption.ListEncryptionZonesResponseProto(zones=[], hasMore=False)
        ),
        "listReencryptionStatus": _always(
            encryption.ListReencryptionStatusResponseProto(statuses=[], hasMore=False)
        ),
    }
    refused |= for_superusers(namenode, callers, zones)
    return refused | {
        "getServerDefaults": _always(pb.GetServerDefaultsResponseProto(serverDefaults=defaults)),
        "getDataEncryptionKey": _always(pb.GetDataEncryptionKeyResponseProto()),
        "getHAServiceState": _always(pb.HAServiceStateResponseProto(state=ACTIVE)),
        "msync": _always(pb.MsyncResponseProto()),
        "getDelegationToken": _always(security.GetDelegationTokenResponseProto()),
        "getStoragePolicies": _always(
            pb.GetStoragePoliciesResponseProto(policies=map(policy_message, POLICIES))
        ),
        "getErasureCodingPolicies": _always(coding.GetErasureCodingPoliciesResponseProto()),
        "getErasureCodingCodecs": _always(coding.GetErasureCodingCodecsResponseProto()),
    }


_NOT_SERVED = {
    "Encryption": "createEncryptionZone reencryptEncryptionZone",
    "Erasure coding": "setErasureCodingPolicy unsetErasureCodingPolicy addErasureCodingPolicies "
    "removeErasureCodingPolicy enableErasureCodingPolicy disableErasureCodingPolicy "
    "getECTopologyResultForPolicies",
    "The delegation token": "renewDelegationToken cancelDelegationToken",
    "The storage policy satisfier": "satisfyStoragePolicy",
}
