"""Which topic names are legal, and the words for those that are not.

Owns: the rule `[a-zA-Z0-9._-]{1,249}`, not `.` and not `..` (so that `name-partition` is always
one plain folder name), and the names kept for the quorum.
"""

from headrace.base.limits import TOPIC_NAME_CHARS_MAX

CLUSTER_METADATA_TOPIC = "__cluster_metadata"

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_refusal(name: str) -> str | None:
    """Why `name` can't be a topic's, or None if it can."""
    if not name:
        return "Topic name is invalid: it must not be empty"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_CHARS_MAX:
        return (
            f"Topic name is invalid: it has {len(name)} characters, "
            f"more than the {TOPIC_NAME_CHARS_MAX} allowed"
        )
    if not _LEGAL.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' has other characters than ASCII letters and digits, "
            "'.', '_' and '-'"
        )
    return None
