package ottla.tools;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
// Exit is in the one or the other: releases move it about.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/**
 * Calls the main methods of tools one after the other in one JVM. A call on stdin is a count of strings and the
 * strings (the class, or several with bars between them to choose from, and its arguments), then the tool's stdin; the
 * answer on stdout is the exit code, what the tool wrote to stdout and what it wrote to stderr. Byte strings have their
 * length before them, numbers are big-endian ints.
 */
public final class Tools {
    private Tools() {}

    /** What a tool meets instead of the end of the process. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super("", null, false, false);
        }

        /** Some tools print whatever is thrown; of this there is nothing to be seen. */
        @Override
        public String toString() {
            return "";
        }
    }

    private static volatile Integer code;
    private static final Queue<Runnable> HOOKS = new ConcurrentLinkedQueue<>();

    public static void main(String[] args) throws Exception {
        DataInputStream calls = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        while (true) {
            String[] words;
            try {
                words = new String[calls.readInt()];
            } catch (EOFException over) {
                System.exit(0);
                return;
            }
            for (int i = 0; i < words.length; i++) {
                words[i] = new String(bytes(calls), StandardCharsets.UTF_8);
            }
            InputStream input = new ByteArrayInputStream(bytes(calls));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            call(words, input, out, err);
            answers.writeInt(code == null ? 0 : code);
            answer(answers, out);
            answer(answers, err);
            answers.flush();
        }
    }

    private static void end(int status, String message) {
        code = code == null ? Integer.valueOf(status) : code; // the first counts: the next may be a handler's
        throw new Ended();
    }

    private static byte[] bytes(DataInputStream stream) throws Exception {
        byte[] bytes = new byte[stream.readInt()];
        stream.readFully(bytes);
        return bytes;
    }

    private static void answer(DataOutputStream answers, ByteArrayOutputStream bytes) throws Exception {
        answers.writeInt(bytes.size());
        bytes.writeTo(answers);
    }

    /** The first class that there is of those that the name has between bars: releases move tools about. */
    private static Class<?> find(String names) throws ClassNotFoundException {
        for (String name : names.split("\\|")) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(names);
    }

    private static void call(String[] words, InputStream input, OutputStream out, OutputStream err) throws Exception {
        InputStream oldIn = System.in;
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        String[] arguments = java.util.Arrays.copyOfRange(words, 1, words.length);
        code = null;
        System.setIn(input);
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        try {
            find(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                code = 1;
            }
        } finally {
            // Some tools leave their last work to the end of the process.
            for (Runnable hook = HOOKS.poll(); hook != null; hook = HOOKS.poll()) {
                hook.run();
            }
            System.out.flush();
            System.err.flush();
            System.setIn(oldIn);
            System.setOut(oldOut);
            System.setErr(oldErr);
        }
    }
}
