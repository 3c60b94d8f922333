"""Who may act for somebody else, as every port that asks for users tells it.

Owns: the rule's form and its refusal, in the words of Hadoop's ProxyUsers.
Must not know: who is a superuser; no proxy users are configured yet.
"""

from collections.abc import Callable

from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError


def require_impersonator(real_user: str, user: str, is_superuser: Callable[[str], bool]) -> None:
    """`real_user` asks for `user`; nobody, or the same, asks for himself."""
    if real_user not in ("", user) and not is_superuser(real_user):
        raise RemoteError(
            java.AUTHORIZATION, f"User: {real_user} is not allowed to impersonate {user}"
        )
