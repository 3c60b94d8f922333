"""The Python processes that run Spark's tasks, found by who started whom.

Spark's JVM is a child of the driver, `pyspark.daemon` a child of the JVM, and each worker a fork
of the daemon: its name is the same, its parent's too.
"""

from pathlib import Path


def task_workers(driver: int) -> list[int]:
    """Of a driver on this machine, without those that plan batches or serve callbacks."""
    parents, words = _processes()

    def is_below(pid: int) -> bool:
        while pid > 1:
            pid = parents.get(pid, 0)
            if pid == driver:
                return True
        return False

    def is_daemon(pid: int) -> bool:
        told = words.get(pid, [])
        return "pyspark.daemon" in told and told[-1] == "pyspark.worker"

    return [pid for pid in parents if is_daemon(pid) and is_daemon(parents[pid]) and is_below(pid)]


def _processes() -> tuple[dict[int, int], dict[int, list[str]]]:
    parents: dict[int, int] = {}
    words: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            stat = (folder / "stat").read_text()
            told = (folder / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        pid = int(folder.name)
        parents[pid] = int(stat.rpartition(")")[2].split()[1])
        words[pid] = [word for word in told if word]
    return parents, words
