"""The checksum, and what it does not bring along."""

import subprocess
import sys

import crc32c as package
import pytest

from headrace.base.crc32c import crc32c


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(range(256)) * 300])
def test_it_is_the_packages(data: bytes) -> None:
    assert crc32c(data) == package.crc32c(data)
    assert crc32c(memoryview(data), 7) == package.crc32c(data, 7)
    assert crc32c(b"123456789") == 0xE3069283


def test_servers_do_not_read_the_metadata_of_packages() -> None:
    code = (
        "import sys\n"
        "import headrace.node.server, headrace.node.namenode, headrace.node.datanode\n"
        "print(sorted({'importlib.metadata', 'email', 'typer', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
