"""Apache Hadoop's jars and its command-line tools, run in one resident JVM.

Owns: `.build/hadoop` (jars copied by Maven at first use, compiled `HadoopTools`), the JVM process
and its pipe. Must not know: clusters. The framing of the pipe is drawn in `HadoopTools.java`.

Invariants: preparing is idempotent and safe for several processes at once (a file lock); a tool
that passes its time limit costs the JVM its life, the next call starts a new one.
"""

import contextlib
import fcntl
import getpass
import os
import select
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.interop.java_tools import JavaMissingError, ToolResult, ToolTimeoutError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "hadoop"
BUILD = ROOT / ".build" / "hadoop"
LIBRARY = BUILD / "lib"
CLASSES = BUILD / "classes"

MAVEN_TIMEOUT_S = 600
TOOL_TIMEOUT_S = 60.0

TOOLS = {
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
    "groups": "org.apache.hadoop.hdfs.tools.GetGroups",
    "haadmin": "org.apache.hadoop.hdfs.tools.DFSHAAdmin",
    "storagepolicies": "org.apache.hadoop.hdfs.tools.StoragePolicyAdmin",
    "snapshotDiff": "org.apache.hadoop.hdfs.tools.snapshot.SnapshotDiff",
    "lsSnapshottableDir": "org.apache.hadoop.hdfs.tools.snapshot.LsSnapshottableDir",
    "lsSnapshot": "org.apache.hadoop.hdfs.tools.snapshot.LsSnapshot",
    "ec": "org.apache.hadoop.hdfs.tools.ECAdmin",
    "cacheadmin": "org.apache.hadoop.hdfs.tools.CacheAdmin",
    "debug": "org.apache.hadoop.hdfs.tools.DebugAdmin",
    "diskbalancer": "org.apache.hadoop.hdfs.tools.DiskBalancerCLI",
    "file-calls": "FileCalls",
    "steered-writer": "SteeredWriter",
    "webhdfs-calls": "WebHdfsCalls",
}

QUIET_LOGGING = """\
log4j.rootLogger=WARN,err
log4j.appender.err=org.apache.log4j.varia.NullAppender
"""


def prepare() -> Path:
    """The folder with Hadoop's jars; copied by Maven once, reused afterwards."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            raise JavaMissingError(f"{program} is not installed")
    BUILD.mkdir(parents=True, exist_ok=True)
    with _locked(BUILD / "lock"):
        if not _is_newer(LIBRARY, SOURCES / "pom.xml"):
            _copy_jars()
        if not all(
            _is_newer(CLASSES / f"{source.stem}.class", source) for source in SOURCES.glob("*.java")
        ):
            _compile()
    return LIBRARY


def class_path() -> str:
    return f"{CLASSES}:{LIBRARY}/*"


def _copy_jars() -> None:
    # Copied aside and renamed: an interrupted copy never looks like a whole library.
    fresh = BUILD / "lib.fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml")]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise JavaMissingError(f"Maven could not bring Hadoop's jars:\n{done.stdout}{done.stderr}")
    shutil.rmtree(LIBRARY, ignore_errors=True)
    fresh.rename(LIBRARY)
    os.utime(LIBRARY)


def _compile() -> None:
    CLASSES.mkdir(exist_ok=True)
    (CLASSES / "log4j.properties").write_text(QUIET_LOGGING)
    for folder in ("hdfs", "datanode", "static"):
        (CLASSES / "webapps" / folder).mkdir(parents=True, exist_ok=True)
    command = ["javac", "-nowarn", "-cp", f"{LIBRARY}/*", "-d", str(CLASSES)]
    sources = sorted(map(str, SOURCES.glob("*.java")))
    subprocess.run([*command, *sources], check=True, timeout=120)


def _is_newer(built: Path, source: Path) -> bool:
    return built.exists() and built.stat().st_mtime >= source.stat().st_mtime


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class HadoopTools:
    """Runs `hdfs TOOL ...` by the names of its script, one at a time."""

    def __init__(self) -> None:
        prepare()
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        tool: str,
        *arguments: str,
        settings: dict[str, str] | None = None,
        user: str | None = None,
        real_user: str | None = None,
        stdin: str | bytes = b"",
        timeout_s: float = TOOL_TIMEOUT_S,
    ) -> ToolResult:
        words = [f"{real_user}>{user}" if real_user else user or getpass.getuser(), TOOLS[tool]]
        for name, value in (settings or {}).items():
            words += ["-D", f"{name}={value}"]
        words += arguments
        text = stdin.encode() if isinstance(stdin, str) else stdin
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(_request(words, text))
        process.stdin.flush()
        deadline = time.monotonic() + timeout_s
        try:
            (status,) = struct.unpack(">i", self._read(process, 4, deadline))
            stdout = self._read_sized(process, deadline)
            stderr = self._read_sized(process, deadline)
        except (ToolTimeoutError, EOFError) as error:
            self.close()
            raise ToolTimeoutError(f"{tool} {' '.join(arguments)}: {error}") from None
        return ToolResult(status, stdout, stderr)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [*java(), "HadoopTools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=BUILD,
            start_new_session=True,
        )
        return self._process

    def _read_sized(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        (size,) = struct.unpack(">i", self._read(process, 4, deadline))
        return self._read(process, size, deadline).decode(errors="replace")

    def _read(self, process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
        assert process.stdout is not None
        parts = bytearray()
        while len(parts) < size:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                raise ToolTimeoutError("did not end in time")
            part = os.read(process.stdout.fileno(), size - len(parts))
            if not part:
                raise EOFError("the JVM ended")
            parts += part
        return bytes(parts)


def java(*flags: str) -> list[str]:
    # Short lives: the last compiler would cost more than it brings.
    few = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *(flags or few), "--enable-native-access=ALL-UNNAMED", "-cp", class_path()]


def _request(words: list[str], stdin: bytes) -> bytes:
    request = bytearray(struct.pack(">i", len(words)))
    for part in [*(word.encode() for word in words), stdin]:
        request += struct.pack(">i", len(part)) + part
    return bytes(request)
