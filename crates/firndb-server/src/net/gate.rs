//! Limits the number of connections, in total and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits the number of connections.
pub struct Gate {
    total: usize,
    per_address: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The place of a connection; dropping it lets another one in.
pub struct Place {
    gate: Arc<Gate>,
    address: IpAddr,
}

impl Gate {
    /// Allows `total` connections at a time, `per_address` of them from the same address.
    pub fn new(total: usize, per_address: usize) -> Arc<Gate> {
        Arc::new(Gate { total, per_address, open: Mutex::default() })
    }

    /// A place for a connection; `None` if there is none.
    pub fn enter(self: &Arc<Gate>, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut open = self.open();
        if open.total >= self.total {
            return None;
        }
        let here = open.by_address.entry(address).or_default();
        if *here >= self.per_address {
            return None;
        }
        *here += 1;
        open.total += 1;
        drop(open);
        Some(Place { gate: self.clone(), address })
    }

    /// The number of open connections.
    pub fn len(&self) -> usize {
        self.open().total
    }

    /// Whether no connection is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.gate.open();
        open.total -= 1;
        if let Some(here) = open.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_returned() {
        let gate = Gate::new(3, 2);
        let [a, b]: [IpAddr; 2] = ["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
        // The same address in the form of IPv6.
        let a6: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        let first = gate.enter(a).unwrap();
        let _second = gate.enter(a6).unwrap();
        assert!(gate.enter(a).is_none());
        let _third = gate.enter(b).unwrap();
        assert!(gate.enter(b).is_none());
        drop(first);
        assert!(gate.enter(a6).is_some());
        assert_eq!(gate.len(), 2);
        assert_eq!(gate.open().by_address.len(), 2);
    }
}
