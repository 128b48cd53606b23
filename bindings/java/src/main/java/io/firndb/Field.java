package io.firndb;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;

/**
 * A field of a {@link Schema}: a name, a type, and what it is for. Immutable: each method that
 * changes it returns a changed field.
 *
 * <pre>{@code
 * Field price = Field.of("price", FieldType.F64).full().nullable();
 * Field tags = Field.of("tags", FieldType.STRING).filterable().stored().multi();
 * }</pre>
 */
public final class Field {
    private static final int MULTI = 1;
    private static final int NULLABLE = 2;
    private static final int SCANNED = 4;

    private final String name;
    private final FieldType type;
    private final Set<Role> roles;
    private final int flags;

    private Field(String name, FieldType type, Set<Role> roles, int flags) {
        this.name = name;
        this.type = type;
        this.roles = roles;
        this.flags = flags;
    }

    /**
     * A field with one value in every document.
     *
     * @param name the name, 1 to 255 bytes in UTF-8
     * @param type the type of the values
     * @param roles what it is for; a field needs at least one, here or by a method
     * @return the field
     */
    public static Field of(String name, FieldType type, Role... roles) {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(type, "type");
        Set<Role> all = EnumSet.noneOf(Role.class);
        Collections.addAll(all, roles);
        return new Field(name, type, Collections.unmodifiableSet(all), 0);
    }

    private Field with(Role role) {
        Set<Role> more = EnumSet.of(role);
        more.addAll(roles);
        return new Field(name, type, Collections.unmodifiableSet(more), flags);
    }

    private Field with(int more) {
        return new Field(name, type, roles, flags | more);
    }

    /**
     * Conditions and facets may use the field.
     *
     * @return the changed field
     */
    public Field filterable() {
        return with(Role.FILTERABLE);
    }

    /**
     * Orders may use the field, and its values can be read.
     *
     * @return the changed field
     */
    public Field sortable() {
        return with(Role.SORTABLE);
    }

    /**
     * The values can be read.
     *
     * @return the changed field
     */
    public Field stored() {
        return with(Role.STORED);
    }

    /**
     * All roles: filterable, sortable and stored.
     *
     * @return the changed field
     */
    public Field full() {
        return filterable().sortable().stored();
    }

    /**
     * A document has a set of values, which may be empty. Not for sortable fields.
     *
     * @return the changed field
     */
    public Field multi() {
        return with(MULTI | NULLABLE);
    }

    /**
     * A document may have no value.
     *
     * @return the changed field
     */
    public Field nullable() {
        return with(NULLABLE);
    }

    /**
     * Every document has a value: the opposite of {@link #nullable}, for fields that are
     * {@link #multi}.
     *
     * @return the changed field
     */
    public Field required() {
        return new Field(name, type, roles, flags & ~NULLABLE);
    }

    /**
     * Conditions scan a column of the field instead of lists per value. That takes less space, and
     * suits fields that are filtered by ranges, such as prices. Only for a filterable or sortable
     * field with at most one value per document; see {@code docs/search.md}.
     *
     * @return the changed field
     */
    public Field scanned() {
        return with(SCANNED);
    }

    /**
     * The name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * The type of the values.
     *
     * @return the type
     */
    public FieldType type() {
        return type;
    }

    /**
     * What the field is for.
     *
     * @return the roles, which cannot be modified
     */
    public Set<Role> roles() {
        return roles;
    }

    /**
     * Whether a document has a set of values.
     *
     * @return true if so
     */
    public boolean isMulti() {
        return (flags & MULTI) != 0;
    }

    /**
     * Whether a document may have no value.
     *
     * @return true if so
     */
    public boolean isNullable() {
        return (flags & NULLABLE) != 0;
    }

    /**
     * Whether conditions scan a column: see {@link #scanned}.
     *
     * @return true if so
     */
    public boolean isScanned() {
        return (flags & SCANNED) != 0;
    }

    void pack(Packed packed) {
        packed.addText(name);
        packed.addByte(type.code());
        packed.addByte(Role.bits(roles));
        packed.addByte(flags);
    }

    static Field unpack(Unpacked from) {
        String name = from.nextText();
        FieldType type = FieldType.of(from.nextByte());
        Set<Role> roles = Collections.unmodifiableSet(Role.of(from.nextByte()));
        return new Field(name, type, roles, from.nextByte());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Field field
                && name.equals(field.name)
                && type == field.type
                && roles.equals(field.roles)
                && flags == field.flags;
    }

    @Override
    public int hashCode() {
        return Objects.hash(name, type, roles, flags);
    }

    /** The name, the type, the roles and the properties: {@code price: f64 full nullable}. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(name).append(": ").append(word(type));
        if (roles.size() == Role.values().length) {
            text.append(" full");
        } else {
            roles.forEach(role -> text.append(' ').append(word(role)));
        }
        if (isMulti()) {
            text.append(isNullable() ? " multi" : " multi required");
        } else if (isNullable()) {
            text.append(" nullable");
        }
        return text.append(isScanned() ? " scanned" : "").toString();
    }

    private static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }
}
