"""What the NameNode's port serves, asked as messages of a NameNode in memory."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.promise import Promise
from headrace.namespace import requests
from headrace.namespace.datanodes import ReportedReplica
from headrace.namespace.rpc.asking import ASKS
from headrace.namespace.rpc.endpoint import namenode_endpoint
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_protocols as protocols
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos.rpc_engine_pb2 import RequestHeaderProto
from headrace.wire.hadoop.rpc_protocols import RpcProtocol
from headrace.wire.hadoop.rpc_session import Later, RpcCall

NOT_SERVED = {"getEditsFromTxid"}
"""Of ClientNamenodeProtocol."""


class Port:
    def __init__(
        self, cluster: SimulatedNameNode, forget_groups: Callable[[], None] = lambda: None
    ) -> None:
        self.cluster = cluster
        self.failures: list[BaseException] = []
        self.endpoint = namenode_endpoint(
            cluster.namenode,
            lambda _: (),
            lambda _, error: self.failures.append(error),
            forget_groups=forget_groups,
        )
        self._call_id = 0

    def call(
        self,
        method: str,
        request: Any,
        *,
        user: str = SUPERUSER,
        protocol: RpcProtocol = protocols.CLIENT_NAMENODE,
    ) -> Any:
        header = RequestHeaderProto(
            methodName=method,
            declaringClassProtocolName=protocol.java_name,
            clientProtocolVersion=1,
        )
        self._call_id += 1
        served = self.endpoint.find(header.SerializeToString())
        call = RpcCall(user, "", b"c" * 16, self._call_id, 0, "127.0.0.1")
        answer = served.handler(request, call)
        if isinstance(answer, Later):
            self.cluster.settle()
            answer = answer.response(answer.promise.value())
        elif isinstance(answer, Promise):
            self.cluster.settle()
            answer = answer.value()
        response_class = protocol.methods[method].response_class
        if isinstance(answer, bytes):
            answer = response_class.FromString(answer)
        assert isinstance(answer, response_class)
        answer.SerializeToString()  # every required field is there
        return answer


@pytest.fixture
def port() -> Port:
    return Port(SimulatedNameNode(datanodes=3))


def mkdirs(port: Port, path: str) -> None:
    request = pb.MkdirsRequestProto(src=path, createParent=True)
    request.masked.perm = 0o755
    assert port.call("mkdirs", request).result


def test_every_request_of_the_namespace_is_answered_by_somebody() -> None:
    asked = {
        kind
        for kind in vars(requests).values()
        if isinstance(kind, type) and kind.__module__ == requests.__name__
    }
    assert asked - set(ASKS) == set()


def test_every_method_but_a_few_is_served(port: Port) -> None:
    served = port.endpoint.protocols
    client = protocols.CLIENT_NAMENODE
    assert set(client.methods) - set(served[client.java_name]) == NOT_SERVED
    for protocol in (protocols.DATANODE, protocols.HA_SERVICE, protocols.FILE_SET):
        assert set(protocol.methods) == set(served[protocol.java_name])


def test_no_property_changes_while_it_runs(port: Port) -> None:
    def call(method: str) -> Any:
        request_class = protocols.RECONFIGURATION.methods[method].request_class
        return port.call(method, request_class(), protocol=protocols.RECONFIGURATION)

    assert list(call("listReconfigurableProperties").name) == []
    assert call("getReconfigurationStatus").startTime == 0
    with pytest.raises(RemoteError) as caught:
        call("startReconfiguration")
    assert caught.value.class_name == java.UNSUPPORTED_OPERATION


def test_methods_without_arguments_answer_with_all_their_fields(port: Port) -> None:
    for method in (
        "getServerDefaults",
        "getFsStats",
        "getFsReplicatedBlockStats",
        "getFsECBlockGroupStats",
        "getStoragePolicies",
        "getHAServiceState",
        "getDataEncryptionKey",
        "getErasureCodingPolicies",
        "getSlowDatanodeReport",
        "getCurrentEditLogTxid",
        "getSnapshottableDirListing",
        "upgradeStatus",
        "rollEdits",
        "refreshNodes",
        "msync",
    ):
        request_class = protocols.CLIENT_NAMENODE.methods[method].request_class
        port.call(method, request_class())


def test_numbers_below_zero_survive_unsigned_fields(port: Port) -> None:
    mkdirs(port, "/d")
    summary = port.call("getContentSummary", pb.GetContentSummaryRequestProto(path="/d")).summary
    assert summary.quota == summary.spaceQuota == 2**64 - 1
    port.call(
        "setQuota",
        pb.SetQuotaRequestProto(path="/d", namespaceQuota=10, storagespaceQuota=2**63 - 1),
    )
    usage = port.call("getQuotaUsage", pb.GetQuotaUsageRequestProto(path="/d")).usage
    assert (usage.quota, usage.spaceQuota) == (10, 2**64 - 1)
    before = port.call("getFileInfo", pb.GetFileInfoRequestProto(src="/d")).fs
    port.call("setTimes", pb.SetTimesRequestProto(src="/d", mtime=123_456, atime=2**64 - 1))
    after = port.call("getFileInfo", pb.GetFileInfoRequestProto(src="/d")).fs
    assert (after.modification_time, after.access_time) == (123_456, before.access_time)
    with pytest.raises(RemoteError, match="negative"):
        port.call(
            "truncate",
            pb.TruncateRequestProto(src="/d", newLength=2**64 - 5, clientName="c"),
        )


def test_figures_of_blocks_at_risk(port: Port) -> None:
    def figures() -> Any:
        request = pb.GetFsReplicatedBlockStatsRequestProto()
        return port.call("getFsReplicatedBlockStats", request)

    cluster = port.cluster
    cluster.write("/f", 100)
    assert (figures().low_redundancy, figures().highest_prio_low_redundancy_blocks) == (0, 0)
    cluster.nodes[0].is_running = False
    cluster.run(cluster.settings.datanode_dead_ms + 60_000)
    assert (figures().low_redundancy, figures().highest_prio_low_redundancy_blocks) == (1, 0)
    cluster.nodes[1].is_running = False
    cluster.run(cluster.settings.datanode_dead_ms + 60_000)
    assert (figures().low_redundancy, figures().highest_prio_low_redundancy_blocks) == (1, 1)


def test_bytes_from_the_future_are_told_while_they_count(port: Port) -> None:
    def told() -> tuple[int, int]:
        again = Port(cluster)
        stats = again.call("getFsStats", pb.GetFsStatusRequestProto())
        blocks = again.call("getFsReplicatedBlockStats", pb.GetFsReplicatedBlockStatsRequestProto())
        return stats.blocks_in_future, blocks.blocks_in_future

    cluster = port.cluster
    for path in ("/f", "/g"):  # of a single block, none has to be reported
        cluster.write(path, 100)
    node = cluster.nodes[0]
    stamp = cluster.ns.generation_stamp + 9
    future = ReportedReplica(cluster.ns.last_block_id + 7, 5, stamp)
    node.replicas[future.block_id] = future
    assert told() == (0, 0)
    cluster.restart()
    assert told() == (5, 5)
    cluster.namenode.set_safe_mode("force_exit")
    assert told() == (0, 0)


def test_metasave_writes_what_is_wrong(port: Port) -> None:
    port.cluster.write("/f", 100)
    for node in port.cluster.nodes[:2]:
        node.is_running = False
    port.cluster.run(60_000)
    written: dict[str, str] = {}
    port.cluster.namenode.write_report = written.__setitem__
    port.call("metaSave", pb.MetaSaveRequestProto(filename="now.txt"))
    lines = written["now.txt"].splitlines()
    assert f"Dead Datanodes: {len(port.cluster.nodes[:2])}" in lines
    assert any(line.startswith("/f: blk_") and "live: 1 of 3" in line for line in lines)
    for bad in ("", "../x", "/x", ".hidden"):
        with pytest.raises(RemoteError, match="plain file name"):
            port.call("metaSave", pb.MetaSaveRequestProto(filename=bad))


def test_what_is_not_there_is_an_empty_answer(port: Port) -> None:
    assert not port.call("getFileInfo", pb.GetFileInfoRequestProto(src="/no")).HasField("fs")
    listing = pb.GetListingRequestProto(src="/no", startAfter=b"", needLocation=False)
    assert not port.call("getListing", listing).HasField("dirList")


def test_files_and_their_locations(port: Port) -> None:
    create = pb.CreateRequestProto(
        src="/f",
        clientName="c",
        createFlag=pb.CREATE,
        createParent=True,
        replication=3,
        blockSize=1 << 20,
    )
    create.masked.perm = 0o644
    status = port.call("create", create).fs
    assert status.fileType == hdfs.HdfsFileStatusProto.IS_FILE
    added = port.call(
        "addBlock", pb.AddBlockRequestProto(src="/f", clientName="c", fileId=status.fileId)
    ).block
    assert len(added.locs) == len(added.storageIDs) == len(added.isCached) == 3
    assert len({node.id.datanodeUuid for node in added.locs}) == 3
    located = port.call(
        "getBlockLocations",
        pb.GetBlockLocationsRequestProto(src="/f", offset=0, length=2**63 - 1),
    ).locations
    assert located.underConstruction
    assert located.lastBlock.b.blockId == added.b.blockId


def test_a_batched_listing_goes_on_behind_its_cursor(port: Port) -> None:
    for folder in ("a", "b"):
        for number in range(700):
            mkdirs(port, f"/{folder}/{number:03d}")
    paths = ["/a", "/no", "/b"]
    cursor, seen, refused = b"", {0: 0, 2: 0}, []
    for _ in range(10):
        answer = port.call(
            "getBatchedListing",
            pb.GetBatchedListingRequestProto(paths=paths, startAfter=cursor, needLocation=False),
        )
        for listing in answer.listings:
            if listing.HasField("exception"):
                refused.append((listing.parentIdx, listing.exception.className))
            else:
                seen[listing.parentIdx] += len(listing.partialListing)
        cursor = answer.startAfter
        if not answer.hasMore:
            break
    assert seen == {0: 700, 2: 700}
    assert refused == [(1, "java.io.FileNotFoundException")]
    with pytest.raises(RemoteError, match="another listing"):
        port.call(
            "getBatchedListing",
            pb.GetBatchedListingRequestProto(paths=["/a"], startAfter=b"\x00", needLocation=False),
        )


def test_operators_orders_are_the_superusers(port: Port) -> None:
    enter = pb.SetSafeModeRequestProto(action=pb.SAFEMODE_ENTER)
    for method, request in (
        ("setSafeMode", enter),
        ("refreshNodes", pb.RefreshNodesRequestProto()),
        ("rollEdits", pb.RollEditsRequestProto()),
        ("setBalancerBandwidth", pb.SetBalancerBandwidthRequestProto(bandwidth=1)),
        ("saveNamespace", pb.SaveNamespaceRequestProto()),
        ("listOpenFiles", pb.ListOpenFilesRequestProto(id=0, path="/")),
    ):
        with pytest.raises(RemoteError, match=r"[Ss]uperuser"):
            port.call(method, request, user="eve")
    assert port.failures == []


SUPERUSERS: list[tuple[RpcProtocol, dict[str, str]]] = [
    (
        protocols.CLIENT_NAMENODE,
        {
            "getCurrentEditLogTxid": "getCurrentEditLogTxid",
            "rollingUpgrade": "queryRollingUpgrade",
            "listEncryptionZones": "listEncryptionZones",
            "listReencryptionStatus": "listReencryptionStatus",
            "getDatanodeStorageReport": "getDatanodeStorageReport",
            "finalizeUpgrade": "finalizeUpgrade",
            "metaSave": "metaSave",
        },
    ),
    (
        protocols.NAMENODE,
        {
            "getBlocks": "getBlocks",
            "getBlockKeys": "getBlockKeys",
            "getTransactionId": "getTransactionID",
            "isUpgradeFinalized": "isUpgradeFinalized",
            "isRollingUpgrade": "isRollingUpgrade",
        },
    ),
    (
        protocols.HA_SERVICE,
        {
            "monitorHealth": "monitorHealth",
            "transitionToActive": "transitionToActive",
            "transitionToStandby": "transitionToStandby",
            "transitionToObserver": "transitionToObserver",
        },
    ),
    (
        protocols.RECONFIGURATION,
        {
            "startReconfiguration": "startNamenodeReconfiguration",
            "getReconfigurationStatus": "getNamenodeReconfigurationStatus",
            "listReconfigurableProperties": "listNamenodeReconfigurableProperties",
        },
    ),
]
"""What HDFS 3.5 demands a superuser for, by the name that its refusal has for it."""
EVERYBODY: list[tuple[RpcProtocol, tuple[str, ...]]] = [
    (
        protocols.REFRESH_USER_MAPPINGS,
        (
            "refreshUserToGroupsMappings",
            "refreshSuperUserGroupsConfiguration",
        ),
    ),
    (protocols.REFRESH_CALL_QUEUE, ("refreshCallQueue",)),
    (protocols.HA_SERVICE, ("getServiceStatus",)),
    (protocols.NAMENODE, ("versionRequest",)),
    (protocols.CLIENT_NAMENODE, ("upgradeStatus", "getFsStats", "getHAServiceState")),
]
"""What only its service ACLs would keep anybody from, and those are off by default."""


def test_the_superuser_s_calls_are_those_of_hdfs(port: Port) -> None:
    for protocol, operations in SUPERUSERS:
        for method, operation in operations.items():
            request = protocol.methods[method].request_class()
            with pytest.raises(RemoteError) as caught:
                port.call(method, request, user="eve", protocol=protocol)
            assert caught.value.class_name == java.ACCESS_CONTROL
            assert caught.value.message == (
                f"Access denied for user eve. Superuser privilege is required for operation "
                f"{operation}"
            )
    for protocol, methods in EVERYBODY:
        for method in methods:
            request = protocol.methods[method].request_class()
            port.call(method, request, user="eve", protocol=protocol)
    assert port.failures == []


def test_what_the_superuser_is_told_of_roles_and_refreshes(port: Port) -> None:
    ha = protocols.HA_SERVICE
    for method in ("monitorHealth", "transitionToActive"):
        port.call(method, ha.methods[method].request_class(), protocol=ha)
    for method in ("transitionToStandby", "transitionToObserver"):
        with pytest.raises(RemoteError) as caught:
            port.call(method, ha.methods[method].request_class(), protocol=ha)
        assert caught.value.class_name == java.SERVICE_FAILED
    acl = protocols.REFRESH_AUTHORIZATION_POLICY
    request: Any = acl.methods["refreshServiceAcl"].request_class()
    with pytest.raises(RemoteError, match="Service Level Authorization not enabled!") as caught:
        port.call("refreshServiceAcl", request, protocol=acl)
    assert caught.value.class_name == java.AUTHORIZATION
    generic = protocols.GENERIC_REFRESH
    request = generic.methods["refresh"].request_class(identifier="x")
    with pytest.raises(
        RemoteError, match="Identifier 'x' does not exist in RefreshRegistry"
    ) as caught:
        port.call("refresh", request, protocol=generic)
    assert caught.value.class_name == java.ILLEGAL_ARGUMENT


def test_groups_are_looked_up_anew_when_that_is_ordered() -> None:
    forgotten: list[bool] = []
    port = Port(SimulatedNameNode(), forget_groups=lambda: forgotten.append(True))
    users = protocols.REFRESH_USER_MAPPINGS
    method = "refreshUserToGroupsMappings"
    port.call(method, users.methods[method].request_class(), protocol=users)
    assert forgotten == [True]


def test_there_are_no_delegation_tokens(port: Port) -> None:
    """Nobody gets one, as from Apache's without security; there is none to renew or cancel."""
    client = protocols.CLIENT_NAMENODE
    asked: Any = client.methods["getDelegationToken"].request_class(renewer="anna")
    assert not port.call("getDelegationToken", asked, user="anna").HasField("token")
    for method in ("renewDelegationToken", "cancelDelegationToken"):
        request: Any = client.methods[method].request_class()
        request.token.identifier = request.token.password = b"x"
        request.token.kind = request.token.service = "x"
        with pytest.raises(RemoteError, match="delegation token is not served") as caught:
            port.call(method, request, user="anna")
        assert caught.value.class_name == java.UNSUPPORTED_OPERATION


def test_what_is_not_offered_is_refused_with_its_name(port: Port) -> None:
    request = protocols.CLIENT_NAMENODE.methods["createEncryptionZone"].request_class()
    with pytest.raises(RemoteError, match="Encryption is not served"):
        port.call("createEncryptionZone", request)
