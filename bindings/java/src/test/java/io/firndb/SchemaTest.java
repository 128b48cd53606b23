package io.firndb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class SchemaTest {
    private static final Field CITY = Field.of("city", FieldType.STRING).full();
    private static final Field PRICE = Field.of("price", FieldType.F64).full().nullable();
    private static final Field TAGS =
            Field.of("tags", FieldType.STRING, Role.FILTERABLE, Role.STORED).multi();

    @Test
    void aSchemaHasWhatItWasMadeOf() {
        Field lat = Field.of("lat", FieldType.F64).filterable();
        Field lon = Field.of("lon", FieldType.F64).filterable().stored().scanned();
        Schema schema = Schema.of(CITY, PRICE, TAGS).add(lon, lat)
                .orderBy(Order.desc("city"), Order.asc("price")).point("lat", "lon")
                .payload(Schema.Payload.zstdWithDictionary(5));
        assertEquals(List.of(CITY, PRICE, TAGS, lon, lat), schema.fields());
        assertEquals(PRICE, schema.field("price"));
        assertNull(schema.field("Price"));
        assertEquals(List.of(Order.desc("city"), Order.asc("price")), schema.order());
        assertEquals(List.of(new Schema.Point("lon", "lat")), schema.points());
        assertEquals(new Schema.Payload(5, true), schema.payload());
        assertFalse(schema.isDynamic());

        Schema read = Schema.fromToml(schema.toToml());
        assertEquals(schema, read);
        assertEquals(schema.hashCode(), read.hashCode());
        assertEquals(schema.fields(), read.fields());
        assertEquals(schema.order(), read.order());
        assertEquals(schema.points(), read.points());
        assertEquals(schema.payload(), read.payload());
        assertEquals(schema.toToml(), schema.toString());

        assertEquals(List.of(), schema.orderBy().order());
        assertEquals(Schema.Payload.raw(), schema.payload(Schema.Payload.raw()).payload());
        assertEquals(List.of(Order.desc("city"), Order.asc("price")), schema.order());
        for (Schema other : List.of(
                Schema.of(CITY), Schema.of(PRICE, CITY, TAGS), schema.orderBy(),
                schema.payload(Schema.Payload.zstd(5)))) {
            assertNotEquals(schema, other);
        }
        assertNotEquals(schema, new Object());
    }

    @ParameterizedTest
    @EnumSource(FieldType.class)
    void fieldsOfEveryTypeRolesAndProperties(FieldType type) {
        for (int bits = 1; bits < 8; bits++) {
            Set<Role> roles = Role.of(bits);
            Field field = Field.of("a \u00e9\ud83d\ude00\"\\\n", type, roles.toArray(new Role[0]));
            List<Field> fields = new ArrayList<>(List.of(field, field.nullable()));
            if (roles.contains(Role.FILTERABLE) || roles.contains(Role.SORTABLE)) {
                fields.add(field.scanned().nullable());
            }
            if (!roles.contains(Role.SORTABLE)) {
                fields.add(field.multi());
                fields.add(field.multi().required());
            }
            for (Field one : fields) {
                Schema schema = Schema.of(one);
                assertEquals(List.of(one), schema.fields());
                assertEquals(one.hashCode(), schema.fields().get(0).hashCode());
                assertEquals(schema, Schema.fromToml(schema.toToml()));
                assertEquals(type, schema.fields().get(0).type());
                assertEquals(roles, schema.fields().get(0).roles());
            }
        }
    }

    @Test
    void fieldsAreImmutableAndShowWhatTheyAre() {
        Field field = Field.of("f", FieldType.I64);
        assertEquals(Set.of(), field.roles());
        assertEquals(EnumSet.allOf(Role.class), field.full().roles());
        assertEquals(Set.of(), field.roles());
        assertThrows(
                UnsupportedOperationException.class, () -> field.roles().add(Role.STORED));
        assertEquals("city: string full", CITY.toString());
        assertEquals("price: f64 full nullable", PRICE.toString());
        assertEquals("tags: string filterable stored multi", TAGS.toString());
        assertEquals("f: i64 filterable multi required",
                field.filterable().multi().required().toString());
        assertEquals("f: i64 sortable scanned", field.sortable().scanned().toString());
        assertTrue(TAGS.isMulti() && TAGS.isNullable() && !TAGS.isScanned());
        assertFalse(TAGS.required().isNullable() || CITY.isNullable() || CITY.isMulti());
        assertNotEquals(field, field.stored());
        assertNotEquals(field.stored(), Field.of("g", FieldType.I64).stored());
        assertNotEquals(field.stored(), Field.of("f", FieldType.U64).stored());
        assertThrows(NullPointerException.class, () -> Field.of(null, FieldType.I64));
        assertThrows(NullPointerException.class, () -> Field.of("f", null));
    }

    @Test
    void dynamicSchemas() {
        Schema schema = Schema.dynamic(Role.FILTERABLE, Role.STORED);
        assertTrue(schema.isDynamic());
        assertEquals(List.of(), schema.fields());
        assertNotEquals(schema, Schema.dynamic(Role.FILTERABLE));
        assertNotEquals(schema, Schema.of());
        Schema more = schema.add(CITY).orderBy(Order.asc("city"));
        assertTrue(more.isDynamic());
        assertEquals(more, Schema.fromToml(more.toToml()));
        assertTrue(more.toToml().contains("dynamic"), more.toToml());
        assertThrows(IllegalArgumentException.class, () -> schema.orderBy(Order.asc("x")));
    }

    @Test
    void contradictionsAreRefused() {
        Schema schema = Schema.of(CITY, PRICE, TAGS);
        Field bare = Field.of("bare", FieldType.BYTES);
        refused("no role", () -> Schema.of(bare));
        refused("twice", () -> schema.add(CITY.nullable()));
        refused("1 to 255", () -> Schema.of(Field.of("", FieldType.BOOL).full()));
        refused("1 to 255", () -> Schema.of(Field.of("x".repeat(256), FieldType.BOOL).full()));
        refused("unpaired surrogate", () -> Schema.of(Field.of("\ud800", FieldType.BOOL).full()));
        refused("multi-valued and sortable", () -> schema.add(bare.full().multi()));
        refused("cannot be scanned", () -> schema.add(bare.stored().scanned()));
        refused("there is no field `town`", () -> schema.orderBy(Order.asc("town")));
        refused("not sortable", () -> schema.orderBy(Order.desc("tags")));
        refused("sortable", () -> schema.point("price", "city"));
        refused("there is no field `x`", () -> schema.point("x", "city"));
        refused("use 1 to 19", () -> Schema.Payload.zstd(20));
        refused("use 1 to 19", () -> Schema.Payload.zstd(-1));
        refused("give a level", () -> Schema.Payload.zstdWithDictionary(0));
        Field[] many = new Field[4097];
        for (int i = 0; i < many.length; i++) {
            many[i] = Field.of("f" + i, FieldType.BOOL).stored();
        }
        refused("at most 4096 fields", () -> Schema.of(many));
        assertEquals(List.of(CITY, PRICE, TAGS), schema.fields());
    }

    private static void refused(String word, Runnable call) {
        String message = assertThrows(IllegalArgumentException.class, call::run).getMessage();
        assertTrue(message.contains(word), message);
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "[fields]\nprice = \"f65 full\"", "[fields]\nprice = 5", "fields", "order = [\"x\"]",
        "[[field]]\nname = \"x\"\ntype = \"i64\"\nroles = [\"ful\"]",
    })
    void textsThatAreNoSchemasAreRefusedWithTheirPlace(String text) {
        String message = assertThrows(
                IllegalArgumentException.class, () -> Schema.fromToml(text)).getMessage();
        assertTrue(message.contains("line ") && message.contains("^"), message);
    }

    @Test
    void textForms() {
        Schema schema = Schema.fromToml("""
                order = ["-city"]
                [fields]
                city = "string full"
                price = "f64 full nullable"
                tags = "string filterable stored multi"
                """);
        assertEquals(Schema.of(CITY, PRICE, TAGS).orderBy(Order.desc("city")), schema);
        assertEquals(Schema.of(), Schema.fromToml(""));
        assertEquals("", Schema.of().toToml());
    }
}
