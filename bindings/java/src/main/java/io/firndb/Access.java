package io.firndb;

/**
 * How a table is read. The modes differ in what a failing disk causes: a page of a map that cannot
 * be read ends the process, and a failed read is a {@link FirnIOException}. In every mode, opening,
 * {@code metadata}, {@code valueSchema} and {@code verify} read through a map.
 */
public enum Access {
    /** From a map of the file, cached by the page cache. */
    MAP,
    /** With reads through the page cache. */
    BUFFERED,
    /** With reads that bypass the page cache. */
    DIRECT,
    /** From a copy in memory, which is made when the table is opened. The fastest mode. */
    RESIDENT
}
