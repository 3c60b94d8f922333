"""What is refused, and that nothing of it stays."""

from typing import Any

import pytest

from headrace.namespace.caller import Caller
from headrace.testing.namenode import SimulatedNameNode, durable_state
from headrace.wire.hadoop.exceptions import RemoteError


def refused(cluster: SimulatedNameNode, request: Any, caller: Caller | None = None) -> str:
    """The Java class of the refusal."""
    before = durable_state(cluster.ns)
    with pytest.raises(RemoteError) as caught:
        cluster.ask(request, caller)
    assert durable_state(cluster.ns) == before
    return caught.value.class_name
