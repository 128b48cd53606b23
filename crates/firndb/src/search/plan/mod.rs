//! Compiles a filter into a plan: resolves names to field numbers, converts literals to keys, and
//! normalises the tree. `exec` runs the plan on each partition.
//!
//! Normalisation pushes `not` down to the leaves and flattens nested `and`s and `or`s. It combines
//! leaves on the same field: ranges on a single-valued field under one `and` become one range;
//! equalities under one `or` become one set of keys, and so do negated equalities on a
//! single-valued field under one `and`. Conditions that no value can satisfy become `Nothing`.

use crate::search::model::condition::{Interval, between, interval, key_of, prefix_interval};
use crate::search::model::query::MAX_DEPTH;
use crate::search::model::query::{Filter, Op};
use crate::search::model::schema::{Field, Schema};
use crate::search::model::value::Key;
use crate::{Error, Result};
use std::fmt;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// The maximum depth of a filter: each parenthesis of a query text nests an `or` and an `and`.
const MAX_NESTING: usize = 2 * MAX_DEPTH + 1;

/// A compiled filter.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    pub(crate) leaves: Vec<Leaf>,
}

/// A node of the normalised tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    All,
    Nothing,
    /// The number of a leaf, and whether it is negated.
    Leaf(usize, bool),
    And(Vec<Node>),
    Or(Vec<Node>),
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    /// The field number in the reader's schema.
    pub(crate) field: usize,
    pub(crate) test: Test,
}

/// Which keys satisfy a leaf.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// One of these keys, which are ascending and distinct.
    Points(Vec<Key>),
    Range(Interval),
    /// Any key.
    Exists,
}

impl Plan {
    /// Compiles a filter against the fields of a reader. Errors: `InvalidArgument` for unknown or
    /// unfilterable fields, values of the wrong type, and filters that are too deep.
    pub(crate) fn new(filter: &Filter, schema: &Schema) -> Result<Plan> {
        let mut plan = Plan { root: Node::All, leaves: Vec::new() };
        plan.root = plan.compile(filter, schema, false, 0)?;
        let mut used = 0;
        drop_unreferenced_leaves(&mut plan.root, &mut plan.leaves, &mut used);
        plan.leaves.truncate(used);
        Ok(plan)
    }

    /// Compiles a filter, negated if `negate`.
    fn compile(
        &mut self,
        filter: &Filter,
        schema: &Schema,
        negate: bool,
        depth: usize,
    ) -> Result<Node> {
        if depth > MAX_NESTING {
            return Err(Error::invalid(format!("a filter nests at most {MAX_NESTING} deep")));
        }
        let test = match filter {
            Filter::All => return Ok(constant(!negate)),
            Filter::Not(inner) => return self.compile(inner, schema, !negate, depth + 1),
            Filter::And(parts) => return self.compile_list(parts, schema, negate, depth, !negate),
            Filter::Or(parts) => return self.compile_list(parts, schema, negate, depth, negate),
            Filter::Exists(_) => Some(Test::Exists),
            Filter::Compare(name, Op::Eq, value) => {
                let field = filterable(schema, name)?.1;
                key_of(field, value)?.map(|key| Test::Points(vec![key]))
            }
            Filter::Compare(name, op, value) => {
                interval(filterable(schema, name)?.1, *op, value)?.map(Test::Range)
            }
            Filter::Between(name, low, high) => {
                between(filterable(schema, name)?.1, low, high)?.map(Test::Range)
            }
            Filter::Prefix(name, value) => {
                Some(Test::Range(prefix_interval(filterable(schema, name)?.1, value)?))
            }
            Filter::In(name, values) => {
                let field = filterable(schema, name)?.1;
                let mut keys = Vec::with_capacity(values.len());
                for value in values {
                    keys.extend(key_of(field, value)?);
                }
                keys.sort_unstable();
                keys.dedup();
                (!keys.is_empty()).then_some(Test::Points(keys))
            }
        };
        let (field, _) = filterable(schema, field_name(filter))?;
        Ok(match test {
            None => constant(negate),
            Some(Test::Range(Interval { low: Unbounded, high: Unbounded })) => {
                self.leaf(field, Test::Exists, negate)
            }
            Some(test) => self.leaf(field, test, negate),
        })
    }

    fn leaf(&mut self, field: usize, test: Test, negate: bool) -> Node {
        self.leaves.push(Leaf { field, test });
        Node::Leaf(self.leaves.len() - 1, negate)
    }

    /// Compiles an `and` or `or` of parts, each negated if `negate`. The caller has already swapped
    /// `and` and `or` of a negated list (De Morgan).
    fn compile_list(
        &mut self,
        parts: &[Filter],
        schema: &Schema,
        negate: bool,
        depth: usize,
        and: bool,
    ) -> Result<Node> {
        let mut nodes: Vec<Node> = Vec::with_capacity(parts.len());
        for part in parts {
            match self.compile(part, schema, negate, depth + 1)? {
                Node::And(inner) if and => nodes.extend(inner),
                Node::Or(inner) if !and => nodes.extend(inner),
                node if node == constant(and) => {}
                node => nodes.push(node),
            }
        }
        if nodes.contains(&constant(!and)) {
            return Ok(constant(!and));
        }
        self.combine_leaves(&mut nodes, schema, and);
        Ok(match nodes.len() {
            0 => constant(and),
            1 if nodes[0] == Node::Nothing => Node::Nothing,
            1 => nodes.remove(0),
            _ if and && nodes.contains(&Node::Nothing) => Node::Nothing,
            _ if and => Node::And(nodes),
            _ => Node::Or(nodes),
        })
    }

    /// Combines leaves on the same field into the first of them: equalities under `or`; under
    /// `and` ranges, and negated equalities, on single-valued fields.
    fn combine_leaves(&mut self, nodes: &mut Vec<Node>, schema: &Schema, and: bool) {
        let mut targets: Vec<usize> = Vec::new();
        let mut points: Vec<usize> = Vec::new();
        let leaves = &mut self.leaves;
        nodes.retain_mut(|node| {
            let Node::Leaf(leaf, negate) = *node else { return true };
            let field = leaves[leaf].field;
            let combines = match leaves[leaf].test {
                Test::Range(_) => and && !negate && !schema.fields[field].multi,
                // Equalities under `and` are not combined: each key may have a bitset of its own.
                Test::Points(_) if and => negate && !schema.fields[field].multi,
                Test::Points(_) => !negate,
                Test::Exists => false,
            };
            if !combines {
                return true;
            }
            let same = |first: usize| {
                let kinds = [first, leaf].map(|leaf| matches!(leaves[leaf].test, Test::Points(_)));
                leaves[first].field == field && kinds[0] == kinds[1]
            };
            let Some(&first) = targets.iter().find(|&&first| same(first)) else {
                targets.push(leaf);
                return true;
            };
            let other = std::mem::replace(&mut leaves[leaf].test, Test::Exists);
            match (&mut leaves[first].test, other) {
                (Test::Range(all), Test::Range(other)) => match intersect(all, &other) {
                    Some(both) => *all = both,
                    None => {
                        *node = Node::Nothing;
                        return true;
                    }
                },
                (Test::Points(all), Test::Points(other)) => {
                    all.extend(other);
                    if !points.contains(&first) {
                        points.push(first);
                    }
                }
                _ => {}
            }
            false
        });
        // Sort each leaf only once, because it may combine thousands of parts.
        for leaf in points {
            if let Test::Points(keys) = &mut leaves[leaf].test {
                keys.sort_unstable();
                keys.dedup();
            }
        }
    }
}

/// Moves the leaves that the tree refers to the front, starting at index `next`, and renumbers
/// them. The tree must refer to each of them once, in ascending order.
fn drop_unreferenced_leaves(node: &mut Node, leaves: &mut [Leaf], next: &mut usize) {
    match node {
        Node::All | Node::Nothing => {}
        Node::Leaf(leaf, _) => {
            leaves.swap(*leaf, *next);
            *leaf = *next;
            *next += 1;
        }
        Node::And(nodes) | Node::Or(nodes) => {
            nodes.iter_mut().for_each(|node| drop_unreferenced_leaves(node, leaves, next));
        }
    }
}

/// The node that matches all documents, or none.
fn constant(everything: bool) -> Node {
    if everything { Node::All } else { Node::Nothing }
}

/// The name of the field of a condition.
fn field_name(filter: &Filter) -> &str {
    match filter {
        Filter::Compare(name, ..)
        | Filter::In(name, _)
        | Filter::Between(name, ..)
        | Filter::Prefix(name, _)
        | Filter::Exists(name) => name,
        Filter::All | Filter::And(_) | Filter::Or(_) | Filter::Not(_) => "",
    }
}

/// The number and definition of a field. Errors: `InvalidArgument` unless it is filterable.
pub(crate) fn filterable<'s>(schema: &'s Schema, name: &str) -> Result<(usize, &'s Field)> {
    let (i, field) = schema.field(name).ok_or_else(|| schema.unknown(name))?;
    if !field.roles.filterable {
        let names = schema.fields.iter().filter(|f| f.roles.filterable);
        let names: Vec<String> = names.map(|f| format!("`{}`", f.name)).collect();
        return Err(Error::invalid(format!(
            "field `{name}` is not filterable; filterable fields are {}",
            names.join(", ")
        )));
    }
    Ok((i, field))
}

/// The intersection of two intervals; `None` if it is empty.
fn intersect(a: &Interval, b: &Interval) -> Option<Interval> {
    let tighter = |x: &Bound<Key>, y: &Bound<Key>, larger: bool| match (x, y) {
        (Unbounded, other) | (other, Unbounded) => other.clone(),
        (Included(p) | Excluded(p), Included(q) | Excluded(q)) if p == q => {
            if matches!(x, Excluded(_)) { x.clone() } else { y.clone() }
        }
        (Included(p) | Excluded(p), Included(q) | Excluded(q)) => {
            if (p > q) == larger {
                x.clone()
            } else {
                y.clone()
            }
        }
    };
    let low = tighter(&a.low, &b.low, true);
    let high = tighter(&a.high, &b.high, false);
    let empty = match (&low, &high) {
        (Included(l), Included(h)) => l > h,
        (Included(l) | Excluded(l), Included(h) | Excluded(h)) => l >= h,
        _ => false,
    };
    (!empty).then_some(Interval { low, high })
}

/// A node of a plan as text, for `explain`.
pub(crate) struct PlanDisplay<'a>(pub(crate) &'a Plan, pub(crate) &'a Node, pub(crate) &'a Schema);

impl fmt::Display for PlanDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanDisplay(plan, node, schema) = self;
        match node {
            Node::All => f.write_str("all"),
            Node::Nothing => f.write_str("nothing"),
            Node::Leaf(i, negate) => {
                let leaf = &plan.leaves[*i];
                f.write_str(if *negate { "not " } else { "" })?;
                let name = &schema.fields[leaf.field].name;
                match &leaf.test {
                    Test::Exists => write!(f, "exists {name}"),
                    Test::Range(_) => write!(f, "{name} in a range"),
                    Test::Points(keys) if keys.len() == 1 => write!(f, "{name} = one value"),
                    Test::Points(keys) => write!(f, "{name} in {} values", keys.len()),
                }
            }
            Node::And(parts) | Node::Or(parts) => {
                let word = if matches!(node, Node::And(_)) { " and " } else { " or " };
                f.write_str("(")?;
                for (i, part) in parts.iter().enumerate() {
                    write!(
                        f,
                        "{}{}",
                        if i == 0 { "" } else { word },
                        PlanDisplay(plan, part, schema)
                    )?;
                }
                f.write_str(")")
            }
        }
    }
}

/// Appends an ordinal to the intervals starting at index `first`, which ascend. Extends the last
/// interval if the ordinal is adjacent to it.
pub(crate) fn push_interval(intervals: &mut Vec<(u32, u32)>, first: usize, ord: u32) {
    match intervals[first..].last_mut() {
        Some(last) if last.1 == ord => last.1 = ord + 1,
        _ => intervals.push((ord, ord + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::model::query::{and, eq, gt, lt, not, or};
    use crate::search::{Roles, Type};

    fn plan(filter: &Filter) -> Plan {
        let fields = [("name", Type::String), ("n", Type::I64)];
        let fields = fields.map(|(name, ty)| Field::new(name, ty, Roles::FULL));
        let tags = Field::new("tags", Type::String, Roles::FILTERABLE).multi();
        let fields = fields.into_iter().chain([tags]);
        Plan::new(filter, &Schema::new(fields).unwrap()).unwrap()
    }

    #[test]
    fn equalities_under_or_become_one_leaf() {
        let names = (0..20_000u64).map(|i| eq("name", format!("x{}", i * 7919 % 15_000)));
        let numbers = (0..100i64).map(|i| eq("n", 99 - i));
        let plan = plan(&or(names.chain(numbers)));
        assert_eq!(plan.root, Node::Or(vec![Node::Leaf(0, false), Node::Leaf(1, false)]));
        let sizes = plan.leaves.iter().map(|leaf| match &leaf.test {
            Test::Points(keys) => {
                assert!(keys.is_sorted_by(|a, b| a < b));
                keys.len()
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [15_000, 100]);
    }

    #[test]
    fn negated_equalities_under_and_become_one_leaf() {
        let ranges = [gt("n", 1i64), lt("n", 9i64)];
        let nots = ["a", "b", "c"].map(|name| not(eq("name", name)));
        let plan = plan(&and(nots.into_iter().chain(ranges).chain([not(eq("n", 4i64))])));
        let leaves = [Node::Leaf(0, true), Node::Leaf(1, false), Node::Leaf(2, true)];
        assert_eq!(plan.root, Node::And(leaves.into()));
        assert!(matches!(&plan.leaves[0].test, Test::Points(keys) if keys.len() == 3));
        assert!(matches!(&plan.leaves[1].test, Test::Range(_)));
        let plan = self::plan(&or([not(eq("name", "a")), not(eq("name", "b"))]));
        assert_eq!(plan.leaves.len(), 2, "negated equalities under `or` stay separate");
        let plan = self::plan(&and([not(eq("tags", "a")), not(eq("tags", "b"))]));
        assert_eq!(plan.leaves.len(), 2, "the field is multi-valued");
    }

    #[test]
    fn unreferenced_leaves_are_dropped() {
        let nothing = and([gt("n", 5i64), lt("n", 3i64)]);
        let last = and([not(eq("name", "a")), gt("n", 1i64), lt("n", 9i64)]);
        let plan = plan(&or([nothing, eq("name", "x"), last, eq("name", "y")]));
        let and = Node::And(vec![Node::Leaf(1, true), Node::Leaf(2, false)]);
        assert_eq!(plan.root, Node::Or(vec![Node::Leaf(0, false), and]));
        let fields: Vec<usize> = plan.leaves.iter().map(|leaf| leaf.field).collect();
        assert_eq!(fields, [0, 0, 1]);
        assert!(matches!(&plan.leaves[0].test, Test::Points(keys) if keys.len() == 2));
    }
}
