package io.firndb;

import java.util.EnumSet;
import java.util.Set;

/** What a field of a collection is for. A field has at least one role. */
public enum Role {
    /** Conditions and facets may use the field. */
    FILTERABLE,
    /** Orders may use the field, and its values can be read. Not for several values. */
    SORTABLE,
    /** The values can be read. */
    STORED;

    /** The set as bits for native code. */
    static int bits(Set<Role> roles) {
        int bits = 0;
        for (Role role : roles) {
            bits |= 1 << role.ordinal();
        }
        return bits;
    }

    static Set<Role> of(int bits) {
        Set<Role> roles = EnumSet.noneOf(Role.class);
        for (Role role : values()) {
            if ((bits & 1 << role.ordinal()) != 0) {
                roles.add(role);
            }
        }
        return roles;
    }
}
