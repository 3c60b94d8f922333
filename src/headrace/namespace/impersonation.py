"""Who may act for somebody else: over RPC as the real user of a connection, over WebHDFS by `doas`.

Owns: who that is asked of: the namespace's superusers may (`wire.hadoop.impersonation`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.namespace.caller import Caller
from headrace.namespace.permissions import is_superuser
from headrace.wire.hadoop.impersonation import require_impersonator

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class Impersonation:
    def __init__(self, ns: "Namespace", groups: Callable[[str], tuple[str, ...]]) -> None:
        self._ns = ns
        self._groups = groups

    def require(self, real_user: str, user: str) -> None:
        """`real_user` asks for `user`; nobody, or the same, asks for himself."""
        require_impersonator(real_user, user, self._is_superuser)

    def _is_superuser(self, user: str) -> bool:
        return is_superuser(self._ns, Caller(user, self._groups(user)))
