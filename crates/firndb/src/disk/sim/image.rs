//! What a disk may look like after a power cut.
//!
//! Three things may each be there or not: a change of a name that no `sync_dir` followed, and the
//! sectors of a file that no `sync` followed, and the file's length up to them. Synced bytes and
//! names are in every image. A sector is 512 bytes: the most that a drive writes whole.

use super::{Content, Node, SimDisk, State, is_root, parent, settle};
use crate::testing::Rng;
use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const SECTOR: usize = 512;

/// What became of the bytes of a file that were not synced.
#[derive(Clone, Copy)]
enum Tail {
    Kept,
    Dropped,
    /// The length was written, the bytes were not.
    Zeros,
    /// As `Zeros`, on a disk that was used before.
    Garbage,
    /// Some sectors of it, up to some sector.
    Torn,
    /// The sectors whose bits are set, counted from the first that is not durable; zeros else.
    Sectors(u64),
    /// Each sector as it was after some append, each after another one.
    Older,
    /// The sector in which the durable part ends is garbage: the drive was rewriting it.
    Spoiled,
}

impl SimDisk {
    /// Up to `max` states of this disk after a power cut now, all different, each with a label
    /// that names the cut. First the plain ones (all kept, all lost, only names, only data, one
    /// thing lost), then random mixtures. The same seed gives the same images.
    pub(crate) fn images(&self, seed: u64, max: usize) -> Vec<(String, Arc<SimDisk>)> {
        let state = self.state();
        let mut found = Images { seen: HashSet::new(), list: Vec::new(), at: state.log.len() };
        let random = RefCell::new(Rng(seed ^ (state.log.len() as u64) << 32));
        let mut add = |what: String, name: &dyn Fn(usize) -> bool, tail: &dyn Fn(usize) -> Tail| {
            if found.list.len() < max {
                found.add(&what, state.image(name, tail, &random));
            }
        };

        add("all kept".into(), &|_| true, &|_| Tail::Kept);
        add("all dropped".into(), &|_| false, &|_| Tail::Dropped);
        for (what, tail) in
            [("dropped", Tail::Dropped), ("zeros", Tail::Zeros), ("garbage", Tail::Garbage)]
        {
            add(format!("names kept, data {what}"), &|_| true, &|_| tail);
        }
        add("names dropped, data kept".into(), &|_| false, &|_| Tail::Kept);
        for n in 0..state.pending.len() {
            add(format!("name change {n} lost"), &|i| i != n, &|_| Tail::Kept);
            add(format!("only name change {n} kept"), &|i| i == n, &|_| Tail::Kept);
        }
        for id in (0..state.files.len()).filter(|&id| state.files[id].is_unsynced()) {
            let lost = |i| if i == id { Tail::Dropped } else { Tail::Kept };
            add(format!("data of file {id} lost"), &|_| true, &lost);
        }
        if !state.pending.is_empty() || state.files.iter().any(Content::is_unsynced) {
            for n in 0..4 * max {
                let chance = random.borrow_mut().below(4);
                let name = |_| random.borrow_mut().below(4) >= chance;
                add(format!("mixture {n} of seed {seed}"), &name, &|_| random.borrow_mut().tail());
            }
        }
        found.list
    }
}

/// Files with at most this many sectors that are not durable are shown in all their subsets.
const SUBSETS_MAX: usize = 5;

impl SimDisk {
    /// Up to `max` more states after a power cut now, in which all names are kept and a file lost
    /// some of its sectors: every subset if there are few of them, every prefix, and sectors that
    /// reached the disk at different moments.
    pub(crate) fn sector_images(&self, seed: u64, max: usize) -> Vec<(String, Arc<SimDisk>)> {
        let state = self.state();
        let mut found = Images { seen: HashSet::new(), list: Vec::new(), at: state.log.len() };
        let random = RefCell::new(Rng(seed ^ (state.log.len() as u64) << 32));
        found.seen.insert(state.image(&|_| true, &|_| Tail::Kept, &random).digest());
        for id in (0..state.files.len()).filter(|&id| state.files[id].is_unsynced()) {
            let sectors = state.files[id].unsynced_sectors();
            let all = 1u64.checked_shl(sectors as u32).unwrap_or(0).wrapping_sub(1);
            let masks: Vec<u64> = match sectors {
                0..=SUBSETS_MAX => (0..all).collect(),
                _ => (0..sectors.min(63)).flat_map(|n| [(1 << n) - 1, all ^ 1 << n]).collect(),
            };
            let older = (0..max / 4).map(|_| Tail::Older);
            for tail in masks.into_iter().map(Tail::Sectors).chain(older) {
                if found.list.len() >= max {
                    return found.list;
                }
                let what = match tail {
                    Tail::Sectors(mask) => format!("sectors {mask:b} of file {id} kept"),
                    _ => format!("older sectors of file {id}, seed {seed}"),
                };
                let tails = |i| if i == id { tail } else { Tail::Kept };
                found.add(&what, state.image(&|_| true, &tails, &random));
            }
        }
        found.list
    }

    /// This disk after a power cut now that destroyed the sectors which hold the ends of what is
    /// durable in each file, where more was on its way into them.
    pub(crate) fn spoiled_sectors(&self, seed: u64) -> Arc<SimDisk> {
        let random = RefCell::new(Rng(seed));
        SimDisk::with(self.state().image(&|_| true, &|_| Tail::Spoiled, &random))
    }

    /// A hash of all names and bytes.
    pub(crate) fn digest(&self) -> u64 {
        self.state().digest()
    }
}

struct Images {
    seen: HashSet<u64>,
    list: Vec<(String, Arc<SimDisk>)>,
    at: usize,
}

impl Images {
    fn add(&mut self, what: &str, image: State) {
        if self.seen.insert(image.digest()) {
            let label = format!("power cut before operation {}, {what}", self.at);
            self.list.push((label, SimDisk::with(image)));
        }
    }
}

impl State {
    /// The disk after a reboot: the pending changes of which `name` says so, by number, and of each
    /// file what `tail` says, by number.
    fn image(
        &self,
        name: &dyn Fn(usize) -> bool,
        tail: &dyn Fn(usize) -> Tail,
        random: &RefCell<Rng>,
    ) -> State {
        let mut names = self.durable.clone();
        settle(&mut names, self.pending.clone(), |n, _| name(n));
        let mut image = State::default();
        for (path, node) in names {
            // A directory that was lost took its files along. Parents sort before children.
            let dir = parent(&path);
            if !is_root(dir) && image.names.get(dir) != Some(&Node::Dir) {
                continue;
            }
            let node = match node {
                Node::Dir => Node::Dir,
                Node::File(id) => {
                    let left = self.files[id].after_cut(tail(id), &mut random.borrow_mut());
                    image.files.push(left);
                    Node::File(image.files.len() - 1)
                }
            };
            image.names.insert(path, node);
        }
        image.durable = image.names.clone();
        image.mounts = self.mounts.clone();
        // A removal that was lost takes its space back.
        image.space = self.space.map(|space| space.max(image.used()));
        image.is_sparse = self.is_sparse;
        image
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, node) in &self.names {
            path.hash(&mut hasher);
            match node {
                Node::Dir => 0.hash(&mut hasher),
                Node::File(id) => {
                    self.files[*id].bytes.hash(&mut hasher);
                    self.files[*id].capacity.hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }
}

impl Content {
    /// Number of sectors that hold bytes which are not durable.
    fn unsynced_sectors(&self) -> usize {
        self.bytes.len().div_ceil(SECTOR) - (self.synced / SECTOR).min(self.bytes.len() / SECTOR)
    }

    fn is_unsynced(&self) -> bool {
        self.synced < self.bytes.len() || self.reserved < self.capacity
    }

    /// What is left: what was synced, and of the rest what `tail` says.
    fn after_cut(&self, tail: Tail, random: &mut Rng) -> Content {
        let mut bytes = self.bytes_after_cut(tail, random);
        bytes.extend_from_slice(self.under.get(bytes.len()..).unwrap_or(&[]));
        let kept = match tail {
            Tail::Dropped => self.reserved,
            _ => self.capacity,
        };
        let capacity = kept.max(self.reserved);
        let synced = bytes.len();
        let is_sparse = self.is_sparse;
        Content { synced, bytes, capacity, reserved: capacity, is_sparse, ..Content::default() }
    }

    /// Up to `to` there is what was there before: zeros, in most files.
    fn lose(&self, left: &mut Vec<u8>, to: usize) {
        let under = self.under.get(left.len()..to.min(self.under.len())).unwrap_or(&[]);
        left.extend_from_slice(under);
        left.resize(to, 0);
    }

    fn bytes_after_cut(&self, tail: Tail, random: &mut Rng) -> Vec<u8> {
        let length = self.bytes.len();
        let mut left = self.bytes[..self.synced].to_vec();
        match tail {
            Tail::Kept if !self.doomed => left.extend_from_slice(&self.bytes[self.synced..]),
            Tail::Dropped => {}
            Tail::Kept | Tail::Zeros => self.lose(&mut left, length),
            Tail::Garbage => left.extend((self.synced..length).map(|_| random.next() as u8)),
            Tail::Sectors(mask) => {
                let first = self.synced / SECTOR;
                while left.len() < length {
                    let (from, sector) = (left.len(), left.len() / SECTOR);
                    let to = length.min((sector + 1) * SECTOR);
                    let is_kept = mask >> (sector - first).min(63) & 1 == 1 && !self.doomed;
                    left.extend_from_slice(if is_kept { &self.bytes[from..to] } else { &[] });
                    self.lose(&mut left, to);
                }
            }
            Tail::Older if !self.doomed => {
                while left.len() < length {
                    let from = left.len();
                    let to = length.min((from / SECTOR + 1) * SECTOR);
                    // What the file's length was when this sector was written, or before that.
                    let then = match self.marks.len() as u64 {
                        0 => to,
                        n => self.marks[random.below(n) as usize].clamp(from, to),
                    };
                    left.extend_from_slice(&self.bytes[from..then]);
                    self.lose(&mut left, to);
                }
            }
            Tail::Older => {}
            Tail::Spoiled => {
                if !self.synced.is_multiple_of(SECTOR) && self.synced < length {
                    left.truncate(self.synced / SECTOR * SECTOR);
                    let to = length.min(left.len() + SECTOR);
                    left.extend((left.len()..to).map(|_| random.next() as u8));
                }
                self.lose(&mut left, length);
            }
            Tail::Torn => {
                let sectors = (length - self.synced).div_ceil(SECTOR) as u64;
                let end = self.synced / SECTOR + random.below(sectors + 2) as usize;
                let in_order = random.below(2) == 0;
                while left.len() < length.min(end * SECTOR) {
                    let from = left.len();
                    let to = length.min((from / SECTOR + 1) * SECTOR);
                    match random.below(4) {
                        0 if !in_order => self.lose(&mut left, to),
                        1 if !in_order => left.extend((from..to).map(|_| random.next() as u8)),
                        _ if self.doomed => self.lose(&mut left, to),
                        _ => left.extend_from_slice(&self.bytes[from..to]),
                    }
                }
            }
        }
        left
    }
}

impl Rng {
    fn tail(&mut self) -> Tail {
        match self.below(6) {
            0 => Tail::Kept,
            1 => Tail::Dropped,
            2 => Tail::Zeros,
            3 => Tail::Garbage,
            _ => Tail::Torn,
        }
    }
}
