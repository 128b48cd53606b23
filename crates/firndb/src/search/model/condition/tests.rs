//! Checks bounds of keys against an exact comparison of the values themselves.

use crate::search::model::condition::*;
use crate::search::model::schema::Roles;
use crate::search::model::value::encode;
use crate::search::testing::Rng;
use std::cmp::Ordering;
use std::ops::RangeBounds;

const OPS: [Op; 5] = [Op::Eq, Op::Lt, Op::Lte, Op::Gt, Op::Gte];
const NUMBERS: [Type; 3] = [Type::I64, Type::U64, Type::F64];

impl Interval {
    fn contains(&self, key: &Key) -> bool {
        (self.low.as_ref(), self.high.as_ref()).contains(key)
    }
}

fn field(ty: Type) -> Field {
    Field::new("x", ty, Roles::FILTERABLE)
}

/// The exact order of two comparable values of any types.
fn compare(a: &Value, b: &Value) -> Ordering {
    let int = |v: &Value| match *v {
        Value::I64(v) => Some(i128::from(v)),
        Value::U64(v) => Some(i128::from(v)),
        _ => None,
    };
    match (a, b) {
        (Value::F64(a), Value::F64(b)) => a.partial_cmp(b).unwrap(),
        (Value::F64(a), b) => compare_float(*a, int(b).unwrap()),
        (a, Value::F64(b)) => compare_float(*b, int(a).unwrap()).reverse(),
        (Value::Str(a), Value::Str(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Str(b)) => a.as_slice().cmp(b.as_bytes()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        _ => int(a).unwrap().cmp(&int(b).unwrap()),
    }
}

fn compare_float(float: f64, int: i128) -> Ordering {
    // The cast saturates at the bounds of i128, far beyond every 64-bit integer.
    let whole = (float.trunc() as i128).cmp(&int);
    whole.then(float.partial_cmp(&float.trunc()).unwrap())
}

fn is_satisfied(op: Op, order: Ordering) -> bool {
    match op {
        Op::Eq => order.is_eq(),
        Op::Lt => order.is_lt(),
        Op::Lte => order.is_le(),
        Op::Gt => order.is_gt(),
        Op::Gte => order.is_ge(),
    }
}

fn matches(interval: Option<Interval>, ty: Type, value: &Value) -> bool {
    let key = encode(ty, value).unwrap();
    interval.is_some_and(|interval| interval.contains(&key))
}

/// Every pair of a field's type and a literal's type that can be compared.
fn comparable_types() -> Vec<(Type, Type)> {
    let mut pairs: Vec<_> = Type::ALL.map(|ty| (ty, ty)).into();
    pairs.push((Type::Bytes, Type::String));
    for ty in NUMBERS {
        pairs.extend(NUMBERS.into_iter().filter(|&t| t != ty).map(|t| (ty, t)));
    }
    pairs
}

#[test]
fn bounds_match_exact_comparison() {
    let mut rng = Rng(0xC0_FFEE);
    println!("seed {:#x}", rng.0);
    for (ty, literal_type) in comparable_types() {
        let field = field(ty);
        for _ in 0..4000 {
            let (value, literal, other) =
                (rng.value(ty), rng.value(literal_type), rng.value(literal_type));
            let order = compare(&value, &literal);
            for op in OPS {
                let bounds = interval(&field, op, &literal).unwrap();
                let (found, expected) = (matches(bounds, ty, &value), is_satisfied(op, order));
                assert_eq!(found, expected, "{value} {} {literal}, {ty:?}", op.symbol());
            }
            let found = matches(between(&field, &literal, &other).unwrap(), ty, &value);
            let expected = order.is_ge() && compare(&value, &other).is_le();
            assert_eq!(found, expected, "{value} between {literal} and {other}, {ty:?}");
            let equal = key_of(&field, &literal).unwrap() == Some(encode(ty, &value).unwrap());
            assert_eq!(equal, order.is_eq(), "{value} in ({literal}), {ty:?}");
        }
    }
}

#[test]
fn prefix_bounds_match_starts_with() {
    let mut rng = Rng(0xF00D);
    println!("seed {:#x}", rng.0);
    for _ in 0..20_000 {
        let (value, start) = (rng.bytes(), rng.bytes());
        let bounds = prefix_interval(&field(Type::Bytes), &Value::Bytes(start.clone())).unwrap();
        let found = bounds.contains(&Key::Bytes(value.clone()));
        assert_eq!(found, value.starts_with(&start), "{value:02x?} {start:02x?}");
    }
    let all = Interval { low: Unbounded, high: Unbounded };
    assert_eq!(prefix_interval(&field(Type::String), &"".into()).unwrap(), all);
    let bounds = prefix_interval(&field(Type::Bytes), &vec![1, 0xFF].into()).unwrap();
    assert_eq!(bounds.high, Excluded(Key::Bytes(vec![2])));
    let bounds = prefix_interval(&field(Type::Bytes), &vec![0xFF].into()).unwrap();
    assert_eq!(bounds, Interval { low: Included(Key::Bytes(vec![0xFF])), high: Unbounded });
}

#[test]
fn unrepresentable_literals_are_not_rounded() {
    let range = |ty, op, literal: Value| interval(&field(ty), op, &literal).unwrap();
    let up_to =
        |ty, v: Value| Some(Interval { low: Unbounded, high: Included(encode(ty, &v).unwrap()) });
    let all = Some(Interval { low: Unbounded, high: Unbounded });
    assert_eq!(range(Type::I64, Op::Lt, 10.5.into()), up_to(Type::I64, 10i64.into()));
    assert_eq!(range(Type::I64, Op::Lt, 10.0.into()), up_to(Type::I64, 9i64.into()));
    assert_eq!(range(Type::I64, Op::Lt, u64::MAX.into()), all);
    assert_eq!(range(Type::I64, Op::Gt, f64::INFINITY.into()), None);
    assert_eq!(range(Type::I64, Op::Lt, i64::MIN.into()), None);
    assert_eq!(range(Type::U64, Op::Gt, (-1i64).into()), all);
    assert_eq!(range(Type::U64, Op::Lte, (-0.5).into()), None);
    assert_eq!(range(Type::U64, Op::Eq, 3.5.into()), None);
    let odd = 9_007_199_254_740_993u64; // 2^53 + 1, between two doubles
    assert_eq!(range(Type::F64, Op::Eq, odd.into()), None);
    assert_eq!(range(Type::F64, Op::Lt, odd.into()), up_to(Type::F64, (odd - 1).into()));
    assert_eq!(range(Type::F64, Op::Lte, f64::INFINITY.into()), all);
    assert_eq!(range(Type::F64, Op::Lt, f64::NEG_INFINITY.into()), None);
    assert_eq!(range(Type::F64, Op::Eq, (-0.0).into()), range(Type::F64, Op::Eq, 0i64.into()));
    assert_eq!(range(Type::String, Op::Lt, "".into()), None);
    assert_eq!(range(Type::Bool, Op::Gt, true.into()), None);
    assert_eq!(range(Type::Bool, Op::Gte, false.into()), all);
}

#[test]
fn timestamp_fields_accept_text_literals() {
    let field = field(Type::Timestamp);
    let key = key_of(&field, &"1970-01-01T00:00:01Z".into()).unwrap();
    assert_eq!(key, Some(encode(Type::Timestamp, &Value::Timestamp(1_000_000)).unwrap()));
    let error = interval(&field, Op::Lt, &"yesterday".into()).unwrap_err();
    assert_eq!(
        error.message(),
        "field `x` is of type timestamp; 'yesterday' is not a time \
         (2013-01-01T05:15:00Z, 2013-01-01)"
    );
}

#[test]
fn incomparable_types_are_rejected() {
    for ty in Type::ALL {
        for literal_type in Type::ALL {
            let literal = Rng(1).value(literal_type);
            let allowed = comparable_types().contains(&(ty, literal_type))
                || (ty, literal_type) == (Type::Timestamp, Type::String);
            if allowed {
                continue;
            }
            let error = interval(&field(ty), Op::Eq, &literal).unwrap_err();
            let expected = format!(
                "field `x` is of type {}; it cannot be compared with {literal}, \
                 which is of type {}",
                ty.name(),
                literal_type.name()
            );
            assert_eq!(error.message(), expected);
        }
        assert!(interval(&field(ty), Op::Lt, &f64::NAN.into()).is_err());
        assert_eq!(prefix_interval(&field(ty), &"a".into()).is_err(), ty.is_fixed());
    }
    assert!(prefix_interval(&field(Type::String), &vec![1u8].into()).is_err());
}
