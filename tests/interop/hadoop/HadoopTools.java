import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.tools.DFSck;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.ExitUtil;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * One resident JVM that runs the command-line tools of Apache Hadoop one after the other.
 *
 * Request  (stdin):  int32 count, count x (int32 size, UTF-8): user (or
 *                    real user > effective user), tool class, arguments;
 *                    int32 size, bytes: what the tool reads from its standard input.
 * Response (stdout): int32 exit status; int32 size, bytes: stdout; int32 size, bytes: stderr.
 */
public final class HadoopTools {
    public static void main(String[] ignored) throws IOException {
        DataInputStream requests = new DataInputStream(new FileInputStream(FileDescriptor.in));
        DataOutputStream responses =
            new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        ExitUtil.disableSystemExit();
        while (serveOne(requests, responses)) { }
        Runtime.getRuntime().halt(0);
    }

    private static boolean serveOne(DataInputStream requests, DataOutputStream responses)
            throws IOException {
        int count;
        try {
            count = requests.readInt();
        } catch (EOFException closed) {
            return false;
        }
        String[] words = new String[count];
        for (int i = 0; i < count; i++) {
            words[i] = new String(readBytes(requests), StandardCharsets.UTF_8);
        }
        System.setIn(new ByteArrayInputStream(readBytes(requests)));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream outStream = new PrintStream(out, true, StandardCharsets.UTF_8);
        System.setOut(outStream);
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int status = run(words, outStream);
        System.out.flush();
        System.err.flush();
        responses.writeInt(status);
        writeBytes(responses, out.toByteArray());
        writeBytes(responses, err.toByteArray());
        responses.flush();
        return true;
    }

    private static int run(String[] words, PrintStream out) {
        String[] arguments = Arrays.copyOfRange(words, 2, words.length);
        try {
            return user(words[0]).doAs((PrivilegedExceptionAction<Integer>) () -> {
                Configuration conf = new HdfsConfiguration();
                try {
                    return ToolRunner.run(conf, tool(words[1], conf, out), arguments);
                } finally {
                    FileSystem.closeAllForUGI(UserGroupInformation.getCurrentUser());
                }
            });
        } catch (ExitUtil.ExitException exit) {
            return exit.status;
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            return 255;
        }
    }

    private static UserGroupInformation user(String name) {
        int at = name.indexOf('>');
        if (at < 0) {
            return UserGroupInformation.createRemoteUser(name);
        }
        UserGroupInformation real = UserGroupInformation.createRemoteUser(name.substring(0, at));
        return UserGroupInformation.createProxyUser(name.substring(at + 1), real);
    }

    private static Tool tool(String name, Configuration conf, PrintStream out) throws Exception {
        if (name.endsWith(".DFSck")) {
            return new DFSck(conf, out);
        }
        Class<?> tool = Class.forName(name);
        try {
            return (Tool) tool.getDeclaredConstructor(Configuration.class).newInstance(conf);
        } catch (NoSuchMethodException none) {
            return (Tool) tool.getDeclaredConstructor().newInstance();
        }
    }

    private static byte[] readBytes(DataInputStream from) throws IOException {
        byte[] bytes = new byte[from.readInt()];
        from.readFully(bytes);
        return bytes;
    }

    private static void writeBytes(DataOutputStream to, byte[] bytes) throws IOException {
        to.writeInt(bytes.length);
        to.write(bytes);
    }
}
