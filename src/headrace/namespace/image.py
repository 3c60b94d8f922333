"""The checkpoint's format: a whole namespace as bytes, and back.

    file     = "HRIMAGE1" section*
    section  = length u32 · crc32c u32 · Section (protobuf), big-endian

Owns: what is written and in which order: header, directories, files (both in columns, because
there may be millions), rarer features, snapshots and what they keep, the retry cache, and an end
that counts them. Must not know: files' names, processes.

Invariants (D13): read(write(ns)) equals ns in all that the journal preserves; a file that is cut
off, padded or flipped anywhere is refused, never half believed.
"""

from collections.abc import Iterator
from itertools import islice
from struct import Struct

from headrace.base.crc32c import crc32c
from headrace.base.errors import HeadraceError
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.edits import RetryEntry
from headrace.namespace.filesystem import Namespace, all_blocks
from headrace.namespace.image_rare import (
    caching_message,
    inode_message,
    is_rare,
    rare_message,
    restore_caching,
    restore_rare,
    restored_inode,
)
from headrace.namespace.inodes import (
    Access,
    DirectoryInode,
    FileInode,
    Inode,
    SavedState,
    Snapshot,
    SymlinkInode,
)
from headrace.namespace.protos import image_pb2 as pb
from headrace.namespace.settings import NamespaceSettings

MAGIC = b"HRIMAGE1"
VERSION = 1
_FRAME = Struct(">II")
_CHUNK = 10_000


class ImageError(HeadraceError):
    """These bytes are no whole checkpoint."""


# -- writing ------------------------------------------------------------------------------------


def write_image(ns: Namespace) -> Iterator[bytes]:
    """The file, in pieces."""
    yield MAGIC
    count = 0
    for section in _sections(ns):
        count += 1
        yield _framed(section)
    end = pb.End(section_count=count, inode_count=len(ns.inodes), block_count=len(ns.blocks))
    yield _framed(pb.Section(end=end))


def _framed(section: pb.Section) -> bytes:
    body = section.SerializeToString()
    return _FRAME.pack(len(body), crc32c(body)) + body


class _AccessTable:
    def __init__(self) -> None:
        self.indexes: dict[Access, int] = {}

    def index(self, access: Access) -> int:
        return self.indexes.setdefault(access, len(self.indexes))


def _all_states(ns: Namespace) -> Iterator[Inode]:
    for inode in (*ns.inodes.values(), *ns.detached.values()):
        yield inode
        for saved in inode.saved:
            yield saved.state


def _sections(ns: Namespace) -> Iterator[pb.Section]:
    table = _AccessTable()
    for inode in _all_states(ns):
        table.index(inode.access)
    yield pb.Section(header=_header(ns, table))
    yield _snapshot_section(ns)
    directories = (i for i in ns.inodes.values() if isinstance(i, DirectoryInode) and i.parent)
    while chunk := list(islice(directories, _CHUNK)):
        yield pb.Section(directories=_directories(chunk, table))
    files = (i for i in ns.inodes.values() if isinstance(i, FileInode))
    while some := list(islice(files, _CHUNK)):
        yield pb.Section(files=_files(some, table))
    if ns.caching.pools or ns.caching.last_directive_id:
        yield pb.Section(caching=caching_message(ns.caching))
    if ns.saved_ids or ns.detached or _has_cuts_by_copy(ns):
        yield from _kept_by_snapshots(ns, table)
    rare = (i for i in ns.inodes.values() if is_rare(i))
    while rares := list(islice(rare, _CHUNK)):
        messages = [rare_message(inode, table.index) for inode in rares]
        yield pb.Section(rare=pb.Rare(inodes=messages))
    for inode_id in sorted(ns.saved_ids):
        yield _saved_section(ns.inodes.get(inode_id) or ns.detached[inode_id], table)
    retries = iter(ns.retry_cache.items())
    while entries := list(islice(retries, _CHUNK)):
        yield pb.Section(
            retries=pb.Retries(
                entries=[
                    pb.RetryEntry(
                        client_id=key[0],
                        call_id=key[1],
                        request=entry.request,
                        time_ms=entry.time_ms,
                        result=entry.result,
                    )
                    for key, entry in entries
                ]
            )
        )


def _header(ns: Namespace, table: _AccessTable) -> pb.Header:
    root = ns.root
    return pb.Header(
        version=VERSION,
        last_offset=ns.last_offset,
        namespace_id=ns.namespace_id,
        cluster_id=ns.cluster_id,
        pool_id=ns.pool_id,
        c_time_ms=ns.c_time_ms,
        last_inode_id=ns.last_inode_id,
        last_block_id=ns.last_block_id,
        generation_stamp=ns.generation_stamp,
        last_snapshot_id=ns.last_snapshot_id,
        accesses=[pb.Access(owner=a.owner, group=a.group, mode=a.mode) for a in table.indexes],
        inode_count=len(ns.inodes),
        block_count=len(ns.blocks),
        root=pb.Directories(
            access=[table.index(root.access)], modification_time_ms=[root.modification_time_ms]
        ),
        newest_id=ns.newest_id,
        resumable=[
            pb.Resumable(inode_id=inode_id, client_name=client_name)
            for inode_id, client_name in ns.leases.resumable.items()
        ],
    )


def _snapshot_section(ns: Namespace) -> pb.Section:
    entries = [
        pb.SnapshotEntry(
            snapshot_id=s.snapshot_id,
            name=s.name,
            time_ms=s.time_ms,
            inode_id_bound=s.inode_id_bound,
        )
        for s in ns.snapshots.values()
    ]
    return pb.Section(snapshots=pb.Snapshots(entries=entries))


def _directories(chunk: list[DirectoryInode], table: _AccessTable) -> pb.Directories:
    return pb.Directories(
        inode_id=[d.inode_id for d in chunk],
        parent_id=[d.parent.inode_id for d in chunk if d.parent is not None],
        name=[d.name for d in chunk],
        access=[table.index(d.access) for d in chunk],
        modification_time_ms=[d.modification_time_ms for d in chunk],
    )


def _files(chunk: list[FileInode], table: _AccessTable) -> pb.Files:
    blocks = [block for file in chunk for block in file.blocks]
    return pb.Files(
        inode_id=[f.inode_id for f in chunk],
        parent_id=[f.parent.inode_id for f in chunk if f.parent is not None],
        name=[f.name for f in chunk],
        access=[table.index(f.access) for f in chunk],
        modification_time_ms=[f.modification_time_ms for f in chunk],
        access_time_ms=[f.access_time_ms for f in chunk],
        replication=[f.replication for f in chunk],
        block_size=[f.block_size for f in chunk],
        block_count=[len(f.blocks) for f in chunk],
        block_id=[b.block_id for b in blocks],
        generation_stamp=[b.generation_stamp for b in blocks],
        num_bytes=[b.num_bytes for b in blocks],
    )


def _has_cuts_by_copy(ns: Namespace) -> bool:
    leases = ns.leases.by_holder.values()
    open_files = (ns.inodes.get(inode_id) for lease in leases for inode_id in lease.files)
    return any(isinstance(i, FileInode) and _being_copied(ns, i, []) for i in open_files)


def _being_copied(ns: Namespace, file: FileInode, known: list[BlockInfo]) -> list[BlockInfo]:
    """The source of a cut's shorter copy: no snapshot may have it any more."""
    last = file.blocks[-1] if file.blocks else None
    if last is None or last.uc is None:
        return []
    source = ns.blocks.get(last.uc.truncate_block_id)
    return [] if source is None or source in known else [source]


def _kept_by_snapshots(ns: Namespace, table: _AccessTable) -> Iterator[pb.Section]:
    loose = pb.LooseBlocks()
    for inode in (*ns.inodes.values(), *ns.detached.values()):
        if not isinstance(inode, FileInode):
            continue
        is_live = inode.inode_id in ns.inodes
        known = all_blocks(inode) if inode.saved or not is_live else []
        for block in (*known, *_being_copied(ns, inode, known)):
            if not is_live or block not in inode.blocks:
                loose.block_id.append(block.block_id)
                loose.generation_stamp.append(block.generation_stamp)
                loose.num_bytes.append(block.num_bytes)
                loose.inode_id.append(inode.inode_id)
    detached = [inode_message(inode, table.index) for inode in ns.detached.values()]
    yield pb.Section(detached=pb.Detached(inodes=detached))
    yield pb.Section(loose_blocks=loose)


def _saved_section(inode: Inode, table: _AccessTable) -> pb.Section:
    return pb.Section(
        saved=pb.SavedStates(
            inode_id=inode.inode_id,
            snapshot_ids=[saved.snapshot_id for saved in inode.saved],
            states=[inode_message(saved.state, table.index) for saved in inode.saved],
        )
    )


# -- reading ------------------------------------------------------------------------------------


def read_sections(data: memoryview) -> Iterator[pb.Section]:
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise ImageError("not a checkpoint of ours")
    position, count = len(MAGIC), 0
    while True:
        if len(data) - position < _FRAME.size:
            raise ImageError(f"cut off at byte {position}")
        length, checksum = _FRAME.unpack_from(data, position)
        body = data[position + _FRAME.size : position + _FRAME.size + length]
        if len(body) < length:
            raise ImageError(f"cut off at byte {position}")
        if crc32c(body) != checksum:
            raise ImageError(f"the section at byte {position} fails its checksum")
        position += _FRAME.size + length
        section = pb.Section.FromString(bytes(body))
        if section.WhichOneof("content") == "end":
            if section.end.section_count != count or position != len(data):
                raise ImageError("the end does not match what came before")
            yield section
            return
        count += 1
        yield section


def read_image(data: memoryview, settings: NamespaceSettings) -> Namespace:
    """A namespace from a whole checkpoint. ImageError, and nothing else, if it is not one."""
    loader = _Loader(settings)
    try:
        for section in read_sections(data):
            name = section.WhichOneof("content")
            assert name is not None
            getattr(loader, f"on_{name}")(getattr(section, name))
    except (KeyError, IndexError, ValueError, AssertionError) as error:
        raise ImageError(f"a checkpoint that contradicts itself: {error!r}") from error
    return loader.ns


class _Loader:
    def __init__(self, settings: NamespaceSettings) -> None:
        self.ns = Namespace(settings)
        self._accesses: list[Access] = []
        self._orphans: list[tuple[DirectoryInode, int]] = []
        self._unfinished: list[tuple[Inode, pb.Inode]] = []

    def on_header(self, header: pb.Header) -> None:
        if header.version != VERSION:
            raise ImageError(f"version {header.version}; this software reads {VERSION}")
        ns = self.ns
        ns.last_offset = header.last_offset
        ns.namespace_id = header.namespace_id
        ns.cluster_id = header.cluster_id
        ns.pool_id = header.pool_id
        ns.c_time_ms = header.c_time_ms
        ns.last_inode_id = header.last_inode_id
        ns.last_block_id = header.last_block_id
        ns.generation_stamp = header.generation_stamp
        ns.last_snapshot_id = header.last_snapshot_id
        ns.newest_id = header.newest_id
        for entry in header.resumable:
            ns.leases.let_resume(entry.client_name, entry.inode_id)
        self._accesses = [ns.access(a.owner, a.group, a.mode) for a in header.accesses]
        ns.root.access = self._accesses[header.root.access[0]]
        ns.root.modification_time_ms = header.root.modification_time_ms[0]

    def on_snapshots(self, snapshots: pb.Snapshots) -> None:
        for entry in snapshots.entries:
            self.ns.snapshots[entry.snapshot_id] = Snapshot(
                entry.snapshot_id, entry.name, entry.time_ms, entry.inode_id_bound
            )

    def on_directories(self, chunk: pb.Directories) -> None:
        inodes, accesses = self.ns.inodes, self._accesses
        for inode_id, parent_id, name, access, time_ms in zip(
            chunk.inode_id,
            chunk.parent_id,
            chunk.name,
            chunk.access,
            chunk.modification_time_ms,
            strict=True,
        ):
            directory = DirectoryInode(inode_id, name, accesses[access], time_ms)
            inodes[inode_id] = directory
            self._orphans.append((directory, parent_id))

    def _adopt(self) -> None:
        """A parent may have come after its child: directories are linked when all are there."""
        for directory, parent_id in self._orphans:
            self.ns.directory(parent_id).add(directory)
        self._orphans.clear()

    def on_files(self, chunk: pb.Files) -> None:
        self._adopt()
        ns = self.ns
        inodes, blocks, accesses = ns.inodes, ns.blocks, self._accesses
        triples = zip(chunk.block_id, chunk.generation_stamp, chunk.num_bytes, strict=True)
        for inode_id, parent_id, name, access, mtime, atime, replication, size, count in zip(
            chunk.inode_id,
            chunk.parent_id,
            chunk.name,
            chunk.access,
            chunk.modification_time_ms,
            chunk.access_time_ms,
            chunk.replication,
            chunk.block_size,
            chunk.block_count,
            strict=True,
        ):
            # Equal times share one object, as they do after a replay.
            shared = mtime if mtime == atime else atime
            file = FileInode(
                inode_id,
                name,
                accesses[access],
                mtime,
                shared,
                replication,
                ns.block_size(size),
            )
            if count:
                own = tuple(
                    BlockInfo(block_id, stamp, num_bytes, file)
                    for block_id, stamp, num_bytes in islice(triples, count)
                )
                file.blocks = own
                for block in own:
                    blocks[block.block_id] = block
            inodes[inode_id] = file
            ns.directory(parent_id).add(file)

    def on_detached(self, detached: pb.Detached) -> None:
        self._adopt()
        for message in detached.inodes:
            inode = restored_inode(message, self._accesses)
            self.ns.detached[inode.inode_id] = inode
            self._unfinished.append((inode, message))

    def on_loose_blocks(self, loose: pb.LooseBlocks) -> None:
        for block_id, stamp, size, inode_id in zip(
            loose.block_id, loose.generation_stamp, loose.num_bytes, loose.inode_id, strict=True
        ):
            file = self._any(inode_id)
            assert isinstance(file, FileInode)
            self.ns.blocks[block_id] = BlockInfo(block_id, stamp, size, file)

    def on_rare(self, rare: pb.Rare) -> None:
        self._adopt()
        for message in rare.inodes:
            if message.HasField("symlink"):
                link = restored_inode(message.symlink, self._accesses)
                assert isinstance(link, SymlinkInode)
                self.ns.inodes[link.inode_id] = link
                self.ns.directory(message.symlink.parent_id).add(link)
            restore_rare(self.ns, self.ns.inodes[message.inode_id], message)

    def on_saved(self, saved: pb.SavedStates) -> None:
        states = []
        for snapshot_id, message in zip(saved.snapshot_ids, saved.states, strict=True):
            state = restored_inode(message, self._accesses)
            self._unfinished.append((state, message))
            states.append(SavedState(snapshot_id, state))
        self._any(saved.inode_id).with_features().saved = tuple(states)
        self.ns.saved_ids.add(saved.inode_id)

    def on_caching(self, caching: pb.Caching) -> None:
        restore_caching(self.ns.caching, caching)

    def on_retries(self, retries: pb.Retries) -> None:
        for entry in retries.entries:
            key = (entry.client_id, entry.call_id)
            self.ns.retry_cache.put(key, RetryEntry(entry.request, entry.time_ms, entry.result))

    def on_end(self, end: pb.End) -> None:
        self._adopt()
        for inode, message in self._unfinished:
            self._finish(inode, message)
        ns = self.ns
        if end.inode_count != len(ns.inodes) or end.block_count != len(ns.blocks):
            raise ImageError(
                f"{len(ns.inodes)} inodes and {len(ns.blocks)} blocks; "
                f"{end.inode_count} and {end.block_count} were written"
            )

    def _finish(self, inode: Inode, message: pb.Inode) -> None:
        """What only snapshots see, once everything that it names is there."""
        ns = self.ns
        parent = ns.inodes.get(message.parent_id) or ns.detached.get(message.parent_id)
        if isinstance(parent, DirectoryInode):
            inode.parent = parent
        if isinstance(inode, DirectoryInode):
            inode.children = {
                name: self._any(inode_id)
                for name, inode_id in zip(message.child_names, message.child_ids, strict=True)
            }
        elif isinstance(inode, FileInode):
            inode.blocks = tuple(ns.blocks[block_id] for block_id in message.block_ids)
        saved = inode.saved
        restore_rare(ns, inode, message.rare, is_live=False)
        if saved:
            inode.with_features().saved = saved

    def _any(self, inode_id: int) -> Inode:
        found = self.ns.inodes.get(inode_id) or self.ns.detached.get(inode_id)
        if found is None:
            raise KeyError(inode_id)
        return found
