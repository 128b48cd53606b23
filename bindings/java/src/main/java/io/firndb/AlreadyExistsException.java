package io.firndb;

/** The call would overwrite something that exists. */
public final class AlreadyExistsException extends FirnException {
    private static final long serialVersionUID = 1L;

    AlreadyExistsException(String message, String path, long offset) {
        super(ErrorKind.ALREADY_EXISTS, message, path, offset);
    }
}
