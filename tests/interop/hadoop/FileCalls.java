import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.ChecksumOpt;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.NameNodeProxiesClient;
import org.apache.hadoop.hdfs.client.HdfsDataInputStream;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream.SyncFlag;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.web.WebHdfsFileSystem;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.DataChecksum;
import org.apache.hadoop.util.Tool;

/**
 * Hadoop's client, told by lines on the standard input what to do: one call a line, one line an answer.
 *
 * Clients, writers and readers have names and outlive a run: the next one goes on with them. A call
 * that is refused answers `! CLASS`, a tab, and the reason; one that does not end, `! HUNG`.
 * What the words of a line mean stands in `call`.
 */
public final class FileCalls extends Configured implements Tool {
    private static final Map<String, FileSystem> clients = new HashMap<>();
    private static final Map<String, Configuration> settings = new HashMap<>();
    private static final Map<String, FSDataOutputStream> writers = new HashMap<>();
    private static final Map<String, FSDataInputStream> readers = new HashMap<>();
    private static final ExecutorService pool = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });
    private static final int CALL_S = 45;
    private static final int SETTLE_MS = 20000;

    @Override
    public int run(String[] words) throws Exception {
        UserGroupInformation user = UserGroupInformation.getCurrentUser();
        String script = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        for (String line : script.split("\n")) {
            Future<String> answer = pool.submit(() -> user.doAs(
                (PrivilegedExceptionAction<String>) () -> call(line.split(" "))));
            String told;
            try {
                told = answer.get(CALL_S, TimeUnit.SECONDS);
            } catch (TimeoutException late) {
                answer.cancel(true);
                told = "! HUNG";
            } catch (ExecutionException failed) {
                told = refusal(failed.getCause());
            }
            System.out.println(told.replace('\n', ' '));
        }
        return 0;
    }

    private static String refusal(Throwable thrown) {
        Throwable one = thrown;
        while ((one instanceof java.lang.reflect.UndeclaredThrowableException
                || one instanceof ExecutionException) && one.getCause() != null) {
            one = one.getCause();
        }
        String name = one.getClass().getSimpleName();
        if (one instanceof RemoteException) {
            String inner = ((RemoteException) one).getClassName();
            name += ":" + inner.substring(inner.lastIndexOf('.') + 1);
        }
        String message = String.valueOf(one.getMessage()).split("\n")[0].replace('\t', ' ');
        return "! " + name + "\t" + message;
    }

    private static String call(String[] w) throws Exception {
        FileSystem fs = w.length > 1 ? clients.get(w[1]) : null;
        Path path = w.length > 2 && w[2].startsWith("/") ? new Path(w[2]) : null;
        switch (w[0]) {
            case "client": return client(w);
            case "drop": return drop(w[1]);
            case "abort": dfs(fs).getClient().closeAllFilesBeingWritten(true); return "done";
            case "create": return create(w);
            case "append": return append(w);
            case "rawcreate": return rawCreate(w);
            case "write": return write(w);
            case "hflush": writer(w[1]).hflush(); return "done";
            case "hsync": return hsync(w);
            case "close": writer(w[1]).close(); return "done";
            case "written": return "" + writer(w[1]).getPos();
            case "stat": return stat(fs.getFileStatus(path));
            case "list": return list(fs.listStatus(path));
            case "summary": return summary(fs.getContentSummary(path));
            case "closed": return "" + dfs(fs).isFileClosed(path);
            case "settle": return settle(fs, path);
            case "blocks": return blocks(fs, path);
            case "visible": return visible(fs, path);
            case "read": return read(fs, path);
            case "pread": return pread(fs, path, w);
            case "buffer": return buffer(fs, path, w);
            case "vector": return vector(fs, path, w[3]);
            case "seek": return seek(fs, path, w);
            case "open": readers.put(w[3], fs.open(path)); return "done";
            case "reader": return onReader(w);
            case "checksum": return checksum(fs, path, Long.parseLong(w[3]));
            case "truncate": awaitReplicas(fs, path);
                return "" + fs.truncate(path, Long.parseLong(w[3]));
            case "concat": fs.concat(path, paths(w[3])); return "done";
            case "setrep": return "" + fs.setReplication(path, Short.parseShort(w[3]));
            case "policy": fs.setStoragePolicy(path, w[3]); return "done";
            case "rename": return "" + fs.rename(path, new Path(w[3]));
            case "replace": dfs(fs).rename(path, new Path(w[3]), Rename.OVERWRITE); return "done";
            case "delete": return "" + fs.delete(path, w[3].equals("r"));
            case "mkdirs": return "" + fs.mkdirs(path);
            case "recover": return recover(dfs(fs), path);
            case "quota": dfs(fs).setQuota(path, Long.parseLong(w[3]), Long.parseLong(w[4]));
                return "done";
            case "allow": dfs(fs).allowSnapshot(path); return "done";
            case "snapshot": fs.createSnapshot(path, w[3]); return "done";
            case "unsnapshot": fs.deleteSnapshot(path, w[3]); return "done";
            default: throw new IllegalArgumentException(w[0]);
        }
    }

    private static DistributedFileSystem dfs(FileSystem fs) {
        return (DistributedFileSystem) fs;
    }

    private static FSDataOutputStream writer(String name) throws IOException {
        FSDataOutputStream file = writers.get(name);
        if (file == null) {
            throw new IOException("no such writer");
        }
        return file;
    }

    /** client NAME URL KEY=VALUE... */
    private static String client(String[] w) throws Exception {
        Configuration conf = new Configuration();
        for (int i = 3; i < w.length; i++) {
            int equals = w[i].indexOf('=');
            conf.set(w[i].substring(0, equals), w[i].substring(equals + 1));
        }
        FileSystem fs = w[2].startsWith("webhdfs:")
            ? new WebHdfsFileSystem() : new DistributedFileSystem();
        conf.set("fs.defaultFS", w[2]);
        fs.initialize(URI.create(w[2]), conf);
        clients.put(w[1], fs);
        settings.put(w[1], conf);
        return "done";
    }

    /** Forget everything whose name begins so; writers are closed whatever they say. */
    private static String drop(String prefix) {
        for (String name : List.copyOf(readers.keySet())) {
            if (name.startsWith(prefix)) {
                try {
                    readers.remove(name).close();
                } catch (Exception ignored) {
                    // Its file may be gone.
                }
            }
        }
        writers.keySet().removeIf(name -> name.startsWith(prefix));
        for (String name : List.copyOf(clients.keySet())) {
            if (name.startsWith(prefix)) {
                try {
                    clients.remove(name).close();
                } catch (Exception ignored) {
                    // Nor can its writers be closed.
                }
            }
        }
        return "done";
    }

    private static EnumSet<CreateFlag> flags(String words) {
        EnumSet<CreateFlag> flags = EnumSet.noneOf(CreateFlag.class);
        for (String one : words.split(",")) {
            flags.add(CreateFlag.valueOf(one));
        }
        return flags;
    }

    private static ChecksumOpt option(String words) {
        if (words.equals("-")) {
            return null;
        }
        String[] parts = words.split("/");
        return new ChecksumOpt(DataChecksum.Type.valueOf(parts[0]), Integer.parseInt(parts[1]));
    }

    /** create WRITER CLIENT PATH FLAGS REPLICATION BLOCK-SIZE TYPE/BYTES|- FAVORED */
    private static String create(String[] w) throws Exception {
        FileSystem fs = clients.get(w[2]);
        Path path = new Path(w[3]);
        FsPermission permission = FsPermission.getFileDefault();
        short replication = Short.parseShort(w[5]);
        long blockSize = Long.parseLong(w[6]);
        writers.remove(w[1]);
        if (!w[8].equals("-")) {
            writers.put(w[1], dfs(fs).create(path, permission, true, 4096, replication,
                blockSize, null, favored(dfs(fs), w[8])));
        } else {
            writers.put(w[1], fs.create(path, permission, flags(w[4]), 4096, replication,
                blockSize, null, option(w[7])));
        }
        return "done";
    }

    private static InetSocketAddress[] favored(DistributedFileSystem fs, String which)
            throws Exception {
        if (which.equals("strangers")) {
            return new InetSocketAddress[] {new InetSocketAddress("127.0.0.1", 1)};
        }
        DatanodeInfo[] nodes = fs.getDataNodeStats();
        InetSocketAddress[] chosen =
            new InetSocketAddress[Math.min(Integer.parseInt(which), nodes.length)];
        for (int i = 0; i < chosen.length; i++) {
            chosen[i] = new InetSocketAddress(nodes[i].getIpAddr(), nodes[i].getXferPort());
        }
        return chosen;
    }

    /** append WRITER CLIENT PATH FLAGS */
    private static String append(String[] w) throws Exception {
        FileSystem fs = clients.get(w[2]);
        Path path = new Path(w[3]);
        writers.remove(w[1]);
        awaitReplicas(fs, path);
        writers.put(w[1], fs instanceof DistributedFileSystem
            ? dfs(fs).append(path, flags(w[4]), 4096, null) : fs.append(path, 4096));
        return "done";
    }

    /** rawcreate CLIENT PATH FLAGS: without the client's retries of a file that another writes. */
    private static String rawCreate(String[] w) throws Exception {
        Configuration conf = settings.get(w[1]);
        InetSocketAddress address = clients.get(w[1]) instanceof DistributedFileSystem
            ? new InetSocketAddress(clients.get(w[1]).getUri().getHost(),
                clients.get(w[1]).getUri().getPort()) : null;
        ClientProtocol namenode = NameNodeProxiesClient.createNonHAProxyWithClientProtocol(
            address, conf, UserGroupInformation.getCurrentUser(), false, null);
        namenode.create(w[2], FsPermission.getFileDefault(), "raw-" + w[1],
            new EnumSetWritable<>(flags(w[3]), CreateFlag.class), true, (short) 3, 1 << 20,
            CryptoProtocolVersion.supported(), null, null);
        return "done";
    }

    /** write WRITER SIZE SEED PIECE */
    private static String write(String[] w) throws Exception {
        FSDataOutputStream file = writer(w[1]);
        byte[] data = new byte[Integer.parseInt(w[2])];
        new Random(Long.parseLong(w[3])).nextBytes(data);
        int piece = Integer.parseInt(w[4]);
        for (int at = 0; at < data.length; at += piece) {
            file.write(data, at, Math.min(piece, data.length - at));
        }
        return "" + file.getPos();
    }

    /** hsync WRITER FLAGS|- */
    private static String hsync(String[] w) throws Exception {
        if (w[2].equals("-")) {
            writer(w[1]).hsync();
            return "done";
        }
        EnumSet<SyncFlag> flags = EnumSet.noneOf(SyncFlag.class);
        for (String one : w[2].split(",")) {
            flags.add(SyncFlag.valueOf(one));
        }
        ((HdfsDataOutputStream) writer(w[1])).hsync(flags);
        return "done";
    }

    private static String stat(FileStatus one) {
        return one.getPath().toUri().getPath() + " " + (one.isDirectory() ? "dir" : "file") + " "
            + one.getLen() + " x" + one.getReplication() + " " + one.getBlockSize() + " "
            + one.getPermission();
    }

    private static String list(FileStatus[] all) {
        StringBuilder told = new StringBuilder();
        for (FileStatus one : all) {
            told.append(stat(one)).append("; ");
        }
        return told.toString();
    }

    private static String summary(ContentSummary sums) {
        return sums.getLength() + " " + sums.getFileCount() + " " + sums.getDirectoryCount() + " "
            + sums.getSpaceConsumed() + " " + sums.getQuota() + " " + sums.getSpaceQuota() + " "
            + sums.getSnapshotLength() + " " + sums.getSnapshotFileCount();
    }

    private static boolean within(int limitMs, Callable<Boolean> what) throws Exception {
        long end = System.nanoTime() + limitMs * 1000000L;
        while (!what.call()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }

    private static String settle(FileSystem fs, Path path) throws Exception {
        return within(SETTLE_MS, () -> dfs(fs).isFileClosed(path)) ? "closed" : "open";
    }

    /** Offsets, lengths and replicas; those of a closed file are waited for. */
    private static String blocks(FileSystem fs, Path path) throws Exception {
        boolean closed = dfs(fs).isFileClosed(path);
        int wanted = closed ? Math.min(3, fs.getFileStatus(path).getReplication()) : 3;
        if (closed) {
            awaitReplicas(fs, path);
        }
        StringBuilder told = new StringBuilder();
        for (BlockLocation one : fs.getFileBlockLocations(path, 0, Long.MAX_VALUE)) {
            told.append(one.getOffset()).append('+').append(one.getLength()).append('x')
                .append(Math.min(hosts(one), wanted)).append(one.isCorrupt() ? "!" : "")
                .append(' ');
        }
        return told.toString();
    }

    /** A file is closed when one replica is there; who asks the others too early is refused. */
    private static void awaitReplicas(FileSystem fs, Path path) throws Exception {
        try {
            int wanted = Math.min(3, fs.getFileStatus(path).getReplication());
            within(6000, () -> Arrays.stream(fs.getFileBlockLocations(path, 0, Long.MAX_VALUE))
                .allMatch(one -> hosts(one) == wanted));
        } catch (IOException refused) {
            // The call that follows will say so.
        }
    }

    private static int hosts(BlockLocation one) {
        try {
            return one.getNames().length;
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static String visible(FileSystem fs, Path path) throws Exception {
        try (FSDataInputStream file = fs.open(path)) {
            HdfsDataInputStream in = (HdfsDataInputStream) file;
            return in.getVisibleLength() + " of " + in.getAllBlocks().size();
        }
    }

    private static String digest(byte[] data, int size) {
        CRC32 crc = new CRC32();
        crc.update(data, 0, size);
        return size + ":" + Long.toHexString(crc.getValue());
    }

    private static String drain(InputStream in) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        in.transferTo(all);
        return digest(all.toByteArray(), all.size());
    }

    private static String read(FileSystem fs, Path path) throws Exception {
        try (FSDataInputStream file = fs.open(path)) {
            return drain(file);
        }
    }

    /** pread CLIENT PATH POSITION SIZE */
    private static String pread(FileSystem fs, Path path, String[] w) throws Exception {
        try (FSDataInputStream file = fs.open(path)) {
            return preadOf(file, Long.parseLong(w[3]), Integer.parseInt(w[4]));
        }
    }

    private static String preadOf(FSDataInputStream file, long position, int size)
            throws Exception {
        byte[] data = new byte[size];
        int got = 0;
        while (got < size) {
            int more = file.read(position + got, data, got, size - got);
            if (more < 0) {
                return digest(data, got) + " end";
            }
            got += more;
        }
        return digest(data, got);
    }

    /** buffer CLIENT PATH POSITION SIZE: into a direct buffer, by position and by stream. */
    private static String buffer(FileSystem fs, Path path, String[] w) throws Exception {
        long position = Long.parseLong(w[3]);
        int size = Integer.parseInt(w[4]);
        String told = "";
        try (FSDataInputStream file = fs.open(path)) {
            ByteBuffer stream = ByteBuffer.allocateDirect(size);
            file.seek(position);
            while (stream.hasRemaining() && file.read(stream) >= 0) { }
            told += digestOf(stream);
            ByteBuffer positioned = ByteBuffer.allocateDirect(size);
            file.readFully(position, positioned);
            return told + " " + digestOf(positioned) + " " + file.getPos();
        } catch (EOFException | UnsupportedOperationException short_) {
            return told + " " + short_.getClass().getSimpleName();
        }
    }

    private static String digestOf(ByteBuffer buffer) {
        buffer.flip();
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return digest(data, data.length);
    }

    /** vector CLIENT PATH POSITION:SIZE,... */
    private static String vector(FileSystem fs, Path path, String words) throws Exception {
        List<FileRange> ranges = new ArrayList<>();
        for (String one : words.split(",")) {
            String[] parts = one.split(":");
            ranges.add(FileRange.createFileRange(
                Long.parseLong(parts[0]), Integer.parseInt(parts[1])));
        }
        StringBuilder told = new StringBuilder();
        try (FSDataInputStream file = fs.open(path)) {
            file.readVectored(ranges, ByteBuffer::allocate);
            for (FileRange range : ranges) {
                ByteBuffer data = range.getData().get(30, TimeUnit.SECONDS).duplicate();
                byte[] copy = new byte[data.remaining()];
                data.get(copy);
                told.append(digest(copy, copy.length)).append(' ');
            }
        }
        return told.toString();
    }

    /** seek CLIENT PATH POSITION... : to each, and read some there. */
    private static String seek(FileSystem fs, Path path, String[] w) throws Exception {
        StringBuilder told = new StringBuilder();
        try (FSDataInputStream file = fs.open(path)) {
            for (int i = 3; i < w.length; i++) {
                file.seek(Long.parseLong(w[i]));
                byte[] data = new byte[3000];
                int got = file.readNBytes(data, 0, data.length);
                told.append(digest(data, got)).append('@').append(file.getPos()).append(' ');
            }
        }
        return told.toString();
    }

    /** reader NAME read|seek|skip|pread|drain|close|length|available ARGUMENTS */
    private static String onReader(String[] w) throws Exception {
        FSDataInputStream file = readers.get(w[1]);
        if (file == null) {
            throw new IOException("no such reader");
        }
        switch (w[2]) {
            case "read": {
                byte[] data = new byte[Integer.parseInt(w[3])];
                return digest(data, file.readNBytes(data, 0, data.length));
            }
            case "seek": file.seek(Long.parseLong(w[3])); return "" + file.getPos();
            case "skip": return "" + file.skip(Long.parseLong(w[3]));
            case "pread": return preadOf(file, Long.parseLong(w[3]), Integer.parseInt(w[4]));
            case "drain": return drain(file);
            case "length": return "" + ((HdfsDataInputStream) file).getVisibleLength();
            case "available": return "" + file.available();
            default: file.close(); return "done";
        }
    }

    private static String checksum(FileSystem fs, Path path, long length) throws Exception {
        FileChecksum sum = length < 0 ? fs.getFileChecksum(path)
            : dfs(fs).getFileChecksum(path, length);
        return sum == null ? "none" : sum.toString();
    }

    private static Path[] paths(String words) {
        return Arrays.stream(words.split(",")).map(Path::new).toArray(Path[]::new);
    }

    private static String recover(DistributedFileSystem fs, Path path) throws Exception {
        boolean first = fs.recoverLease(path);
        return first + " " + settle(fs, path);
    }
}
