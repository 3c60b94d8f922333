"""Random calls of writers and readers, by seed: what Hadoop's client is told to do, and ours.

Owns: which calls a seed is (`calls_of`). Must not know: who makes them, and what a right answer is;
two file systems are asked the same, and whoever asks compares (`test_byte_differences`).

A call is a line of words. The generator keeps a rough picture of files and lengths, so that most
calls find what they name and positions lie near the places where something could go wrong; where a
call was refused the picture is wrong, and the calls that follow it are refused too.
"""

import random
from dataclasses import dataclass

BLOCK = 1 << 20

CLIENTS = {
    "plain": {},
    "sums": {"dfs.checksum.combine.mode": "COMPOSITE_CRC"},
    "crc32": {"dfs.checksum.type": "CRC32"},
    "fine": {"dfs.bytes-per-checksum": "16", "dfs.client-write-packet-size": "1000"},
    "coarse": {"dfs.bytes-per-checksum": "4096", "dfs.checksum.type": "CRC32"},
    "unsummed": {"dfs.checksum.type": "NULL"},
    "tiny": {"dfs.client-write-packet-size": "16"},
    "huge": {"dfs.client-write-packet-size": "8388608", "dfs.bytes-per-checksum": "65536"},
    "hedged": {
        "dfs.client.hedged.read.threadpool.size": "4",
        "dfs.client.hedged.read.threshold.millis": "1",
    },
    "near": {
        "dfs.client.read.shortcircuit": "true",
        "dfs.domain.socket.path": "/nowhere/socket",
        "dfs.client.read.use.cache.priority": "true",
    },
    "never": {"dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER"},
    "second": {},
    "lost": {},
}
"""By their settings. `sums` reads checksums in the mode that does not depend on blocks; `lost` ends
without closing its files."""

WRITING = (
    *("plain", "plain", "crc32", "fine", "coarse", "unsummed", "tiny", "huge", "never", "lost"),
    *("web", "native"),
)
READING = ("plain", "plain", "second", "hedged", "near", "unsummed", "web", "native")
AT_ONCE = ("web", "native")
"""They send a whole file, or the whole end of one, in a call."""
SIZES = (0, 1, 15, 16, 17, 511, 512, 513, 1000, 4095, 4096, 4097, 65535, 65536, 65537, 300_001)
LARGE = (BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 513)
PIECES = (7, 512, 513, 4096, 100_000, 1 << 22)
OPTIONS = ("-", "-", "CRC32/512", "CRC32C/16", "CRC32/4096", "CRC32C/512", "CRC32C/1024")
EXTRA_FLAGS = ("SYNC_BLOCK", "LAZY_PERSIST", "NO_LOCAL_WRITE", "IGNORE_CLIENT_LOCALITY")


def client_lines(prefix: str, url: str, http_address: str) -> list[str]:
    common = {"dfs.blocksize": str(BLOCK), "dfs.replication": "3"}
    lines = [f"client {prefix}web webhdfs://{http_address} {_words(common)}"]
    for name, own in CLIENTS.items():
        lines.append(f"client {prefix}{name} {url} {_words({**common, **own})}")
    return lines


def _words(settings: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())


def chunk_of(client: str) -> int:
    """Bytes per checksum of what it writes."""
    name = client.rpartition(".")[2]
    return int(CLIENTS.get(name, {}).get("dfs.bytes-per-checksum", "512"))


@dataclass(slots=True)
class Picture:
    """What the generator believes of a file."""

    size: int = 0
    writer: str = ""
    holder: str = ""
    block_size: int = BLOCK
    chunk: int = 512
    """Bytes per checksum, which an append must keep; 0: blocks differ."""
    is_lazy: bool = False
    is_unsummed: bool = False
    """Some block may have no checksums."""

    def takes(self, client: str) -> bool:
        """An append to its last block succeeds, or fails, on both file systems."""
        is_fit = chunk_of(client) == self.chunk
        return is_fit and (not self.is_unsummed or client.endswith("unsummed"))


class Calls:
    """The calls of one seed, as they are chosen."""

    def __init__(self, seed: int, count: int) -> None:
        self.seed = seed
        self.count = count
        self.random = random.Random(seed)
        self.root = f"/seed-{seed}"
        self.lines: list[str] = []
        self.files: dict[str, Picture] = {}
        self.readers: dict[str, str] = {}
        self.snapshots: list[tuple[str, set[str]]] = []
        """Names, and which files were open then: on Apache's their copies grow with them."""
        self.writers = 0
        self.has_quota = False
        self.has_snapshots = seed % 2 == 0
        """Else quotas: what they count of snapshots is not what Apache's does."""

    def say(self, *words: object) -> None:
        self.lines.append(" ".join(map(str, words)))

    def client(self, names: tuple[str, ...]) -> str:
        return f"s{self.seed}." + self.random.choice(names)

    @property
    def plain(self) -> str:
        return f"s{self.seed}.plain"

    @property
    def sums(self) -> str:
        return f"s{self.seed}.sums"

    def run(self) -> list[str]:
        self.say("mkdirs", self.plain, self.root)
        self.say("mkdirs", self.plain, f"{self.root}/d")
        self.say("allow", self.plain, self.root)
        for way in self.random.choices(list(WAYS), list(WAYS.values()), k=self.count):
            way(self)
        self.finish()
        return self.lines

    # -- choices -----------------------------------------------------------------------------

    def size(self) -> int:
        if self.random.random() < 0.2:
            return self.random.choice(LARGE)
        if self.random.random() < 0.3:
            return self.random.randrange(1, 200_000)
        return self.random.choice(SIZES)

    def position(self, size: int) -> int:
        """Near an end of a chunk, a block or the file, or anywhere; at times beyond."""
        near = self.random.choice((0, 512, 4096, 65536, BLOCK, 2 * BLOCK, size, size, size // 2))
        at = near + self.random.choice((-513, -512, -1, 0, 0, 1, 511, 512))
        if self.random.random() < 0.15:
            at = self.random.randrange(size + 2)
        return max(0, min(at, size + 1))

    def a_file(self, is_open: bool | None = None) -> str | None:
        names = [
            name
            for name, one in self.files.items()
            if is_open is None or bool(one.writer) == is_open
        ]
        return self.random.choice(names) if names else None

    def new_name(self) -> str:
        folder = self.random.choice((self.root, self.root, f"{self.root}/d"))
        return f"{folder}/f{self.random.randrange(6)}"

    # -- writers -----------------------------------------------------------------------------

    def create(self) -> None:
        name = self.new_name()
        client = self.client(WRITING)
        known = self.files.get(name)
        flags = ["CREATE"]
        # Without OVERWRITE a file that another writes is asked for again for minutes.
        if known is not None and self.has_quota:
            # Refused by a quota, Apache's has deleted the old file by then, and ours has not.
            return
        is_open = known is not None and bool(known.writer)
        if is_open or self.random.random() < 0.7:
            flags.append("OVERWRITE")
        if self.random.random() < 0.25 and not client.endswith(AT_ONCE):
            flags.append(self.random.choice(EXTRA_FLAGS))
        replication = self.random.choice((3, 3, 3, 1, 2))
        block_size = self.random.choice((BLOCK, BLOCK, BLOCK, 2 * BLOCK, 1536 * 1024))
        option = self.random.choice(OPTIONS)
        favored = self.random.choice(("-",) * 8 + ("1", "3", "strangers"))
        if client.endswith(AT_ONCE):
            option = favored = "-"
            flags = [flag for flag in flags if flag not in EXTRA_FLAGS]
        if favored != "-" or (option != "-" and block_size % int(option.split("/")[1])):
            option = "-"
        if favored != "-":
            flags = ["CREATE", "OVERWRITE"]
        self.writers += 1
        writer = f"s{self.seed}.w{self.writers}"
        self.say(
            *("create", writer, client, name, ",".join(flags), replication, block_size),
            *(option, favored),
        )
        if known is None or "OVERWRITE" in flags:
            self.forget_readers(name)
            chunk = int(option.split("/")[1]) if option != "-" else chunk_of(client)
            is_lazy = "LAZY_PERSIST" in flags
            is_unsummed = client.endswith("unsummed") and option == "-"
            self.files[name] = Picture(0, writer, client, block_size, chunk, is_lazy, is_unsummed)
        else:
            return
        self.write_some(name)
        if client.endswith(AT_ONCE) or self.random.random() < 0.6:
            self.close(name)

    def write_some(self, name: str) -> None:
        one = self.files[name]
        size = self.size()
        piece = self.random.choice(PIECES)
        if one.holder.endswith(("tiny", "fine")):
            size = min(size, 40_000)
        if size // piece > 20_000:
            piece = 4096
        self.say("write", one.writer, size, self.random.randrange(1 << 30), piece)
        is_beyond = one.size // one.block_size != (one.size + size) // one.block_size
        one.size += size
        if is_beyond and not one.holder.endswith(AT_ONCE):
            # When the NameNode hears of a block's end is a matter of time.
            self.say("hflush", one.writer)

    def append(self) -> None:
        name = self.a_file(is_open=None if self.random.random() < 0.1 else False)
        if name is None:
            return
        one = self.files[name]
        client = self.client(WRITING)
        flags = self.random.choice(("APPEND", "APPEND", "APPEND,NEW_BLOCK", "APPEND,SYNC_BLOCK"))
        if client.endswith(AT_ONCE):
            flags = "APPEND"
        if one.is_lazy:
            return
        unfit = not one.takes(client) and "NEW" not in flags
        is_sure = one.chunk not in (0, chunk_of(client)) and not client.endswith(AT_ONCE)
        if unfit and (not is_sure or self.random.random() < 0.95):
            # Refused, after many seconds: seldom is enough.
            fitting = [each for each in WRITING if one.takes(each)]
            client = f"s{self.seed}.{self.random.choice(fitting or ['plain'])}"
            flags = flags if fitting else "APPEND,NEW_BLOCK"
        self.writers += 1
        writer = f"s{self.seed}.w{self.writers}"
        self.say("append", writer, client, name, flags)
        if one.writer:
            return
        if chunk_of(client) != one.chunk and "NEW" not in flags:
            # When it is told, in this call or the next, is a matter of time.
            self.say("write", writer, 100, 1, 100)
            self.say("close", writer)
            self.say("recover", f"s{self.seed}.second", name)
            self.compare(name)
            return
        one.chunk = one.chunk if chunk_of(client) == one.chunk else 0
        one.is_unsummed |= client.endswith("unsummed")
        one.writer, one.holder = writer, client
        self.write_some(name)
        if client.endswith(AT_ONCE) or self.random.random() < 0.6:
            self.close(name)

    def go_on(self) -> None:
        name = self.a_file(is_open=True)
        if name is not None:
            self.write_some(name)

    def flush(self) -> None:
        name = self.a_file(is_open=True)
        if name is None:
            return
        one = self.files[name]
        if one.holder.endswith(AT_ONCE):
            return
        if self.random.random() < 0.5:
            self.write_some(name)
        if self.random.random() < 0.5:
            self.say("hflush", one.writer)
        else:
            flags = ("-", "UPDATE_LENGTH", "END_BLOCK", "UPDATE_LENGTH,END_BLOCK")
            self.say("hsync", one.writer, self.random.choice(flags))
        self.say("visible", self.client(("plain", "second", "near")), name)
        self.say("stat", self.plain, name)
        if self.random.random() < 0.7:
            self.look_at(name)

    def close(self, name: str | None = None) -> None:
        name = name or self.a_file(is_open=True)
        if name is None:
            return
        one = self.files[name]
        self.say("close", one.writer)
        if self.random.random() < 0.1:
            self.say("close", one.writer)
        if self.random.random() < 0.1:
            self.say("write", one.writer, 10, 1, 10)
        one.writer = ""
        self.say("stat", self.plain, name)
        if self.random.random() < 0.5:
            self.compare(name)

    def second_writer(self) -> None:
        name = self.a_file(is_open=True)
        if name is None:
            return
        kind = self.random.randrange(4)
        if kind == 0:
            self.say("append", f"s{self.seed}.none", f"s{self.seed}.second", name, "APPEND")
        elif kind == 1:
            flags = self.random.choice(("CREATE", "CREATE", "APPEND", "CREATE,APPEND"))
            self.say("rawcreate", f"s{self.seed}.second", name, flags)
        elif kind == 2 and not self.files[name].is_lazy:
            self.say("truncate", f"s{self.seed}.second", name, self.files[name].size // 2)
        else:
            self.say("concat", self.plain, name, f"{self.root}/f0")

    def recover(self) -> None:
        name = self.a_file(is_open=None if self.random.random() < 0.1 else True)
        if name is None:
            return
        one = self.files[name]
        if one.writer and not one.holder.endswith(AT_ONCE) and self.random.random() < 0.7:
            # What has not been flushed may or may not be there.
            self.say("hflush", one.writer)
        elif one.writer:
            return
        self.say("recover", f"s{self.seed}.second", name)
        self.say("stat", self.plain, name)
        self.compare(name)
        if one.writer:
            self.say("write", one.writer, 1000, 5, 1000)
            self.say(self.random.choice(("hflush", "close")), one.writer)
        one.writer = ""

    def lose(self) -> None:
        """A client goes: what its writers flushed is what stays."""
        mine = [each for each, one in self.files.items() if one.holder.endswith("lost")]
        mine = [each for each in mine if self.files[each].writer]
        for name in mine:
            self.write_some(name)
            self.say("hflush", self.files[name].writer)
        if mine:
            self.say("abort", f"s{self.seed}.lost")
        for name in mine:
            self.files[name].writer = ""
            self.say("recover", f"s{self.seed}.second", name)
            self.compare(name)

    # -- changes of whole files --------------------------------------------------------------

    def truncate(self) -> None:
        name = self.a_file(is_open=None if self.random.random() < 0.05 else False)
        if name is None or self.files[name].is_lazy:
            return
        one = self.files[name]
        size = self.position(one.size)
        if self.random.random() < 0.2:
            size = one.block_size * self.random.randrange(3)
        self.forget_readers(name)
        self.say("truncate", self.client(("plain", "second", "web")), name, size)
        if not one.writer:
            self.say("settle", self.plain, name)
            one.size = min(one.size, size)
            self.say("stat", self.plain, name)
            self.compare(name)

    def concat(self) -> None:
        names = [name for name, one in self.files.items() if not one.writer]
        if len(names) < 2:
            return
        chosen = self.random.sample(names, self.random.randrange(2, min(4, len(names)) + 1))
        client = self.client(("plain", "web"))
        self.say("concat", client, chosen[0], ",".join(chosen[1:]))
        self.say("list", self.plain, self.root)
        self.say("list", self.plain, f"{self.root}/d")
        self.compare(chosen[0])
        folders = {name.rpartition("/")[0] for name in chosen}
        if len(folders) == 1:
            whole = self.files[chosen[0]]
            whole.size = sum(self.files[name].size for name in chosen)
            whole.is_unsummed = any(self.files[name].is_unsummed for name in chosen)
            whole.chunk *= len({self.files[name].chunk for name in chosen}) == 1
            for name in chosen[1:]:
                del self.files[name]

    def set_replication(self) -> None:
        name = self.a_file()
        if name is not None:
            count = self.random.choice((1, 2, 3, 3))
            self.say("setrep", self.client(("plain", "web")), name, count)
            self.say("stat", self.plain, name)
            if not self.files[name].writer:
                self.say("blocks", self.plain, name)

    def policy(self) -> None:
        name = self.a_file() or self.root
        self.say("policy", self.plain, name, self.random.choice(("HOT", "HOT", "NONE_SUCH")))

    def rename(self) -> None:
        name = self.a_file()
        target = self.new_name()
        if name is None or target == name:
            return
        verb = self.random.choice(("rename", "rename", "replace"))
        self.say(verb, self.client(("plain", "second")), name, target)
        if verb == "replace":
            self.forget_readers(target)
        if verb == "replace" or target not in self.files:
            self.files[target] = self.files.pop(name)
            self.readers = {r: target if p == name else p for r, p in self.readers.items()}
        self.say("stat", self.plain, target)
        if self.files[target].writer and self.random.random() < 0.7:
            self.write_some(target)
            if self.random.random() < 0.5:
                self.close(target)

    def delete(self) -> None:
        name = self.a_file()
        if name is None:
            return
        if self.random.random() < 0.2:
            self.say("delete", self.plain, f"{self.root}/d", "r")
            self.say("mkdirs", self.plain, f"{self.root}/d")
            gone = [each for each in self.files if each.startswith(f"{self.root}/d/")]
        else:
            self.say("delete", self.client(("plain", "web")), name, "-")
            gone = [name]
        for each in gone:
            del self.files[each]
            self.forget_readers(each)

    def snapshot(self) -> None:
        if not self.has_snapshots:
            return
        if len(self.snapshots) < 3:
            name = f"n{len(self.lines)}"
            for one in self.files.values():
                if one.writer and not one.holder.endswith(AT_ONCE):
                    # What was sent and not flushed may or may not be there.
                    self.say("hflush", one.writer)
            self.snapshots.append((name, {path for path, one in self.files.items() if one.writer}))
            self.say("snapshot", self.plain, self.root, name)
        elif self.random.random() < 0.3:
            self.say("unsnapshot", self.plain, self.root, self.snapshots.pop()[0])
        name, open_then = self.random.choice(self.snapshots)
        where = f"{self.root}/.snapshot/{name}"
        if not open_then:
            self.say("list", self.plain, where)
        known = self.a_file()
        if known is not None and known not in open_then:
            kept = where + known[len(self.root) :]
            self.say("stat", self.plain, kept)
            self.say("read", self.client(READING), kept)
            self.say("checksum", self.sums, kept, -1)

    def quota(self) -> None:
        if self.has_snapshots:
            return
        if self.has_quota:
            self.say("quota", self.plain, self.root, -1, -1)
        else:
            bytes_max = self.random.choice((1, 8 * BLOCK, 40 * BLOCK))
            self.say("quota", self.plain, self.root, self.random.choice((-1, 4, 40)), bytes_max)
        self.has_quota = not self.has_quota
        self.say("summary", self.plain, self.root)

    # -- readers -----------------------------------------------------------------------------

    def look(self) -> None:
        name = self.a_file()
        if name is not None:
            self.look_at(name)

    def look_at(self, name: str) -> None:
        size = self.files[name].size
        client = self.client(READING)
        if self.files[name].writer:
            self.say("hflush", self.files[name].writer)
        kind = self.random.randrange(6)
        if kind == 0:
            self.say("read", client, name)
        elif kind == 1:
            self.say("pread", client, name, self.position(size), max(1, self.size()))
        elif kind == 2:
            self.say("buffer", self.plain, name, self.position(size), max(1, self.size()))
        elif kind == 3:
            places = sorted({self.position(size) for _ in range(3)})
            ranges = [
                f"{at}:{min(self.random.choice((1, 600, 5000)), following - at)}"
                for at, following in zip(places, [*places[1:], size + 10_000], strict=True)
            ]
            self.say("vector", self.client(("plain", "hedged", "web")), name, ",".join(ranges))
        elif kind == 4:
            places = [self.position(size) for _ in range(4)]
            # Beyond the end of what is empty, Apache's DataNodes refuse, and our NameNode.
            self.say("seek", client if size else self.plain, name, *places)
        else:
            self.keep_reader(name)

    def keep_reader(self, name: str) -> None:
        reader = f"s{self.seed}.r{len(self.lines)}"
        self.readers[reader] = name
        self.say("open", self.client(("plain", "second", "hedged")), name, reader)
        self.say("reader", reader, "length")

    def forget_readers(self, name: str) -> None:
        """For how long blocks of a file that is gone can be read is nobody's promise."""
        self.readers = {one: path for one, path in self.readers.items() if path != name}

    def on_reader(self) -> None:
        if not self.readers:
            return
        reader = self.random.choice(list(self.readers))
        one = self.files.get(self.readers[reader])
        size = one.size if one else 1000
        if one and one.writer:
            self.say("hflush", one.writer)
        kind = self.random.randrange(6)
        if kind == 0:
            self.say("reader", reader, "read", max(1, self.size()))
        elif kind == 1:
            self.say("reader", reader, "seek", self.position(size))
        elif kind == 2:
            self.say("reader", reader, "pread", self.position(size), max(1, self.size()))
        elif kind == 3:
            self.say("reader", reader, "drain")
        elif kind == 4:
            self.say("reader", reader, "skip", self.position(size))
        else:
            self.say("reader", reader, "close")
            del self.readers[reader]

    def compare(self, name: str) -> None:
        """Everything that must be equal of a closed file."""
        self.say("blocks", self.plain, name)
        self.say("read", self.client(READING), name)
        self.say("checksum", self.plain, name, -1)
        self.say("checksum", self.sums, name, -1)
        at = self.position(self.files[name].size) if name in self.files else 1
        self.say("checksum", self.random.choice((self.plain, self.sums)), name, at)
        if self.random.random() < 0.3:
            self.say("checksum", f"s{self.seed}.web", name, -1)

    def finish(self) -> None:
        for name, one in self.files.items():
            if one.writer:
                self.say("close", one.writer)
                one.writer = ""
            self.say("recover", f"s{self.seed}.second", name)
        self.say("list", self.plain, self.root)
        self.say("list", self.plain, f"{self.root}/d")
        for name in self.files:
            self.compare(name)
        if not self.has_snapshots:
            self.say("summary", self.plain, self.root)


WAYS = {
    Calls.create: 14,
    Calls.append: 14,
    Calls.go_on: 6,
    Calls.flush: 16,
    Calls.close: 8,
    Calls.second_writer: 3,
    Calls.recover: 4,
    Calls.lose: 3,
    Calls.truncate: 8,
    Calls.concat: 4,
    Calls.set_replication: 3,
    Calls.policy: 1,
    Calls.rename: 4,
    Calls.delete: 3,
    Calls.snapshot: 4,
    Calls.quota: 1,
    Calls.look: 12,
    Calls.on_reader: 8,
}
"""How often each is chosen."""


def calls_of(seed: int, count: int) -> list[str]:
    return Calls(seed, count).run()
