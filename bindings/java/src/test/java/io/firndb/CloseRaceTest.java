package io.firndb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class CloseRaceTest {
    static List<Path> javas() throws Exception {
        return Tests.javas();
    }

    @ParameterizedTest
    @MethodSource("javas")
    void callsDuringAClose(Path java, @TempDir Path dir) throws Exception {
        Path work = Files.createDirectories(dir.resolve("work"));
        String access = Tests.isNew(java.getParent().getParent())
                ? "--enable-native-access=ALL-UNNAMED"
                : "-Dfirndb.unused=1";
        Tests.Result result = Tests.run(
                java, "-Xcheck:jni", access, Tests.sameLibrary(), "-cp",
                Tests.classes() + File.pathSeparator + Tests.testClasses(),
                CloseRace.class.getName(), work.toString(), "10000");
        assertEquals(0, result.code(), result.output());
        assertFalse(result.output().contains("WARNING"), result.output());
        assertEquals("survived", result.output().strip());
    }
}
