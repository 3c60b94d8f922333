"""The checksum that is loaded without its package is the package's."""

import subprocess
import sys

import crc32c as package
import pytest

from headrace.base.crc32c import crc32c


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(4096)])
def test_it_is_the_checksum_of_the_package(data: bytes) -> None:
    assert crc32c(data) == package.crc32c(data)
    assert crc32c(data, 7) == package.crc32c(data, 7)


@pytest.mark.parametrize("role", ["namenode", "datanode"])
def test_a_start_does_not_read_the_list_of_packages(role: str) -> None:
    program = f"import sys, headrace.node.{role}; print('importlib.metadata' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
