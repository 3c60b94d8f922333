"""AddRaftVoter (key 80), versions 0–1.

0 KIP-853 · 1 an answer before the commit (KIP-1186).
Missing: nothing.

Decided by the leader of the metadata quorum (`quorum.voter_changes`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: AddRaftVoterRequest, context: RequestContext
) -> Promise[AddRaftVoterResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
