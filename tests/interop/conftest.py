"""The brokers and tools that the interop tests meet.

`target` is the broker under test: ours always; the real Kafka as control among the long tests or
with HEADRACE_CONTROL=1, and it alone with HEADRACE_CONTROL=only (to prove a test before our broker
can pass it).
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import not_run
from tests.interop.java_tools import JavaMissingError, JavaTools
from tests.interop.real_kafka import RealKafka

from headrace.testing.cluster import LocalBroker

Target = LocalBroker | RealKafka

CONTROL = os.environ.get("HEADRACE_CONTROL", "")

control = [] if CONTROL else [pytest.mark.long]
"""Marks of a test that runs the real Kafka as control: on demand, and among the long ones."""

TARGETS = [
    *([] if CONTROL == "only" else ["headrace"]),
    pytest.param("kafka", marks=control),
]

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
"""No waiting for members that never come; few partitions for the dump tool to read."""


def start_target(name: str, **settings: str) -> Target:
    """A broker of that kind, not yet started."""
    if name == "headrace":
        return LocalBroker(settings={**SETTINGS, **settings})
    try:
        return RealKafka(settings={**SETTINGS, **settings})
    except JavaMissingError as missing:
        not_run(str(missing))


@pytest.fixture(scope="session", params=TARGETS)
def target_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def target(target_name: str) -> Iterator[Target]:
    """One broker for all tests; each test uses topics and groups of its own."""
    with start_target(target_name) as broker:
        yield broker


@pytest.fixture(scope="module")
def own_target(target_name: str) -> Iterator[Target]:
    """A broker for one module, whose tests may restart it and read its files."""
    with start_target(target_name) as broker:
        yield broker


@pytest.fixture(scope="session")
def java() -> Iterator[JavaTools]:
    try:
        tools = JavaTools()
    except JavaMissingError as missing:
        not_run(str(missing))
    yield tools
    tools.close()


@pytest.fixture(scope="session")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition folder that the real Kafka wrote, in all codecs and several segments."""
    from tests.interop.foreign import written_by

    return written_by("kafka", tmp_path_factory.mktemp("kafka") / "folder")


@pytest.fixture(scope="session")
def kcat() -> str:
    """The path of kcat; installed from the distribution's packages where we may."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-q"], ["install", "-q", "-y", "kcat"]):
            subprocess.run(
                ["apt-get", *words], env=environment, capture_output=True, timeout=300, check=False
            )
        found = shutil.which("kcat")
    return found or not_run("kcat is not installed and could not be installed")


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses: `unique("orders")`."""
    tag = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{tag}"
