import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.protocol.SnapshotDiffReportListing;
import org.apache.hadoop.hdfs.web.WebHdfsFileSystem;
import org.apache.hadoop.util.Tool;

/**
 * What no shell command asks over WebHDFS: WebHdfsCalls WEBHDFS-URL OLDER NEWER, a directory with
 * two snapshots and a file `f` in it. One line an answer; a failure tells its class.
 */
public final class WebHdfsCalls extends Configured implements Tool {
    @Override
    public int run(String[] words) throws Exception {
        Path path = new Path(words[0]);
        Path file = new Path(path, "f");
        String plain = path.toUri().getPath();
        WebHdfsFileSystem files = (WebHdfsFileSystem) path.getFileSystem(getConf());
        tell("snapshottable", () -> Arrays.stream(files.getSnapshottableDirectoryList())
            .map(one -> one.getFullPath() + " " + one.getSnapshotNumber()).sorted()
            .filter(one -> one.startsWith(plain + " ")).collect(Collectors.joining(";")));
        tell("snapshots", () -> Arrays.stream(files.getSnapshotListing(path))
            .map(one -> one.getFullPath() + " " + one.isDeleted())
            .collect(Collectors.joining(";")));
        tell("difference", () -> files.getSnapshotDiffReport(path, words[1], words[2])
            .getDiffList().stream().map(Object::toString).sorted()
            .collect(Collectors.joining(";")));
        tell("listing", () -> {
            SnapshotDiffReportListing part =
                files.getSnapshotDiffReportListing(plain, words[1], words[2], new byte[0], -1);
            return part.getCreateList().size() + " " + part.getDeleteList().size() + " "
                + part.getModifyList().size() + " " + part.getLastIndex() + " "
                + part.getIsFromEarlier();
        });
        tell("policies", () -> files.getAllStoragePolicies().stream()
            .map(one -> one.getName() + Arrays.toString(one.getStorageTypes()))
            .collect(Collectors.joining(";")));
        tell("policy", () -> files.getStoragePolicy(file).getName());
        tell("trash", () -> files.getTrashRoots(false).stream().map(FileStatus::getPath)
            .map(one -> one.toUri().getPath()).collect(Collectors.joining(";")));
        tell("token", () -> files.getDelegationToken("renewer"));
        tell("attributes", () -> files.getXAttrs(file, List.of("user.a", "user.b")).keySet()
            .stream().sorted().collect(Collectors.joining(";")));
        tell("locations", () -> files.getFileBlockLocations(file, 0, 10).length);
        tell("defaults", () -> files.getServerDefaults().getBlockSize());
        tell("status", () -> files.getStatus(path).getCapacity() > 0);
        tell("codecs", () -> files.getAllErasureCodingCodecs().size());
        tell("ec policies", () -> files.getAllErasureCodingPolicies().size());
        tell("ec policy", () -> files.getErasureCodingPolicy(file));
        return 0;
    }

    private static void tell(String what, Callable<Object> ask) {
        try {
            System.out.println(what + ": " + ask.call());
        } catch (Exception refused) {
            System.out.println(what + ": " + refused.getClass().getSimpleName());
        }
    }
}
