"""SaslHandshake (key 17), versions 0–1.

1 the tokens that follow are SaslAuthenticate requests.
Missing: every mechanism. None is enabled yet, and the answer says just that.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",  # noqa: ARG001
    request: SaslHandshakeRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(
        error_code=int(ErrorCode.UNSUPPORTED_SASL_MECHANISM), mechanisms=[]
    )
