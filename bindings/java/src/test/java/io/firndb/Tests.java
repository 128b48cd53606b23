package io.firndb;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** What several tests need. */
final class Tests {
    private Tests() {}

    static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, UTF_8);
    }

    /** A table with the keys {@code key 0} and so on, whose values are {@code value 0} and so on. */
    static Path table(Path dir, int records) {
        Path file = dir.resolve("table.firn");
        try (TableBuilder builder = TableBuilder.create(file)) {
            for (int i = 0; i < records; i++) {
                builder.add(bytes("key " + i), bytes("value " + i));
            }
            builder.finish();
        }
        return file;
    }

    /** The files of a sharded table with the keys of {@link #table}. */
    static List<Path> shards(Path dir, int shards, int records) {
        List<Path> files = new ArrayList<>();
        List<TableBuilder> builders = new ArrayList<>();
        dir.toFile().mkdirs();
        for (int i = 0; i < shards; i++) {
            files.add(dir.resolve(String.format("shard-%05d.table", i)));
            TableBuilder.Options options = TableBuilder.Options.defaults().threads(1);
            builders.add(TableBuilder.create(files.get(i), options));
        }
        for (int i = 0; i < records; i++) {
            byte[] key = bytes("key " + i);
            builders.get(ShardedTable.shardOf(key, shards)).add(key, bytes("value " + i));
        }
        for (TableBuilder builder : builders) {
            builder.finish();
            builder.close();
        }
        return files;
    }

    /** The folders of the library and of the tests, which are on the class path of this JVM. */
    static Path classes() {
        return folder(LogStore.class);
    }

    static Path testClasses() {
        return folder(Tests.class);
    }

    private static Path folder(Class<?> type) {
        try {
            return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (java.net.URISyntaxException e) {
            throw new AssertionError(e);
        }
    }

    /** The {@code java} of this JVM and, if there is one, that of a JDK of at least Java 22. */
    static List<Path> javas() throws IOException {
        List<Path> javas = new ArrayList<>();
        javas.add(Path.of(System.getProperty("java.home"), "bin", "java"));
        String named = System.getenv("FIRNDB_JAVA");
        if (named != null) {
            javas.add(Path.of(named));
        } else if (Files.isDirectory(Path.of("/usr/lib/jvm"))) {
            try (Stream<Path> installed = Files.list(Path.of("/usr/lib/jvm"))) {
                installed.filter(Tests::isNew).sorted().limit(1)
                        .forEach(home -> javas.add(home.resolve("bin/java")));
            }
        }
        return javas;
    }

    /** Whether a JDK warns about native access that was not enabled. */
    static boolean isNew(Path home) {
        try {
            for (String line : Files.readAllLines(home.resolve("release"))) {
                if (line.startsWith("JAVA_VERSION=\"")) {
                    String version = line.substring(14).split("[.\"]")[0];
                    return Integer.parseInt(version) >= 22
                            && Files.exists(home.resolve("bin/java"));
                }
            }
        } catch (IOException | NumberFormatException e) {
            return false;
        }
        return false;
    }

    /** The option that lets another JVM load the file of this one. */
    static String sameLibrary() {
        return "-Dio.firndb.native.path=" + System.getProperty(NativeLibrary.PATH_PROPERTY);
    }

    /** What a process wrote, and its exit code. */
    record Result(int code, String output) {}

    /** Runs a JVM to its end. */
    static Result run(Path java, String... arguments) throws Exception {
        return start(java, arguments).result();
    }

    /** A JVM that runs. */
    record Running(Process process, Path output) {
        Result result() throws Exception {
            if (!process.waitFor(600, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
                throw new AssertionError("does not end: " + Files.readString(output));
            }
            Result result = new Result(process.exitValue(), Files.readString(output));
            Files.delete(output);
            return result;
        }
    }

    static Running start(Path java, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(java.toString()));
        command.addAll(List.of(arguments));
        Path output = Files.createTempFile("firndb-test-", ".txt");
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.redirectErrorStream(true).redirectOutput(output.toFile());
        return new Running(builder.start(), output);
    }
}
