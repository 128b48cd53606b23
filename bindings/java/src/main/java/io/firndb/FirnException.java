package io.firndb;

import java.nio.file.InvalidPathException;
import java.nio.file.Path;

/**
 * An error of a store: something on disk is missing, damaged, locked or cannot be written.
 *
 * <p>There is a class for each {@link ErrorKind}. Wrong arguments are
 * {@link IllegalArgumentException} instead, and calls of a closed object
 * {@link IllegalStateException}. Parse no messages: use {@link #kind}, {@link #path} and
 * {@link #offset}.
 */
public abstract sealed class FirnException extends RuntimeException
        permits NotFoundException, AlreadyExistsException, LockedException, CorruptException,
                UnsupportedVersionException, FirnIOException, FailedException, CancelledException,
                InternalException {
    private static final long serialVersionUID = 1L;

    /** The kind. */
    private final ErrorKind kind;
    /** The file, or null. */
    private final String path;
    /** The offset in the file, or -1. */
    private final long offset;

    FirnException(ErrorKind kind, String message, String path, long offset) {
        super(message);
        this.kind = kind;
        this.path = path;
        this.offset = offset;
    }

    /**
     * The kind of the error.
     *
     * @return the kind
     */
    public final ErrorKind kind() {
        return kind;
    }

    /**
     * The file or directory in which the error occurred.
     *
     * @return its path, or {@code null} if the error is not about a file, or about one whose name
     *     the JVM cannot represent in the encoding of its locale; the message has it in any case
     */
    public final Path path() {
        try {
            return path == null ? null : Path.of(path);
        } catch (InvalidPathException e) {
            return null;
        }
    }

    /**
     * Where in the file the error occurred.
     *
     * @return the offset in bytes, or -1 if it is not known
     */
    public final long offset() {
        return offset;
    }
}
