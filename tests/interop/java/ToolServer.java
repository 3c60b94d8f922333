import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * One resident JVM that runs the command-line tools of Apache Kafka one after the other: a tool
 * costs its own work, not a start of Java.
 *
 * Request  (stdin):  int32 count, count x (int32 size, UTF-8): main class and arguments;
 *                    int32 size, bytes: what the tool reads from its standard input.
 * Response (stdout): int32 exit status; int32 size, bytes: stdout; int32 size, bytes: stderr.
 *
 * Tools leave through Kafka's own Exit, which can be told to throw instead. The first status
 * counts: some tools catch the throwable and exit once more.
 */
public final class ToolServer {
    private static final class ExitCalled extends Error {
        ExitCalled(int status) {
            super("exit " + status, null, false, false);
        }
    }

    /** Standard streams are replaced once: tools may keep System.out in a static field. */
    private static final class Switch extends OutputStream {
        private ByteArrayOutputStream sink = new ByteArrayOutputStream();

        synchronized ByteArrayOutputStream renew() {
            ByteArrayOutputStream full = sink;
            sink = new ByteArrayOutputStream();
            return full;
        }

        @Override
        public synchronized void write(int octet) {
            sink.write(octet);
        }

        @Override
        public synchronized void write(byte[] bytes, int offset, int length) {
            sink.write(bytes, offset, length);
        }
    }

    private static final class SwitchedInput extends InputStream {
        private volatile InputStream source = new ByteArrayInputStream(new byte[0]);

        @Override
        public int read() throws IOException {
            return source.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            return source.read(bytes, offset, length);
        }

        @Override
        public int available() throws IOException {
            return source.available();
        }
    }

    private static final Switch OUT = new Switch();
    private static final Switch ERR = new Switch();
    private static final SwitchedInput IN = new SwitchedInput();
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static volatile Integer firstStatus;

    public static void main(String[] ignored) throws IOException {
        DataInputStream requests = new DataInputStream(new FileInputStream(FileDescriptor.in));
        DataOutputStream responses =
            new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        System.setIn(IN);
        Exit.setExitProcedure((status, message) -> onExit(status, message));
        Exit.setHaltProcedure((status, message) -> onExit(status, message));
        Exit.setShutdownHookAdder((name, hook) -> {
            synchronized (HOOKS) {
                HOOKS.add(hook);
            }
        });
        while (serveOne(requests, responses)) { }
        // Tools may leave threads behind that are no daemons.
        Runtime.getRuntime().halt(0);
    }

    private static void onExit(int status, String message) {
        if (firstStatus == null) {
            firstStatus = status;
        }
        if (message != null) {
            System.err.println(message);
        }
        throw new ExitCalled(status);
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
        IN.source = new ByteArrayInputStream(readBytes(requests));
        int status = run(words);
        System.out.flush();
        System.err.flush();
        responses.writeInt(status);
        writeBytes(responses, OUT.renew().toByteArray());
        writeBytes(responses, ERR.renew().toByteArray());
        responses.flush();
        return true;
    }

    private static int run(String[] words) {
        firstStatus = null;
        String[] arguments = new String[words.length - 1];
        System.arraycopy(words, 1, arguments, 0, arguments.length);
        int status = 0;
        try {
            Class.forName(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            status = statusOf(wrapped.getCause());
        } catch (ReflectiveOperationException wrong) {
            status = statusOf(wrong);
        }
        runHooks();
        return firstStatus != null ? firstStatus : status;
    }

    private static void runHooks() {
        List<Runnable> hooks;
        synchronized (HOOKS) {
            hooks = new ArrayList<>(HOOKS);
            HOOKS.clear();
        }
        for (Runnable hook : hooks) {
            try {
                hook.run();
            } catch (Throwable thrown) {
                statusOf(thrown);
            }
        }
    }

    private static int statusOf(Throwable thrown) {
        if (thrown instanceof ExitCalled) {
            return 0;
        }
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text, true));
        System.err.print(text);
        return 1;
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
