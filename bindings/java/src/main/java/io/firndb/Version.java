package io.firndb;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A published version of a table or collection: what its manifest in the {@link Catalog} says.
 *
 * @param name the name under which it was published
 * @param number 1 for the first version of the name, then ascending by 1
 * @param id identifies the publication: 32 hexadecimal digits
 * @param parent the number of the version that was the newest before; 0 if there was none
 * @param parentId its id, or {@code null}. Numbers can be reused after a clean-up, ids are not.
 * @param restores the number of the version whose files this one has after a rollback, or 0
 * @param time the time of publication, by the clock of the publisher
 * @param kind what it contains
 * @param schema the schema of a collection as TOML, or the value schema of a table; {@code null} if
 *     there is none
 * @param statistics facts that the store reports, such as {@code records} or {@code documents}
 * @param labels names and texts that were given by the publisher
 * @param files the files, ordered by name
 */
public record Version(
        String name,
        long number,
        String id,
        long parent,
        String parentId,
        long restores,
        Instant time,
        Kind kind,
        String schema,
        Map<String, Long> statistics,
        Map<String, String> labels,
        List<File> files) {
    /** What a version contains. */
    public enum Kind {
        /** A {@link Table}: one file. */
        TABLE,
        /** An {@link ApproximateTable}: one file. */
        APPROXIMATE_TABLE,
        /** A {@link ShardedTable}: one file per shard. */
        SHARDED_TABLE,
        /** A collection: a set file and its partitions. */
        COLLECTION;

        /** The kind with a name of the catalog, such as "sharded table". */
        static Kind of(String name) {
            return valueOf(name.toUpperCase(Locale.ROOT).replace(' ', '_'));
        }
    }

    /**
     * A file of a version.
     *
     * @param name the name in the directory that was published
     * @param bytes the length in bytes
     * @param content the content id in the footer: 32 hexadecimal digits
     * @param blake3 the BLAKE3 hash of all bytes: 64 hexadecimal digits
     * @param since the number of the version for which the file was stored
     */
    public record File(String name, long bytes, String content, String blake3, long since) {}

    /**
     * The length of all files.
     *
     * @return a number of bytes
     */
    public long bytes() {
        return files.stream().mapToLong(File::bytes).sum();
    }

    static Version of(Unpacked from) {
        return new Version(
                from.nextText(), from.nextLong(), from.nextText(), from.nextLong(),
                nextOptional(from), from.nextLong(), Values.instant(from.nextLong()),
                Kind.of(from.nextText()), nextOptional(from), nextStatistics(from),
                nextLabels(from), nextFiles(from));
    }

    /** A text, or null. */
    static String nextOptional(Unpacked from) {
        return from.nextByte() == 0 ? null : from.nextText();
    }

    static Map<String, Long> nextStatistics(Unpacked from) {
        Map<String, Long> statistics = new LinkedHashMap<>();
        for (int left = from.nextInt(); left > 0; left--) {
            statistics.put(from.nextText(), from.nextLong());
        }
        return Collections.unmodifiableMap(statistics);
    }

    private static Map<String, String> nextLabels(Unpacked from) {
        Map<String, String> labels = new LinkedHashMap<>();
        for (int left = from.nextInt(); left > 0; left--) {
            labels.put(from.nextText(), from.nextText());
        }
        return Collections.unmodifiableMap(labels);
    }

    private static List<File> nextFiles(Unpacked from) {
        List<File> files = new ArrayList<>();
        for (int left = from.nextInt(); left > 0; left--) {
            files.add(new File(
                    from.nextText(), from.nextLong(), from.nextText(), from.nextText(),
                    from.nextLong()));
        }
        return Collections.unmodifiableList(files);
    }
}
