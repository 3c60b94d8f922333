"""Writes the `_pb2` modules beside every `.proto` file below `src/headrace`.

    python tools/generate_protos.py [FOLDER ...]   # default: every folder that has .proto files

The field numbers of `wire/hadoop/protos` are the public ones of Hadoop 3.5.0; the files carry our
own package name, so that another library's Hadoop messages can live in the same process.
The result is committed: users need protobuf's runtime and no compiler.
"""

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"


def folders() -> list[Path]:
    return sorted({path.parent for path in (SOURCE / "headrace").rglob("*.proto")})


def generate(folder: Path) -> None:
    files = sorted(str(path.relative_to(SOURCE)) for path in folder.glob("*.proto"))
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        "-I",
        ".",
        "--python_out=.",
        "--pyi_out=.",
    ]
    subprocess.run([*command, *files], cwd=SOURCE, check=True)


def main() -> None:
    asked = [Path(name).resolve() for name in sys.argv[1:]]
    for folder in asked or folders():
        generate(folder)


if __name__ == "__main__":
    main()
