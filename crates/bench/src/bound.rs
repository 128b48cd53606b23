//! Bounds of targets.

/// A bound of a target.
pub enum Bound {
    /// Holds for values of at least this.
    AtLeast(f64),
    /// Holds for values of at most this.
    AtMost(f64),
}

impl Bound {
    /// Whether a value is within it.
    pub fn holds(&self, value: f64) -> bool {
        match *self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        }
    }

    /// The mark in a table: whether the target is met.
    pub fn verdict(&self, value: f64) -> &'static str {
        if self.holds(value) { "met" } else { "**missed**" }
    }

    /// The bound in words.
    pub fn text(&self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("at least {bound}"),
            Bound::AtMost(bound) => format!("at most {bound}"),
        }
    }
}
