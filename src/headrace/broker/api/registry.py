"""The table of what this broker serves. ApiVersions, the dispatcher and docs/PROTOCOLS.md read it.

A row here and a file `kNN_name.py` beside it are one API. Handlers and message classes are
imported at their first request: a broker that never sees an API never pays for it.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from headrace.wire.kafka.served import Api

__all__ = ["APIS", "BY_KEY", "SERVED", "Api", "Endpoint", "endpoint"]


APIS: tuple[Api, ...] = (
    Api(0, "Produce", 0, 13, min_served=3),
    Api(1, "Fetch", 4, 18),
    Api(2, "ListOffsets", 1, 11),
    Api(3, "Metadata", 0, 13),
    Api(8, "OffsetCommit", 2, 10),
    Api(9, "OffsetFetch", 1, 10),
    Api(10, "FindCoordinator", 0, 6),
    Api(11, "JoinGroup", 0, 9),
    Api(12, "Heartbeat", 0, 4),
    Api(13, "LeaveGroup", 0, 5),
    Api(14, "SyncGroup", 0, 5),
    Api(15, "DescribeGroups", 0, 6),
    Api(16, "ListGroups", 0, 5),
    Api(17, "SaslHandshake", 0, 1),
    Api(18, "ApiVersions", 0, 4),
    Api(19, "CreateTopics", 2, 7),
    Api(20, "DeleteTopics", 1, 6),
    Api(21, "DeleteRecords", 0, 2),
    Api(22, "InitProducerId", 0, 5),
    Api(23, "OffsetForLeaderEpoch", 2, 4),
    Api(24, "AddPartitionsToTxn", 0, 5),
    Api(25, "AddOffsetsToTxn", 0, 4),
    Api(26, "EndTxn", 0, 5),
    Api(27, "WriteTxnMarkers", 1, 2),
    Api(28, "TxnOffsetCommit", 0, 5),
    Api(32, "DescribeConfigs", 1, 4),
    Api(33, "AlterConfigs", 0, 2),
    Api(34, "AlterReplicaLogDirs", 1, 2),
    Api(35, "DescribeLogDirs", 1, 5),
    Api(36, "SaslAuthenticate", 0, 2),
    Api(37, "CreatePartitions", 0, 3),
    Api(42, "DeleteGroups", 0, 2),
    Api(43, "ElectLeaders", 0, 2),
    Api(44, "IncrementalAlterConfigs", 0, 1),
    Api(45, "AlterPartitionReassignments", 0, 1),
    Api(46, "ListPartitionReassignments", 0, 0),
    Api(47, "OffsetDelete", 0, 0),
    Api(48, "DescribeClientQuotas", 0, 1),
    Api(49, "AlterClientQuotas", 0, 1),
    Api(50, "DescribeUserScramCredentials", 0, 0),
    Api(55, "DescribeQuorum", 0, 2),
    Api(57, "UpdateFeatures", 0, 2),
    Api(60, "DescribeCluster", 0, 2),
    Api(61, "DescribeProducers", 0, 0),
    Api(64, "UnregisterBroker", 0, 0),
    Api(65, "DescribeTransactions", 0, 0),
    Api(66, "ListTransactions", 0, 2),
    Api(68, "ConsumerGroupHeartbeat", 0, 1),
    Api(69, "ConsumerGroupDescribe", 0, 1),
    Api(71, "GetTelemetrySubscriptions", 0, 0),
    Api(72, "PushTelemetry", 0, 0),
    Api(74, "ListConfigResources", 0, 1),
    Api(75, "DescribeTopicPartitions", 0, 0),
    Api(76, "ShareGroupHeartbeat", 1, 1),
    Api(77, "ShareGroupDescribe", 1, 1),
    Api(78, "ShareFetch", 1, 2),
    Api(79, "ShareAcknowledge", 1, 2),
    Api(80, "AddRaftVoter", 0, 1),
    Api(81, "RemoveRaftVoter", 0, 0),
    Api(83, "InitializeShareGroupState", 0, 0),
    Api(84, "ReadShareGroupState", 0, 0),
    Api(85, "WriteShareGroupState", 0, 1),
    Api(86, "DeleteShareGroupState", 0, 0),
    Api(87, "ReadShareGroupStateSummary", 0, 1),
    Api(90, "DescribeShareGroupOffsets", 0, 1),
    Api(91, "AlterShareGroupOffsets", 0, 0),
    Api(92, "DeleteShareGroupOffsets", 0, 0),
)

BY_KEY: dict[int, Api] = {api.key: api for api in APIS}

SERVED: dict[int, tuple[int, int]] = {api.key: api.served for api in APIS}
"""The versions that are answered, for the dispatcher."""

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API with its code loaded."""

    api: Api
    request_class: type[Any]
    handle: Handler


@cache
def endpoint(key: int) -> Endpoint:
    api = BY_KEY[key]
    handler = importlib.import_module(f"headrace.broker.api.k{key:02d}_{api.snake_name}")
    return Endpoint(api, api.request_class(), handler.handle)
