package io.firndb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Unpacking and loading the native library: in other JVMs, class loaders, packages, and wrongly. */
class LoadingTest {
    private static final String CLASS_PATH =
            Tests.classes() + File.pathSeparator + Tests.testClasses();

    @TempDir
    Path dir;

    static List<Path> javas() throws Exception {
        return Tests.javas();
    }

    private Path java() throws Exception {
        return Tests.javas().get(0);
    }

    /** Runs the program in a directory of its own. */
    private Tests.Running start(String name, String... options) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(options));
        arguments.addAll(List.of(
                "-cp", CLASS_PATH, "smoke.Smoke",
                Files.createDirectories(dir.resolve(name)).toString()));
        return Tests.start(java(), arguments.toArray(String[]::new));
    }

    private static List<Path> files(Path dir) throws Exception {
        try (Stream<Path> files = Files.list(dir)) {
            return files.sorted().toList();
        }
    }

    @Test
    void concurrentJvmsUnpackOneFile() throws Exception {
        Path libraries = dir.resolve("libraries");
        List<Tests.Running> running = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            running.add(start("work" + i, "-Dio.firndb.native.dir=" + libraries));
        }
        for (Tests.Running one : running) {
            Tests.Result result = one.result();
            assertEquals(0, result.code(), result.output());
        }
        List<Path> files = files(libraries);
        assertEquals(1, files.size(), files.toString());
        // A damaged file is replaced; other files stay.
        long size = Files.size(files.get(0));
        Files.write(files.get(0), new byte[(int) size]);
        Path other = Files.createFile(libraries.resolve("libfirndb_java-0123.so"));
        assertEquals(0, start("again", "-Dio.firndb.native.dir=" + libraries).result().code());
        assertTrue(Files.readAllBytes(files.get(0))[1] != 0);
        assertEquals(2, files(libraries).size());
        assertTrue(Files.exists(other));
    }

    @Test
    void theDirectoryOfTheUserIsPrivate() throws Exception {
        Path temp = Files.createDirectories(dir.resolve("temp"));
        String option = "-Djava.io.tmpdir=" + temp;
        assertEquals(0, start("a", option, "-Duser.name=a/b c").result().code());
        List<Path> made = files(temp);
        assertEquals(1, made.size(), made.toString());
        assertEquals("firndb-a_b_c", made.get(0).getFileName().toString());
        assertEquals(1, files(made.get(0)).size());
        // A directory that others can write to is not used.
        Files.setPosixFilePermissions(
                made.get(0), java.nio.file.attribute.PosixFilePermissions.fromString("rwxrwxrwx"));
        assertEquals(0, start("b", option, "-Duser.name=a/b c").result().code());
        assertEquals(2, files(temp).size());
    }

    @Test
    void aNamedFileIsLoaded() throws Exception {
        Path library = dir.resolve("named.so");
        try (Stream<Path> all = Files.walk(Tests.classes().resolve("io/firndb/native"))) {
            Files.copy(all.filter(Files::isRegularFile).findFirst().orElseThrow(), library);
        }
        String nowhere = "-Dio.firndb.native.dir=/dev/null/none";
        String named = "-Dio.firndb.native.path=" + library;
        assertEquals(0, start("a", nowhere, named).result().code());
        Tests.Result failed = start("b", nowhere).result();
        assertEquals(1, failed.code());
        assertTrue(failed.output().contains("cannot unpack the native library into"));
        assertTrue(failed.output().contains("choose another directory with -Dio.firndb.native.dir"));
    }

    @Test
    void failuresNameTheirCause() throws Exception {
        Path noLibrary = Files.write(dir.resolve("text.so"), Tests.bytes("no library at all".repeat(99)));
        Tests.Result result = start("a", "-Dio.firndb.native.path=" + noLibrary).result();
        assertEquals(1, result.code());
        assertTrue(result.output().contains("UnsatisfiedLinkError: cannot load " + noLibrary));
        assertTrue(result.output().contains("it is not a library for " + NativeLibrary.platform()));
        Tests.Result elsewhere = start("b", "-Dos.name=Plan 9", "-Dos.arch=mips").result();
        assertTrue(
                elsewhere.output().contains("no native library for plan 9-mips"),
                elsewhere.output());
        String noexec = "/x/lib.so: failed to map segment from shared object";
        assertTrue(NativeLibrary.reason(noexec).contains("noexec"));
        String old = "/x/lib.so: /lib/libc.so.6: version `GLIBC_2.34' not found";
        assertTrue(NativeLibrary.reason(old).contains("older"));
        String musl = "Error loading shared library ld-linux-x86-64.so.2";
        assertTrue(NativeLibrary.reason(musl).contains("musl"));
        assertEquals("other", NativeLibrary.reason("other"));
    }

    @Test
    void aDirectoryMountedNoexecIsReported() throws Exception {
        Path mounted = Files.createDirectories(dir.resolve("noexec"));
        assumeTrue(command("mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", mounted.toString()),
                "mounting needs root");
        try {
            Tests.Result result = start("a", "-Dio.firndb.native.dir=" + mounted).result();
            assertEquals(1, result.code());
            assertTrue(result.output().contains("noexec: choose another"), result.output());
        } finally {
            command("umount", "-l", mounted.toString());
        }
    }

    private static boolean command(String... words) throws Exception {
        try {
            return new ProcessBuilder(words).redirectErrorStream(true).start().waitFor() == 0;
        } catch (java.io.IOException e) {
            return false;
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aNamedModuleNeedsNoWarning(Path java) throws Exception {
        Path work = Files.createDirectories(dir.resolve("work"));
        Tests.Result result = Tests.run(
                java, "-Xcheck:jni", "--module-path", Tests.classes().toString(), "--add-modules",
                "io.firndb", "--enable-native-access=io.firndb",
                "-Dio.firndb.native.dir=" + dir.resolve("libraries"), "-cp",
                Tests.testClasses().toString(), "smoke.Smoke", work.toString());
        assertEquals(0, result.code(), result.output());
        assertEquals("key module io.firndb", result.output().strip());
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void severalClassLoadersLoadTheLibrary(boolean isUnpacked) throws Exception {
        if (isUnpacked) {
            unpackHere();
        }
        URL[] urls = {Tests.classes().toUri().toURL(), Tests.testClasses().toUri().toURL()};
        for (int i = 0; i < 3; i++) {
            try (URLClassLoader loader =
                    new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
                runSmoke(loader, "smoke.Smoke", "loader" + i);
            }
        }
    }

    private void runSmoke(ClassLoader loader, String name, String work) throws Exception {
        Class<?> program = loader.loadClass(name);
        assertFalse(program == smoke.Smoke.class);
        String path = Files.createDirectories(dir.resolve(work)).toString();
        program.getMethod("main", String[].class).invoke(null, (Object) new String[] {path});
    }

    /** Makes class loaders of this JVM unpack the library. */
    private void unpackHere() {
        System.clearProperty(NativeLibrary.PATH_PROPERTY);
        System.setProperty(NativeLibrary.DIR_PROPERTY, dir.resolve("libraries").toString());
    }

    @BeforeEach
    void loadHere() {
        NativeLibrary.load();
    }

    @AfterEach
    void restore() {
        System.setProperty(NativeLibrary.PATH_PROPERTY, NAMED);
        System.clearProperty(NativeLibrary.DIR_PROPERTY);
    }

    private static final String NAMED = System.getProperty(NativeLibrary.PATH_PROPERTY);

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void thePackageCanBeRelocated(boolean isUnpacked) throws Exception {
        if (isUnpacked) {
            unpackHere();
        }
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        assumeTrue(compiler != null, "there is no compiler");
        Path sources = Path.of("src/main/java/io/firndb");
        assumeTrue(Files.isDirectory(sources), "the sources are elsewhere");
        Path relocated = dir.resolve("relocated");
        List<String> arguments = new ArrayList<>(List.of("-d", relocated.toString()));
        List<Path> all = new ArrayList<>(files(sources));
        all.add(Path.of("src/test/java/smoke/Smoke.java"));
        for (Path file : all) {
            String text = Files.readString(file).replace("io.firndb", "com.shaded.io.firndb");
            Path copy = dir.resolve("sources").resolve(file.getFileName());
            Files.createDirectories(copy.getParent());
            arguments.add(Files.writeString(copy, text).toString());
        }
        assertEquals(0, compiler.run(null, null, null, arguments.toArray(String[]::new)));
        // The plain and the relocated classes are used by one class loader.
        Path library = Tests.classes().resolve("io/firndb/native");
        try (Stream<Path> from = Files.walk(library)) {
            for (Path file : from.filter(Files::isRegularFile).toList()) {
                Path to = relocated.resolve("com/shaded/io/firndb/native")
                        .resolve(library.relativize(file).toString());
                Files.createDirectories(to.getParent());
                Files.copy(file, to);
            }
        }
        URL[] urls = {relocated.toUri().toURL(), Tests.classes().toUri().toURL()};
        try (URLClassLoader loader =
                new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
            runSmoke(loader, "smoke.Smoke", "relocated-work");
            Class<?> plain = loader.loadClass("io.firndb.LogStore");
            Object store = plain.getMethod("open", Path.class).invoke(null, dir.resolve("plain"));
            plain.getMethod("close").invoke(store);
        }
    }
}
