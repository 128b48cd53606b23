package io.firndb;

/** The kind of a {@link FirnException}, for programs to branch on. */
public enum ErrorKind {
    /** See {@link NotFoundException}. */
    NOT_FOUND(3),
    /** See {@link AlreadyExistsException}. */
    ALREADY_EXISTS(4),
    /** See {@link LockedException}. */
    LOCKED(5),
    /** See {@link CorruptException}. */
    CORRUPT(6),
    /** See {@link UnsupportedVersionException}. */
    UNSUPPORTED_VERSION(7),
    /** See {@link FirnIOException}. */
    IO(8),
    /** See {@link FailedException}. */
    FAILED(9),
    /** See {@link CancelledException}. */
    CANCELLED(10),
    /** See {@link InternalException}. */
    INTERNAL(1);

    private final int exitCode;

    ErrorKind(int exitCode) {
        this.exitCode = exitCode;
    }

    /**
     * The code with which the command line ends after an error of this kind.
     *
     * @return a number from 1 to 125
     */
    public int exitCode() {
        return exitCode;
    }
}
