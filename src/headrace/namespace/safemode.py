"""Safe mode: read only, until enough blocks were reported (D14), while there is no room for edits,
or as an operator says.

Owns: the counts, the verdict and its text. Must not know: who reports, timers (asked to look).
Spec: BlockManagerSafeMode.

Invariants: nothing is deleted or copied while it is on; blocks from the future keep it on.
"""

from headrace.namespace.settings import NamespaceSettings


class SafeMode:
    def __init__(self, settings: NamespaceSettings) -> None:
        self._settings = settings
        self.is_manual = False
        self.is_starting = True
        """The start's own safe mode; ends by itself."""
        self.lack_of_room = ""
        """Why edits can't be written; an operator can't change that by a word (`room`)."""
        self.block_total = 0
        """Complete blocks that the journal knows."""
        self.block_safe = 0
        """Of them, those with enough replicas (`dfs.namenode.replication.min`)."""
        self.future_bytes = 0
        """Of replicas that this journal has never heard of: it may be an old one."""
        self.was_forced = False
        """An operator gave up what this journal has never heard of."""
        self._reached_ms = -1

    @property
    def is_on(self) -> bool:
        return self.is_starting or self.is_manual or bool(self.lack_of_room)

    @property
    def is_populating(self) -> bool:
        """Reports are still coming in after the start: too early to judge any block."""
        return self.is_starting

    def begin(self, block_total: int) -> None:
        self.block_total = block_total
        self.block_safe = 0

    def on_block_safe(self) -> None:
        self.block_safe += 1

    def on_block_unsafe(self) -> None:
        self.block_safe -= 1

    def on_block_completed(self, *, is_safe: bool) -> None:
        self.block_total += 1
        if is_safe:
            self.block_safe += 1

    def on_block_removed(self, *, was_safe: bool) -> None:
        self.block_total -= 1
        if was_safe:
            self.block_safe -= 1

    @property
    def threshold(self) -> int:
        return int(self.block_total * self._settings.safemode_threshold)

    def look(self, live_datanodes: int, now_ms: int) -> bool:
        """Leave the start's safe mode if it is time; True if it was left now."""
        if not self.is_starting or self._lacks(live_datanodes):
            return False
        if self._reached_ms < 0:
            self._reached_ms = now_ms
        if now_ms - self._reached_ms < self._settings.safemode_extension_ms:
            return False
        self.is_starting = False
        return True

    def _lacks(self, live_datanodes: int) -> str:
        if self.block_safe < self.threshold:
            return (
                f"The reported blocks {self.block_safe} needs additional "
                f"{self.threshold - self.block_safe} blocks to reach the threshold "
                f"{self._settings.safemode_threshold:.4f} of total blocks {self.block_total}."
            )
        if live_datanodes < self._settings.safemode_min_datanodes:
            return (
                f"The number of live datanodes {live_datanodes} needs an additional "
                f"{self._settings.safemode_min_datanodes - live_datanodes} live datanodes to "
                f"reach the minimum number {self._settings.safemode_min_datanodes}."
            )
        if self.future_bytes:
            return (
                f"DataNodes reported {self.future_bytes} bytes of blocks with a generation stamp "
                "from the future; leaving safe mode by force would delete them."
            )
        return ""

    def enter(self) -> None:
        self.is_manual = True

    def leave(self, *, force: bool = False) -> bool:
        """An operator's word. Not against blocks from the future, unless forced."""
        if self.future_bytes and not force:
            return False
        if self.future_bytes:
            self.was_forced = True
            self.future_bytes = 0
        self.is_manual = False
        self.is_starting = False
        return True

    def tip(self, live_datanodes: int) -> str:
        if self.lack_of_room:
            return self.lack_of_room
        if self.is_manual:
            return (
                'It was turned on manually. Use "hdfs dfsadmin -safemode leave" to turn safe '
                "mode off."
            )
        lack = self._lacks(live_datanodes)
        if lack:
            return lack + (
                " Safe mode will be turned off automatically once the thresholds have been reached."
            )
        return "Safe mode will be turned off automatically in 0 seconds."
