package io.firndb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The guide. */
class GuideTest {
    private static final Path GUIDE = Path.of("../../docs/java.md");

    private static final String HEAD = """
            import static io.firndb.Filter.*;
            import static io.firndb.Order.*;

            import io.firndb.*;
            import java.nio.file.Path;
            import java.time.Duration;
            import java.util.List;
            import java.util.Map;
            import java.util.stream.Stream;

            class Guide {
                static byte[] increment(byte[] old) {
                    return old;
                }

                static void program(
                        byte[] key, byte[] value, byte[] a, byte[] b, byte[] one, byte[] counter,
                        List<byte[]> keys) {
            """;

    @TempDir
    Path dir;

    @Test
    void itsProgramsCompile() throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        assumeTrue(compiler != null && Files.exists(GUIDE), "there is no compiler, or no guide");
        List<String> program = new ArrayList<>();
        boolean isCode = false;
        for (String line : Files.readAllLines(GUIDE)) {
            if (line.startsWith("```")) {
                isCode = line.equals("```java");
            } else if (isCode) {
                program.add(line);
            }
        }
        assertTrue(program.size() > 10);
        Path source = Files.writeString(
                dir.resolve("Guide.java"), HEAD + String.join("\n", program) + "\n}}\n");
        String classes = Tests.classes().toString();
        int code = compiler.run(
                null, null, null, "-d", dir.toString(), "-cp", classes, source.toString());
        assertEquals(0, code);
    }
}
