"""Which writers end their blocks with a sync, as far as their blocks so far tell.

Owns: the memory of it. Must not know: files, packets.

A client says only in a block's last packet that it wants the block synced, and by then all of it
may be dirty pages: it waits for the disk to take them. One that did so before will do so again,
and its replicas can go to disk while they come in. For writers that never sync nothing changes:
the page cache takes their bursts. A wrong guess costs speed, never bytes.
"""

_WRITERS_MAX = 1024


class SyncHabits:
    """By the client's name; of a name that was never heard, the writer before it is the guess."""

    __slots__ = ("_by_client", "_last")

    def __init__(self) -> None:
        self._by_client: dict[str, bool] = {}
        """Whose block ended longest ago comes first."""
        self._last = False

    def on_block_ended(self, client_name: str, synced: bool) -> None:
        by_client = self._by_client
        by_client.pop(client_name, None)
        by_client[client_name] = self._last = synced
        if len(by_client) > _WRITERS_MAX:
            del by_client[next(iter(by_client))]

    def will_sync(self, client_name: str) -> bool:
        return self._by_client.get(client_name, self._last)
