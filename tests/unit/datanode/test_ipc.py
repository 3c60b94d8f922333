"""What a DataNode tells operators without looking at its blocks."""

from typing import Any, cast

import pytest

from headrace.datanode.errors import UNSUPPORTED, Refusal
from headrace.datanode.ipc import ClientDatanodeCalls
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
