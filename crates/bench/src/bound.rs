//! What a figure is meant to be at least, or at most.

/// A bound of an aim.
pub enum Bound {
    /// Holds for values as large, or larger.
    AtLeast(f64),
    /// Holds for values as small, or smaller.
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

    /// What a table says of a value: whether the aim was reached.
    pub fn verdict(&self, value: f64) -> &'static str {
        if self.holds(value) { "reached" } else { "**missed**" }
    }

    /// In words.
    pub fn text(&self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("at least {bound}"),
            Bound::AtMost(bound) => format!("at most {bound}"),
        }
    }
}
