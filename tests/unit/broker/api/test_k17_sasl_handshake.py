"""SaslHandshake: answered, and no mechanism is there."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest


@pytest.mark.parametrize("version", versions_of(SaslHandshakeRequest))
def test_no_mechanism_is_enabled(version: int) -> None:
    response = AdminBroker().call(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [])
