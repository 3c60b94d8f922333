"""SaslAuthenticate: no handshake can have gone before."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest


@pytest.mark.parametrize("version", versions_of(SaslAuthenticateRequest))
def test_a_token_without_a_handshake(version: int) -> None:
    response = AdminBroker().call(SaslAuthenticateRequest(auth_bytes=b"\0user\0pass"), version)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message
    assert response.auth_bytes == b""
