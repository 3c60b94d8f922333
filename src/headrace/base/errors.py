"""The four kinds of failure that this project tells apart, as types.

1. A wire error (an error code in a response) is a *value*: `wire.kafka.errors.ErrorCode`.
2. A peer that breaks the protocol: `ProtocolError`. It loses its connection, nothing else.
3. A disk that fails: `StorageError`. It takes that directory out of service. A full disk is one of
   its own, `DiskFullError`: what is there is served, and new data is refused until there is room.
4. Anything unexpected is a bug: it closes the connection before a state change, and stops
   the node after one. It has no type here on purpose.

`UsageError` is for people: a wrong flag, file or address, told in one sentence.
"""


class HeadraceError(Exception):
    """What this project raises on purpose."""


class ProtocolError(HeadraceError):
    """The peer sent bytes that break the protocol."""


class StorageError(HeadraceError):
    """A file operation failed; the directory can no longer be trusted.

    `path` names the file, `cause` is the operating system's error.
    """

    def __init__(self, path: str, cause: OSError | str) -> None:
        super().__init__(f"{path}: {cause}")
        self.path = path
        self.cause = cause


class DiskFullError(StorageError):
    """There is no room, or no descriptor left. Nothing of what was to be written is there, and all
    before it is whole: it may be tried again when there is room. A sync that fails for want of room
    is not this."""


class CorruptionError(StorageError):
    """Bytes on disk are not what was written: `path` and `position` say where."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, f"corrupt at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class UsageError(HeadraceError):
    """Wrong use by a person: says what happened and what to do."""
