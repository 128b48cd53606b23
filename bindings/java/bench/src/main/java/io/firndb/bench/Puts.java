package io.firndb.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** Puts of new records in random order. Each iteration is a batch that fills a new store. */
@State(Scope.Thread)
public class Puts {
    @Param("firndb")
    String engine;

    @Param("")
    String dir;

    @Param("0")
    int records;

    private byte[][] keys;
    private byte[][] values;
    private Store store;
    private Path path;
    private boolean isChecked;
    private int next;

    @Setup(Level.Trial)
    public void make() {
        keys = new byte[records][];
        values = new byte[records][];
        int at = 0;
        for (int number : Records.shuffled(records)) {
            keys[at] = Records.key(number);
            values[at++] = Records.value(number);
        }
    }

    @Setup(Level.Iteration)
    public void create() throws Exception {
        path = Path.of(dir, engine);
        store = Store.open(engine, path, false);
        next = 0;
    }

    /** Checks all values after the first iteration, which is not measured. */
    @TearDown(Level.Iteration)
    public void remove() throws Exception {
        if (!isChecked) {
            Store.check(engine, store, records);
            isChecked = true;
        }
        store.close();
        delete(path);
    }

    @Benchmark
    public void put() throws Exception {
        store.put(keys[next], values[next]);
        next++;
    }

    private static void delete(Path dir) throws IOException {
        List<Path> found;
        try (Stream<Path> files = Files.walk(dir)) {
            found = files.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : found) {
            Files.delete(path);
        }
    }
}
