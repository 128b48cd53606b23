//! From a filter to a plan: names become field numbers, literals become key ranges, the tree is
//! normalised.
//!
//! `not` is pushed down to single conditions, nested `and`s and `or`s are flattened, ranges on a
//! single-valued field under one `and` become one range, points on a field under one `or` become
//! one list. What can be decided without documents is decided here: a condition that no value can
//! satisfy is `Nothing`.

use super::condition::{Interval, between, interval, key_of, prefix_interval};
use super::parse::MAX_DEPTH;
use super::query::{Filter, Op};
use super::schema::{Field, Schema};
use super::value::Key;
use crate::{Error, Result};
use std::fmt;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// A filter ready to be run on partitions.
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
    /// Number of a leaf; true if negated.
    Leaf(usize, bool),
    And(Vec<Node>),
    Or(Vec<Node>),
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    /// Field number in the reader's schema.
    pub(crate) field: usize,
    pub(crate) test: Test,
}

/// Which keys satisfy a leaf.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// These, ascending and distinct.
    Points(Vec<Key>),
    Range(Interval),
    /// Any.
    Exists,
}

impl Plan {
    /// Compiles a filter against the fields of a reader.
    pub(crate) fn new(filter: &Filter, schema: &Schema) -> Result<Plan> {
        let mut plan = Plan { root: Node::All, leaves: Vec::new() };
        plan.root = plan.node(filter, schema, false, 0)?;
        Ok(plan)
    }

    fn node(
        &mut self,
        filter: &Filter,
        schema: &Schema,
        negate: bool,
        depth: usize,
    ) -> Result<Node> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(format!("a filter nests at most {MAX_DEPTH} deep")));
        }
        let test = match filter {
            Filter::All => return Ok(constant(!negate)),
            Filter::Not(inner) => return self.node(inner, schema, !negate, depth + 1),
            Filter::And(parts) => return self.list(parts, schema, negate, depth, !negate),
            Filter::Or(parts) => return self.list(parts, schema, negate, depth, negate),
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

    /// An `and` or `or` of parts, each negated if `negate` (De Morgan has chosen `and` already).
    fn list(
        &mut self,
        parts: &[Filter],
        schema: &Schema,
        negate: bool,
        depth: usize,
        and: bool,
    ) -> Result<Node> {
        let mut nodes: Vec<Node> = Vec::with_capacity(parts.len());
        for part in parts {
            match self.node(part, schema, negate, depth + 1)? {
                Node::And(inner) if and => nodes.extend(inner),
                Node::Or(inner) if !and => nodes.extend(inner),
                node if node == constant(and) => {}
                node => nodes.push(node),
            }
        }
        if nodes.contains(&constant(!and)) {
            return Ok(constant(!and));
        }
        self.join(&mut nodes, schema, and);
        Ok(match nodes.len() {
            0 => constant(and),
            1 if nodes[0] == Node::Nothing => Node::Nothing,
            1 => nodes.remove(0),
            _ if and && nodes.contains(&Node::Nothing) => Node::Nothing,
            _ if and => Node::And(nodes),
            _ => Node::Or(nodes),
        })
    }

    /// Joins leaves of one field: ranges under `and`, points under `or`.
    fn join(&mut self, nodes: &mut Vec<Node>, schema: &Schema, and: bool) {
        let mut i = 0;
        while i < nodes.len() {
            let joined =
                (0..i).find_map(|j| Some((j, self.joined(&nodes[j], &nodes[i], schema, and)?)));
            match joined {
                Some((j, node)) => {
                    nodes[j] = node;
                    nodes.remove(i);
                }
                None => i += 1,
            }
        }
    }

    fn joined(&mut self, a: &Node, b: &Node, schema: &Schema, and: bool) -> Option<Node> {
        let (Node::Leaf(a, false), Node::Leaf(b, false)) = (a, b) else { return None };
        let field = self.leaves[*a].field;
        if self.leaves[*b].field != field {
            return None;
        }
        match (&self.leaves[*a].test, &self.leaves[*b].test) {
            (Test::Range(x), Test::Range(y)) if and && !schema.fields[field].multi => {
                match intersect(x, y) {
                    Some(both) => self.leaves[*a].test = Test::Range(both),
                    None => return Some(Node::Nothing),
                }
            }
            (Test::Points(x), Test::Points(y)) if !and => {
                let mut keys: Vec<Key> = x.iter().chain(y).cloned().collect();
                keys.sort_unstable();
                keys.dedup();
                self.leaves[*a].test = Test::Points(keys);
            }
            _ => return None,
        }
        Some(Node::Leaf(*a, false))
    }
}

fn constant(everything: bool) -> Node {
    if everything { Node::All } else { Node::Nothing }
}

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

/// The field of this name, which must be filterable.
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
    let nothing = match (&low, &high) {
        (Included(l), Included(h)) => l > h,
        (Included(l) | Excluded(l), Included(h) | Excluded(h)) => l >= h,
        _ => false,
    };
    (!nothing).then_some(Interval { low, high })
}

/// The plan as text, for `explain`.
pub(crate) struct Shown<'a>(pub(crate) &'a Plan, pub(crate) &'a Node, pub(crate) &'a Schema);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(plan, node, schema) = self;
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
                    write!(f, "{}{}", if i == 0 { "" } else { word }, Shown(plan, part, schema))?;
                }
                f.write_str(")")
            }
        }
    }
}
