"""What a DataNode tells operators without looking at its blocks."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.datanode.errors import UNSUPPORTED, Refusal
from headrace.datanode.ipc import ClientDatanodeCalls
from headrace.wire.hadoop.exceptions import ACCESS_CONTROL
from headrace.wire.hadoop.protos import client_datanode_pb2 as client
from headrace.wire.hadoop.rpc_protocols import CLIENT_DATANODE
from headrace.wire.hadoop.rpc_session import Handler, RpcCall

FOR_EVERYBODY = {
    "getReplicaVisibleLength",
    "getBlockLocalPathInfo",
    "getDatanodeInfo",
    "getBalancerBandwidth",
}
"""All else of ClientDatanodeProtocol is the superuser's, as DataNode.java has it."""


def handlers_of(
    context: Any = None, shut_down: Callable[[], None] = lambda: None
) -> dict[str, Handler]:
    return ClientDatanodeCalls(
        cast(Any, context),
        uptime_s=lambda: 0,
        shut_down=shut_down,
        report_blocks=lambda _: None,
        balancer_bandwidth=lambda: 0,
        may_administer=lambda user: user == "hdfs",
    ).handlers()


def test_what_an_operator_orders_is_the_superuser_s() -> None:
    stopped: list[bool] = []
    handlers = handlers_of(shut_down=lambda: stopped.append(True))
    assert set(handlers) == set(CLIENT_DATANODE.methods)
    eve = RpcCall("eve", "", b"c" * 16, 1, 0, "127.0.0.1")
    for method in set(handlers) - FOR_EVERYBODY:
        with pytest.raises(Refusal) as caught:
            handlers[method](CLIENT_DATANODE.methods[method].request_class(), eve)
        told = (caught.value.class_name, caught.value.message)
        assert told == (ACCESS_CONTROL, "Permission denied."), method
    assert not stopped
    hdfs = RpcCall("hdfs", "", b"c" * 16, 2, 0, "127.0.0.1")
    handlers["shutdownDatanode"](client.ShutdownDatanodeRequestProto(forUpgrade=False), hdfs)
    assert stopped
    for method in ("getDatanodeInfo", "getBalancerBandwidth"):
        handlers[method](CLIENT_DATANODE.methods[method].request_class(), eve)


def test_no_property_changes_while_it_runs() -> None:
    handlers = handlers_of()
    call = RpcCall("hdfs", "", b"c" * 16, 1, 0, "127.0.0.1")

    def ask(method: str) -> Any:
        return handlers[method](None, call)

    assert list(ask("listReconfigurableProperties").name) == []
    assert ask("getReconfigurationStatus").startTime == 0
    with pytest.raises(Refusal) as caught:
        ask("startReconfiguration")
    assert UNSUPPORTED in vars(caught.value).values()


def test_disk_balancer_plans_are_none() -> None:
    context = SimpleNamespace(
        dataset=SimpleNamespace(
            live_volumes=lambda: [SimpleNamespace(storage_id="DS-1", path="volume")]
        )
    )
    handlers = handlers_of(context)
    call = RpcCall("hdfs", "", b"c" * 16, 1, 0, "127.0.0.1")
    answer: Any = handlers["queryDiskBalancerPlan"](client.QueryPlanStatusRequestProto(), call)
    assert (answer.result, json.loads(answer.currentStatus)) == (0, [])

    def setting(key: str) -> Any:
        request = client.DiskBalancerSettingRequestProto(key=key)
        return handlers["getDiskBalancerSetting"](request, call)

    assert json.loads(setting("DiskBalancerVolumeName").value) == {"DS-1": "volume"}
    for method in ("submitDiskBalancerPlan", "cancelDiskBalancerPlan"):
        with pytest.raises(Refusal, match="carries out no plans"):
            handlers[method](None, call)
    with pytest.raises(Refusal, match="no disk balancer setting"):
        setting("else")
