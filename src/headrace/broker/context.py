"""Who asks, and in which version: what a handler may know of the connection it serves."""

from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class RequestContext:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    peer: str
    listener_name: str
    principal: str = ANONYMOUS
    software_name: str = ""
    """As the client said with ApiVersions."""
    software_version: str = ""
    connection_id: int = 0
    """No two connections of a process have the same; 0 where there is none."""
