"""Random calls about names, by seed, on our NameNode and on Apache's: the same answers and trees.

Every call is made on both, by the same user and with the same message; the classes of refusals,
what is answered and, again and again, all that can be seen of the tree must be equal once times,
inode ids and block names are blotted out. `random_names` says which calls, `known_names` what is
known to differ. A seed that finds something is made shorter before it is shown.
"""

from collections.abc import Iterator

import pytest
from tests.conftest import not_run
from tests.interop.hdfs.compared_names import Pair, Side
from tests.interop.hdfs.conftest import SETTINGS
from tests.interop.hdfs.known_names import Blotted
from tests.interop.hdfs.random_names import SUPERUSER, Call, calls, has_snapshots
from tests.interop.hdfs.real_hdfs import RealHdfs
from tests.interop.java_tools import JavaMissingError

from headrace.testing.filesystem import LocalFileSystem
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb

pytestmark = [pytest.mark.java, pytest.mark.long]

SEEDS = range(40)
CALLS = 300


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    try:
        apache = RealHdfs(datanodes=1, settings=SETTINGS)
    except JavaMissingError as missing:
        not_run(str(missing))
    with apache, LocalFileSystem(datanodes=1, settings=SETTINGS) as ours:
        yield ours.address, apache.address


@pytest.fixture
def pair(addresses: tuple[str, str]) -> Iterator[Pair]:
    pair = Pair(Side(addresses[0]), Side(addresses[1]))
    yield pair
    pair.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_answers(pair: Pair, seed: int) -> None:
    pair.sums = not has_snapshots(seed)
    asked = list(calls(seed, CALLS))
    if pair.first_difference(asked) is not None:
        fewer, difference = pair.shrunk(asked)
        script = "\n".join(map(str, fewer))
        pytest.fail(f"seed {seed}, after these calls on an empty tree:\n{script}\n{difference}")


class Forgetful(Side):
    """Says that a directory was made mode and all, and leaves the sticky bit away."""

    def ask(self, call: Call) -> tuple[Blotted, str]:
        if call.method == "mkdirs":
            request = pb.MkdirsRequestProto()
            request.CopyFrom(call.request)
            request.masked.perm &= 0o777
            call = call._replace(request=request)
        return super().ask(call)


class Lenient(Side):
    """Lets everybody do what one of them may."""

    def ask(self, call: Call) -> tuple[Blotted, str]:
        return super().ask(call._replace(user=SUPERUSER) if call.method == "rename2" else call)


@pytest.mark.parametrize("wrong", [Forgetful, Lenient])
def test_a_mistake_is_found(addresses: tuple[str, str], wrong: type[Side]) -> None:
    """Within four seeds, and made short."""
    pair = Pair(wrong(addresses[0]), Side(addresses[1]))
    try:
        for seed in range(4):
            pair.sums = not has_snapshots(seed)
            asked = list(calls(seed, CALLS))
            if pair.first_difference(asked) is not None:
                fewer, _ = pair.shrunk(asked)
                assert len(fewer) < 20
                return
    finally:
        pair.close()
    raise AssertionError("four seeds saw nothing")
