package io.firndb;

/** There is no store, file or directory of this name. (An absent key is {@code null} instead.) */
public final class NotFoundException extends FirnException {
    private static final long serialVersionUID = 1L;

    NotFoundException(String message, String path, long offset) {
        super(ErrorKind.NOT_FOUND, message, path, offset);
    }
}
