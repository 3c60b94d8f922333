"""DescribeUserScramCredentials (key 50), version 0 (KIP-554).

Which users have SCRAM credentials; kafka-configs asks whenever it describes users.
Missing: nothing. Credentials are told from the metadata; none can be set while SASL is not served.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeUserScramCredentialsRequest, _context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    known = broker.image.scram_users()
    asked = [each.name for each in request.users or ()] or sorted(known)
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=[_result(name, known.get(name), asked) for name in asked]
    )


def _result(
    name: str, credentials: list[tuple[int, int]] | None, asked: list[str]
) -> DescribeUserScramCredentialsResult:
    error, message = ErrorCode.NONE, None
    if asked.count(name) > 1:
        error, message = ErrorCode.DUPLICATE_RESOURCE, f"User {name} is named twice."
    elif credentials is None:
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=error,
        error_message=message,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in (credentials or () if not error else ())
        ],
    )
