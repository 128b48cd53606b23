package io.firndb;

/**
 * The object is not usable any more, because an earlier write or sync failed or because a limit of
 * it is reached: open it again, or start over.
 */
public final class FailedException extends FirnException {
    private static final long serialVersionUID = 1L;

    FailedException(String message, String path, long offset) {
        super(ErrorKind.FAILED, message, path, offset);
    }
}
