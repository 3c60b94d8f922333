"""Who may act for somebody else: over RPC as the real user of a connection, over WebHDFS by `doas`.

Owns: the rule. Superusers may; no proxy users are configured. Spec: Hadoop's ProxyUsers, whose
refusal is told in its words.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.namespace.caller import Caller
from headrace.namespace.permissions import is_superuser
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class Impersonation:
    def __init__(self, ns: "Namespace", groups: Callable[[str], tuple[str, ...]]) -> None:
        self._ns = ns
        self._groups = groups

    def require(self, real_user: str, user: str) -> None:
        """`real_user` asks for `user`; nobody, or the same, asks for himself."""
        if real_user in ("", user):
            return
        if not is_superuser(self._ns, Caller(real_user, self._groups(real_user))):
            raise RemoteError(
                java.AUTHORIZATION, f"User: {real_user} is not allowed to impersonate {user}"
            )
