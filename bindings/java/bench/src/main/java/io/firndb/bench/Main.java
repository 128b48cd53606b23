package io.firndb.bench;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Measures a part of the benchmark: {@code Main PART DIR --records=N --rounds=N}. {@code Main
 * versions} prints versions.
 *
 * <p>In each round every engine is measured in a separate JVM, which JMH starts. Each round
 * begins with another engine. The last line of the output has the nanoseconds per operation of each
 * round as JSON, and the bytes that an operation allocates.
 */
public final class Main {
    /** Nanoseconds of an operation, and the bytes of the Java heap that it allocates, or null. */
    record Figures(double nanos, Double bytes) {}

    /** Something that is measured once per round. */
    interface Measured {
        Figures run() throws Exception;
    }

    /** Pages that are read in Rust. */
    private static final int PAGES = 50_000;

    private final Path dir;
    private final int size;
    private final int rounds;
    private final Map<String, List<Double>> nanos = new LinkedHashMap<>();
    private final Map<String, List<Double>> bytes = new LinkedHashMap<>();

    private Main(Path dir, int size, int rounds) {
        this.dir = dir;
        this.size = size;
        this.rounds = rounds;
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("versions")) {
            System.out.println(versions());
            return;
        }
        Main main = new Main(Path.of(args[1]), option(args[2]), option(args[3]));
        switch (args[0]) {
            case "gets" -> main.gets();
            case "get_many" -> main.getMany();
            case "puts" -> main.puts();
            case "page" -> main.page();
            default -> throw new IllegalArgumentException("there is no part " + args[0]);
        }
        System.out.println("{\"nanos\": " + json(main.nanos) + ", \"bytes\": " + json(main.bytes)
                + "}");
    }

    /** The versions of Java and of the libraries, which the names of their files contain. */
    private static String versions() {
        List<String> versions = new ArrayList<>();
        versions.add("Java " + Runtime.version());
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            String file = Path.of(path).getFileName().toString();
            for (String library : List.of("jmh-core", "rocksdbjni", "lmdbjava")) {
                if (file.startsWith(library + "-")) {
                    versions.add(file.replace(".jar", "").replace(library + "-", library + " "));
                }
            }
        }
        return String.join(", ", versions);
    }

    /** The number of {@code --name=number}. */
    private static int option(String text) {
        return Integer.parseInt(text.substring(text.indexOf('=') + 1));
    }

    private void gets() throws Exception {
        Map<String, Measured> trials = new LinkedHashMap<>();
        for (String engine : Store.ENGINES) {
            fill(engine);
            trials.put(engine, get(engine, "get", 1));
            trials.put(engine + ", into a buffer", get(engine, "getInto", 1));
        }
        measure(trials);
    }

    private void getMany() throws Exception {
        fill("firndb");
        fill("rocksdb");
        Map<String, Measured> trials = new LinkedHashMap<>();
        trials.put("firndb", get("firndb", "getMany", Gets.BATCH));
        trials.put("firndb, single gets", get("firndb", "getSingly", Gets.BATCH));
        trials.put("rocksdb", get("rocksdb", "getMany", Gets.BATCH));
        measure(trials);
    }

    private void puts() throws Exception {
        Map<String, Measured> trials = new LinkedHashMap<>();
        for (String engine : Store.ENGINES) {
            Trial trial = Trial.batches(Puts.class, "put", size);
            trial.param("engine", engine).param("dir", dir).param("records", size);
            trials.put(engine, trial);
        }
        measure(trials);
    }

    private void page() throws Exception {
        System.err.println("  building the collection");
        Path collection = dir.resolve("collection");
        Pages.build(collection, size);
        Map<String, Measured> trials = new LinkedHashMap<>();
        trials.put("Rust", () -> inRust(collection));
        trials.put("Rust, payloads", () -> inRust(collection, "--payloads"));
        trials.put("firndb", page(collection, "search"));
        trials.put("firndb, text", page(collection, "searchText"));
        trials.put("firndb, payloads", page(collection, "payloads"));
        measure(trials);
    }

    private static Trial page(Path collection, String method) {
        return Trial.calls(Pages.class, method, 1).param("dir", collection);
    }

    /** Measures a page in Rust: {@code FIRN_BENCH} is the program that does. */
    private static Figures inRust(Path collection, String... options) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                System.getenv("FIRN_BENCH"), "page", collection.toString(),
                Pages.query().toString(), "--pages=" + PAGES));
        command.addAll(List.of(options));
        Process process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        String line = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        Matcher figures =
                Pattern.compile("\\{\"nanos\": (.*), \"hits\": (\\d+)}\\s*").matcher(line);
        if (process.waitFor() != 0 || !figures.matches()
                || Integer.parseInt(figures.group(2)) != Pages.HITS) {
            throw new IllegalStateException(command + " failed: " + line);
        }
        return new Figures(Double.parseDouble(figures.group(1)), null);
    }

    private void fill(String engine) throws Exception {
        System.err.println("  filling " + engine);
        Store.fill(engine, dir.resolve(engine), size);
    }

    private Trial get(String engine, String method, int operations) {
        Trial trial = Trial.calls(Gets.class, method, operations);
        return trial.param("engine", engine).param("dir", dir.resolve(engine))
                .param("records", size);
    }

    private void measure(Map<String, Measured> trials) throws Exception {
        List<String> order = new ArrayList<>(trials.keySet());
        for (String name : order) {
            nanos.put(name, new ArrayList<>());
        }
        for (int round = 0; round < rounds; round++) {
            for (String name : order) {
                Figures figures = trials.get(name).run();
                System.err.printf("  round %d: %s: %.1f ns%n", round + 1, name, figures.nanos());
                nanos.get(name).add(figures.nanos());
                if (figures.bytes() != null) {
                    bytes.computeIfAbsent(name, n -> new ArrayList<>()).add(figures.bytes());
                }
            }
            order.add(order.remove(0));
        }
    }

    private static String json(Map<String, List<Double>> figures) {
        List<String> members = new ArrayList<>();
        figures.forEach((name, values) -> members.add("\"" + name + "\": " + values));
        return "{" + String.join(", ", members) + "}";
    }
}
