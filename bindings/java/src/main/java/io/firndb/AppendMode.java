package io.firndb;

/** How a log store appends records. */
public enum AppendMode {
    /** {@link #MAP} on file systems for which it is safe, {@link #WRITE} on all others. */
    AUTO,
    /**
     * With a store into a map of the file: the fastest mode. On some file systems (btrfs, XFS after
     * a reflink copy) a full or failing disk then ends the process.
     */
    MAP,
    /** With a system call, which takes half a microsecond longer. Failures are exceptions. */
    WRITE
}
