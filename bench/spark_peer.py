"""Spark's own way from Kafka into HDFS, in an environment of its own: the pipeline's peer.

Owns: `.build/bench/spark-peer` (a virtual environment with PySpark 4.0, whose connector resolves
whole, and the jars of `spark-sql-kafka`), and how a job runs there. Must not know:
what is measured.
"""

import os
import subprocess
import sys
from pathlib import Path

from bench.servers import BUILD, ROOT

HOME = BUILD / "spark-peer"
PINS = ROOT / "requirements" / "spark-peer.txt"
POM = ROOT / "bench" / "spark" / "pom.xml"
SETUP_TIMEOUT_S = 900


def prepare() -> tuple[Path, list[Path]]:
    """The Python that has the peer's Spark, and the connector's jars; brought the first time."""
    python, library, done = HOME / "venv" / "bin" / "python", HOME / "lib", HOME / "done"
    wanted = PINS.read_text() + POM.read_text()
    if not done.exists() or done.read_text() != wanted:
        HOME.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(HOME / "venv")])
        _run([str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(PINS)])
        maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        _run([*maven, f"-DoutputDirectory={library}", "-DincludeScope=runtime"])
        done.write_text(wanted)
    # Scala, logging and the codecs' libraries are Spark's own already.
    own = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return python, [jar for jar in sorted(library.glob("*.jar")) if jar.name.startswith(own)]


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SETUP_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:4])} … failed:\n{done.stdout}{done.stderr}")


def environment(python: Path) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    inherited.pop("SPARK_HOME", None)
    return {**inherited, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
