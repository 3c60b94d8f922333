import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.Tool;

/**
 * A writer that does what a named pipe says: SteeredWriter create|append PATH COMMANDS ANSWERS.
 *
 * Commands:  int32 size > 0, bytes: write them; 0: hflush; -1: hsync; -2: close.
 * Answers:   one line each for hflush, hsync and close, once it is done.
 */
public final class SteeredWriter extends Configured implements Tool {
    @Override
    public int run(String[] words) throws Exception {
        Path path = new Path(words[1]);
        FileSystem files = FileSystem.get(getConf());
        try (DataInputStream commands = new DataInputStream(new FileInputStream(words[2]));
                FileOutputStream answers = new FileOutputStream(words[3]);
                FSDataOutputStream file =
                    words[0].equals("append") ? files.append(path) : files.create(path)) {
            while (true) {
                int size = commands.readInt();
                if (size > 0) {
                    byte[] data = new byte[size];
                    commands.readFully(data);
                    file.write(data);
                    continue;
                }
                if (size == 0) {
                    file.hflush();
                } else if (size == -1) {
                    file.hsync();
                } else {
                    file.close();
                }
                answers.write("done\n".getBytes(StandardCharsets.US_ASCII));
                if (size == -2) {
                    return 0;
                }
            }
        }
    }
}
