"""Rules for every committed file, whatever it holds.

The tree must say nothing of the machine it was written on: no path into somebody's home, work or
temporary folder, and no host that packages came from. The patterns are put together from pieces,
so that this file does not hold what it looks for.
"""

import ast
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

HOMES = ["root", "home" + r"/[\w.-]+", "Users" + r"/[\w.-]+", "work", "workspace"]
TEMPORARY = ["tmp", "var/" + "tmp", "var/folders", "private/tmp"]
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "repo1" + ".maven.org",
    "repo" + ".maven.apache.org",
    "registry" + ".npmjs.org",
    "crates" + ".io",
    "deb" + ".debian.org",
    "artifact" + "ory",
    "dev" + "pi",
]

# A path starts where no name, variable or host runs into it: `hdfs://host:8020/…`, `$TMP/…`,
# `./…` and `docs/…` are no paths of this machine.
START = r"(?<![\w.~$})\]*-])/"
HOME_PATH = re.compile(START + "(?:" + "|".join(HOMES) + r")/[\w.~-]")
TEMPORARY_PATH = re.compile(START + "(?:" + "|".join(TEMPORARY) + r")/[\w.~-]")
HDFS_URI = re.compile(r"\b(?:web|s?web)?hdfs://\S*")
REGISTRY = re.compile("|".join(map(re.escape, REGISTRIES)) + r"|https?://\S+/simple\b")
INDEX_OPTION = re.compile(
    r"^\s*(?:-i|-f|--(?:extra-)?index-url|--find-links|--trusted-host)\b", re.MULTILINE
)
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}


def committed_files() -> list[Path]:
    """What git knows; in an unpacked archive, everything that is not built or hidden."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode == 0:
        files = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        files = [
            path
            for path in ROOT.rglob("*")
            if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        ]
    return [path for path in files if path.is_file()]


def machine_paths_in(text: str) -> list[str]:
    """The lines that name a folder of a machine. HDFS has a temporary folder of the same name."""
    own_folders = [
        str(folder) + "/"
        for folder in (ROOT, Path.home(), Path(tempfile.gettempdir()))
        if len(folder.parts) > 2
    ]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        local = HDFS_URI.sub("", line)
        of_hdfs = "dfs" in local.lower()
        if (
            HOME_PATH.search(local)
            or (TEMPORARY_PATH.search(local) and not of_hdfs)
            or any(folder in local for folder in own_folders)
        ):
            found.append(f"{number}: {line.strip()[:120]}")
    return found


def registries_in(text: str) -> list[str]:
    return [match.group().strip() for match in REGISTRY.finditer(text)]


def read(path: Path) -> str:
    # latin-1 takes any byte: a path inside a binary file counts as well.
    return path.read_bytes().decode("latin-1")


def is_generated(path: Path) -> bool:
    return "enerated by tools/" in path.read_text()[:300]


def test_no_committed_file_holds_a_path_of_the_machine_it_was_written_on() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in committed_files()
        if (lines := machine_paths_in(read(path)))
    }
    assert found == {}


def test_no_committed_file_names_a_package_registry() -> None:
    found = {
        str(path.relative_to(ROOT)): hosts
        for path in committed_files()
        if (hosts := registries_in(read(path)))
    }
    assert found == {}


@pytest.mark.parametrize("name", ["core", "pipeline", "dev"])
def test_requirements_are_pinned_and_hashed_without_index_lines(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert not INDEX_OPTION.search(text)
    assert "file:/" not in text
    requirements = [
        block for block in re.split(r"\n(?=[a-zA-Z])", text) if re.match(r"[a-zA-Z]", block)
    ]
    assert requirements
    for block in requirements:
        assert re.match(r"[\w.-]+==[\w.!+-]+ \\\n", block), block.splitlines()[0]
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_core_needs_no_spark() -> None:
    assert "pyspark" not in (ROOT / "requirements" / "core.txt").read_text()


def test_every_module_says_what_it_owns() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in committed_files()
        if path.is_relative_to(ROOT / "src")
        and path.suffix == ".py"
        and path.name != "__init__.py"
        and not is_generated(path)
        and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_module_has_a_vague_name() -> None:
    vague = [
        str(path.relative_to(ROOT))
        for path in committed_files()
        if path.suffix == ".py" and VAGUE_NAMES & set(path.stem.split("_"))
    ]
    assert vague == []


@pytest.mark.parametrize(
    "line",
    [
        "cd /" + "work/main",
        "data = '/" + "tmp/data'",
        "open(/" + "root/.ssh)",
        "file:///" + "home/anna/x",
        "PATH=/" + "Users/anna/bin",
    ],
)
def test_the_search_finds_a_planted_path(line: str) -> None:
    assert machine_paths_in("first\n" + line) == ["2: " + line]


@pytest.mark.parametrize(
    "line",
    [
        "hdfs://namenode:8020/" + "tmp/x",
        "hdfs:///" + "tmp/x",
        "hdfs dfs -put events /" + "tmp/events",
        "`up` makes `/tmp` (1777)",
        "$HOME/" + "work/x and docs/work/x and ./" + "tmp/x",
        "/user/anna/events and /var/lib/headrace",
    ],
)
def test_the_search_lets_other_paths_be(line: str) -> None:
    assert machine_paths_in(line) == []


def test_the_search_finds_a_planted_registry() -> None:
    assert registries_in("see https://" + "pypi" + ".org/project/x") == ["pypi" + ".org"]
    assert INDEX_OPTION.search("x==1\n--find" + "-links wheels\n")
