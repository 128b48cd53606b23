package io.firndb;

/** Another process or object has the store open for writing. */
public final class LockedException extends FirnException {
    private static final long serialVersionUID = 1L;

    LockedException(String message, String path, long offset) {
        super(ErrorKind.LOCKED, message, path, offset);
    }
}
