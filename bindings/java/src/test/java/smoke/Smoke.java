package smoke;

import io.firndb.LogStore;
import io.firndb.Table;
import io.firndb.TableBuilder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** A program outside of the library's package: writes and reads a store and a table. */
public final class Smoke {
    private Smoke() {}

    /**
     * Runs the program.
     *
     * @param args a directory
     */
    public static void main(String[] args) {
        Path dir = Path.of(args[0]);
        byte[] key = "key".getBytes(StandardCharsets.UTF_8);
        try (LogStore store = LogStore.open(dir.resolve("store"))) {
            store.put(key, key);
        }
        try (TableBuilder builder = TableBuilder.create(dir.resolve("table"))) {
            builder.add(key, key);
            builder.finish();
        }
        try (Table table = Table.open(dir.resolve("table"))) {
            System.out.println(new String(table.get(key), StandardCharsets.UTF_8)
                    + " " + LogStore.class.getModule());
        }
    }
}
