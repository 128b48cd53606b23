package io.firndb;

import java.io.Serializable;
import java.util.Map;

/**
 * A file that {@link Catalog#stage} has stored, and that belongs to no version yet.
 *
 * <p>It is one line of text: a task of Spark or Hadoop returns this object, which is serializable,
 * or the text ({@link #toString}), and the driver passes it to {@link Catalog#publishStaged}. The
 * text has no credentials and no path of the machine that staged the file. Its checksum detects
 * accidents only: take texts only from machines that may publish.
 *
 * <p>A deserialized object is checked when it is used: its methods, except {@code toString},
 * {@code equals} and {@code hashCode}, throw {@link CorruptException} if its text was changed.
 */
public final class Staged implements Serializable {
    private static final long serialVersionUID = 1L;

    /** The line. */
    private final String text;
    /** What the line says, or null if it was not read yet. */
    private transient Details details;

    private Staged(String text, Details details) {
        this.text = text;
        this.details = details;
    }

    /** What a line says. All fields are final, so that threads may share it without a lock. */
    private record Details(
            String name,
            String object,
            String fileName,
            long bytes,
            String blake3,
            Version.Kind kind,
            String schema,
            Map<String, Long> statistics) {
        static Details of(String text) {
            NativeLibrary.load();
            Unpacked from = new Unpacked(Native.catalogStaged(text));
            return new Details(
                    from.nextText(), from.nextText(), from.nextText(), from.nextLong(),
                    from.nextText(), Version.Kind.of(from.nextText()), Version.nextOptional(from),
                    Version.nextStatistics(from));
        }
    }

    /**
     * Reads the text of a staged file.
     *
     * @param text what {@link #toString} has returned
     * @return the staged file
     * @throws CorruptException if it is not such a text, or was changed
     * @throws UnsupportedVersionException if a newer release has written it
     */
    public static Staged parse(String text) {
        String line = text.strip();
        return new Staged(line, Details.of(line));
    }

    private Details details() {
        Details known = details;
        if (known == null) {
            known = Details.of(text);
            details = known;
        }
        return known;
    }

    /**
     * The name for which the file was staged.
     *
     * @return the name
     */
    public String name() {
        return details().name();
    }

    /**
     * The object in the catalog.
     *
     * @return its name
     */
    public String object() {
        return details().object();
    }

    /**
     * The name of the file that was staged.
     *
     * @return the name without the directory
     */
    public String fileName() {
        return details().fileName();
    }

    /**
     * The length of the file.
     *
     * @return a number of bytes
     */
    public long bytes() {
        return details().bytes();
    }

    /**
     * The BLAKE3 hash of all bytes.
     *
     * @return 64 hexadecimal digits
     */
    public String blake3() {
        return details().blake3();
    }

    /**
     * The kind of table.
     *
     * @return {@code TABLE} or {@code APPROXIMATE_TABLE}
     */
    public Version.Kind kind() {
        return details().kind();
    }

    /**
     * The value schema of the table.
     *
     * @return the text, or {@code null}
     */
    public String schema() {
        return details().schema();
    }

    /**
     * The number of records.
     *
     * @return how many there are
     */
    public long records() {
        return statistics().getOrDefault("records", 0L);
    }

    /**
     * Facts that the table reports, such as {@code records}.
     *
     * @return the numbers by name
     */
    public Map<String, Long> statistics() {
        return details().statistics();
    }

    /**
     * Whether another object is the same staged file.
     *
     * @param other the object
     * @return true if it has the same text
     */
    @Override
    public boolean equals(Object other) {
        return other instanceof Staged staged && staged.text.equals(text);
    }

    @Override
    public int hashCode() {
        return text.hashCode();
    }

    /**
     * The text, which {@link #parse} reads.
     *
     * @return one line of JSON without a line feed
     */
    @Override
    public String toString() {
        return text;
    }
}
