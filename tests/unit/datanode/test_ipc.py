"""What a DataNode tells operators without looking at its blocks."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.datanode.errors import UNSUPPORTED, Refusal
from headrace.datanode.ipc import ClientDatanodeCalls
from headrace.wire.hadoop.protos import client_datanode_pb2 as client
from headrace.wire.hadoop.rpc_session import RpcCall


def test_no_property_changes_while_it_runs() -> None:
    handlers = ClientDatanodeCalls(
        cast(Any, None),
        uptime_s=lambda: 0,
        shut_down=lambda: None,
        report_blocks=lambda _: None,
        balancer_bandwidth=lambda: 0,
    ).handlers()
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
    handlers = ClientDatanodeCalls(
        cast(Any, context),
        uptime_s=lambda: 0,
        shut_down=lambda: None,
        report_blocks=lambda _: None,
        balancer_bandwidth=lambda: 0,
    ).handlers()
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
