"""SaslAuthenticate (key 36), versions 0–2.

1 session lifetime · 2 flexible.
Missing: every mechanism. No handshake can have succeeded, so a token is always out of place.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",  # noqa: ARG001
    request: SaslAuthenticateRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=int(ErrorCode.ILLEGAL_SASL_STATE),
        error_message="SaslAuthenticate request received without a successful SaslHandshake.",
    )
