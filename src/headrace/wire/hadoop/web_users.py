"""Who a WebHDFS request comes from: `user.name` and `doas`.

Owns: which names are legal, and who a request without any is from, for both halves of WebHDFS.
Must not know: who may act for whom; that is the NameNode's.
"""

import re
from collections.abc import Mapping

from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.rpc_calls import RpcUser

DEFAULT_USER = "dr.who"
"""Who a request without `user.name` comes from, as with Apache's."""

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*[$]?")
"""`dfs.webhdfs.user.provider.user.pattern`."""


def web_user(query: Mapping[str, str]) -> RpcUser:
    """Raises RemoteError for a name that nobody has."""
    user = _name(query, "user.name") or DEFAULT_USER
    wanted = _name(query, "doas")
    return RpcUser(user) if wanted in ("", user) else RpcUser(wanted, real=user)


def _name(query: Mapping[str, str], parameter: str) -> str:
    name = query.get(parameter, "")
    if name and _USER.fullmatch(name) is None:
        raise RemoteError(
            java.ILLEGAL_ARGUMENT,
            f'Invalid value: "{name[:40]}" does not belong to the domain of {parameter}',
        )
    return name
