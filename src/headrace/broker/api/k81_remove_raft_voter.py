"""RemoveRaftVoter (key 81), versions 0–0.

0 KIP-853.
Missing: nothing.

Decided by the leader of the metadata quorum (`quorum.voter_changes`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: RemoveRaftVoterRequest, context: RequestContext
) -> Promise[RemoveRaftVoterResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
