//! Keys are ordered as their values, conversions are lossless, and timestamps round-trip.

use crate::search::model::value::*;
use crate::search::testing::Rng;

/// The order of two values of the same type, computed without keys.
fn compare(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => a.as_bytes().cmp(b.as_bytes()),
        _ => a.partial_cmp(b).unwrap(),
    }
}

fn decode(ty: Type, key: &Key) -> Value {
    match key {
        Key::Fixed(key) => decode_fixed(ty, *key),
        Key::Bytes(key) => decode_bytes(ty, key).unwrap(),
    }
}

#[test]
fn keys_preserve_order_and_round_trip() {
    let mut rng = Rng(0x0_5EED);
    println!("seed {:#x}", rng.0);
    for ty in Type::ALL {
        for _ in 0..20_000 {
            let (a, b) = (rng.value(ty), rng.value(ty));
            let (key_a, key_b) = (encode(ty, &a).unwrap(), encode(ty, &b).unwrap());
            assert_eq!(key_a.cmp(&key_b), compare(&a, &b), "{a} and {b}");
            assert_eq!(decode(ty, &key_a), a);
            assert_eq!(a.ty(), ty);
        }
    }
}

#[test]
fn keys_of_extreme_values_ascend() {
    let tiny = f64::from_bits(1);
    let floats = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1.0,
        -f64::MIN_POSITIVE,
        -tiny,
        0.0,
        tiny,
        f64::MIN_POSITIVE,
        1.0,
        f64::MAX,
        f64::INFINITY,
    ];
    let ascending = |ty, values: Vec<Value>| {
        let keys: Vec<Key> = values.iter().map(|value| encode(ty, value).unwrap()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{values:?}");
    };
    ascending(Type::F64, floats.map(Value::F64).into());
    ascending(Type::I64, [i64::MIN, -1, 0, 1, i64::MAX].map(Value::I64).into());
    ascending(Type::Timestamp, [i64::MIN, -1, 0, 1, i64::MAX].map(Value::Timestamp).into());
    ascending(Type::U64, [0, 1, 1 << 63, u64::MAX].map(Value::U64).into());
    ascending(Type::Bool, [false, true].map(Value::Bool).into());
    ascending(Type::String, ["", "\0", "A", "a", "aa", "b", "\u{ff}"].map(Value::from).into());
    ascending(Type::Bytes, [&[][..], &[0], &[0, 0], &[1], &[0xFF]].map(Value::from).into());
}

/// Keys are stored in files.
#[test]
fn key_encoding_is_stable() {
    let key = |ty, value: Value| match encode(ty, &value).unwrap() {
        Key::Fixed(key) => key,
        Key::Bytes(_) => unreachable!(),
    };
    assert_eq!(key(Type::Bool, true.into()), 1);
    assert_eq!(key(Type::U64, 7u64.into()), 7);
    assert_eq!(key(Type::I64, (-1i64).into()), 0x7FFF_FFFF_FFFF_FFFF);
    assert_eq!(key(Type::Timestamp, Value::Timestamp(1)), 0x8000_0000_0000_0001);
    assert_eq!(key(Type::F64, 1.0.into()), 0xBFF0_0000_0000_0000);
    assert_eq!(key(Type::F64, (-1.0).into()), 0x400F_FFFF_FFFF_FFFF);
    assert_eq!(key(Type::F64, 0.0.into()), 0x8000_0000_0000_0000);
}

#[test]
fn negative_zero_equals_zero_and_nan_is_rejected() {
    assert_eq!(f64_to_key(-0.0), f64_to_key(0.0));
    assert!(key_to_f64(f64_to_key(-0.0).unwrap()).is_sign_positive());
    assert_eq!(f64_to_key(f64::NAN), None);
    let error = encode(Type::F64, &f64::NAN.into()).unwrap_err();
    assert!(error.message().starts_with("NaN cannot be stored"), "{error}");
    for ty in [Type::I64, Type::U64] {
        assert!(encode(ty, &f64::NAN.into()).is_err());
    }
}

#[test]
fn only_lossless_conversions_are_allowed() {
    let big = 1u64 << 63;
    let same = [
        (Type::I64, Value::U64(5), Value::I64(5)),
        (Type::I64, Value::F64(-5.0), Value::I64(-5)),
        (Type::I64, Value::F64(-(2f64.powi(63))), Value::I64(i64::MIN)),
        (Type::U64, Value::I64(5), Value::U64(5)),
        (Type::U64, Value::F64(2f64.powi(63)), Value::U64(big)),
        (Type::U64, Value::F64(-0.0), Value::U64(0)),
        (Type::F64, Value::I64(-5), Value::F64(-5.0)),
        (Type::F64, Value::U64(big), Value::F64(2f64.powi(63))),
        (Type::F64, Value::I64(i64::MIN), Value::F64(-(2f64.powi(63)))),
        (Type::Timestamp, "1970-01-01T00:00:01Z".into(), Value::Timestamp(1_000_000)),
        (Type::Bytes, "ab".into(), b"ab".to_vec().into()),
    ];
    for (ty, from, to) in same {
        assert_eq!(encode(ty, &from).unwrap(), encode(ty, &to).unwrap(), "{from}");
    }
    let rejected = [
        (Type::I64, Value::U64(big)),
        (Type::I64, Value::F64(0.5)),
        (Type::I64, Value::F64(2f64.powi(63))),
        (Type::I64, Value::F64(f64::INFINITY)),
        (Type::U64, Value::I64(-1)),
        (Type::U64, Value::F64(2f64.powi(64))),
        (Type::U64, Value::F64(-1.0)),
        (Type::F64, Value::I64((1 << 53) + 1)),
        (Type::F64, Value::U64(u64::MAX)),
        (Type::F64, Value::I64(i64::MAX)),
        (Type::Timestamp, "soon".into()),
        (Type::Timestamp, Value::I64(1)),
        (Type::Bool, Value::I64(1)),
        (Type::String, Value::I64(1)),
        (Type::String, vec![1u8].into()),
    ];
    for (ty, value) in rejected {
        let error = encode(ty, &value).unwrap_err();
        let expected = format!("a value of type {} cannot hold {value}", ty.name());
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn rust_types_convert_into_values() {
    assert_eq!(Value::from(-1i8), Value::I64(-1));
    assert_eq!(Value::from(1u32), Value::U64(1));
    assert_eq!(Value::from(0.5f32), Value::F64(0.5));
    assert_eq!(Value::from("a"), Value::from("a".to_string()));
    assert_eq!(Value::from(&b"a"[..]), Value::from(b"a".to_vec()));
}

#[test]
fn decoding_rejects_strings_that_are_not_utf8() {
    assert!(decode_bytes(Type::String, &[0xFF]).is_err());
    assert_eq!(decode_bytes(Type::Bytes, &[0xFF]).unwrap(), Value::Bytes(vec![0xFF]));
}

#[test]
fn timestamps_round_trip_as_text() {
    let micros = 1_357_017_300_000_000;
    assert_eq!(timestamp_to_text(micros), "2013-01-01T05:15:00Z");
    for text in [
        "2013-01-01T05:15:00Z",
        "2013-01-01t05:15:00.000000z",
        "2013-01-01T09:15:00+04:00",
        "2013-01-01 05:15:00",
        "2013-01-01T05:15",
    ] {
        assert_eq!(timestamp_from_text(text), Some(micros), "{text}");
    }
    assert_eq!(timestamp_from_text("1970-01-02"), Some(86_400_000_000));
    assert_eq!(timestamp_from_text("1969-12-31T23:59:59.999999Z"), Some(-1));
    assert_eq!(timestamp_from_text("1969-12-31T23:59:59.9999999Z"), Some(-1));
    // Much data uses the last representable day for "no end".
    let end = 253_402_214_400_000_000;
    assert_eq!(timestamp_to_text(end), "9999-12-31T00:00:00Z");
    assert_eq!(timestamp_to_text(end + 86_399_999_999), "9999-12-31T23:59:59.999999Z");
    for text in ["9999-12-31", "9999-12-31 00:00", "9999-12-31T02:00:00+02:00"] {
        assert_eq!(timestamp_from_text(text), Some(end), "{text}");
    }
    assert_eq!(timestamp_from_text("9999-12-31[Europe/Moscow]"), None);
    assert_eq!(timestamp_to_text(end + 86_400_000_000), "253402300800000000");
    assert_eq!(timestamp_from_text("-009999-01-01"), Some(-377_705_116_800_000_000));
    assert_eq!(timestamp_to_text(-377_705_116_800_000_000), "-009999-01-01T00:00:00Z");
    for text in [
        "",
        "soon",
        "2013-13-01",
        "2013-02-29",
        "2013-01-01T25:00:00Z",
        "5",
        "-5",
        "2013-01-01T05:15:00[Europe/Moscow]",
        "2013-01-01[Europe/Moscow]",
        "2013-01-01T05:15:00+99:00",
        "9223372036854775808",
    ] {
        assert_eq!(timestamp_from_text(text), None, "{text}");
    }
    let mut rng = Rng(0x71_3E);
    println!("seed {:#x}", rng.0);
    for _ in 0..10_000 {
        let micros = rng.next() as i64 >> rng.below(64);
        assert_eq!(timestamp_from_text(&timestamp_to_text(micros)), Some(micros));
    }
}
