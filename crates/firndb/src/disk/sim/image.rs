//! The states in which a disk may be after power loss.
//!
//! Three things may or may not have reached the disk, independently: changes of names without a
//! `sync_dir`, sectors of a file without a `sync`, and the length of the file. Synced bytes and
//! names are in every image. A sector is 512 bytes, the largest atomic write of a drive.

use crate::disk::paths::parent;
use crate::disk::sim::state::{Content, Node, SimDisk, State, is_root, settle};
use crate::testing::Rng;
use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const SECTOR: usize = 512;

/// What happened to the unsynced bytes of a file.
#[derive(Clone, Copy)]
enum Tail {
    Kept,
    Dropped,
    /// The length was written, but not the bytes.
    Zeros,
    /// `Zeros` on a disk with old data.
    Garbage,
    /// Some sectors up to a random one.
    Torn,
    /// The sectors whose bits are set, counted from the first that is not durable; zeros elsewhere.
    Sectors(u64),
    /// Each sector in its state after a random append.
    Older,
    /// The sector that contains the end of the durable part is garbage, since the drive was
    /// rewriting it.
    Spoiled,
}

impl SimDisk {
    /// Up to `max` distinct states of this disk if the power failed now, each with a label. Starts
    /// with the simple ones (all kept, all lost, only names, only data, one item lost), followed by
    /// random mixtures. The same seed gives the same images.
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

/// For files with at most this many unsynced sectors, all subsets are generated.
const SUBSETS_MAX: usize = 5;

impl SimDisk {
    /// Up to `max` further states if the power failed now, in which all names are kept and one file
    /// lost some of its sectors: every subset if there are few, every prefix, and sectors that
    /// reached the disk at different times.
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

    /// This disk after power loss that destroyed, in each file, the sector that contains the end of
    /// the durable part while it was being rewritten.
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
    /// The disk after a reboot, with the pending changes that `name` selects by number, and with
    /// the tails of files that `tail` selects by number.
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
            // A lost directory loses its files. Parents sort before children.
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
        // If a removal was lost, its file still occupies space.
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
    /// Number of sectors with unsynced bytes.
    fn unsynced_sectors(&self) -> usize {
        self.bytes.len().div_ceil(SECTOR) - (self.synced / SECTOR).min(self.bytes.len() / SECTOR)
    }

    fn is_unsynced(&self) -> bool {
        self.synced < self.bytes.len() || self.reserved < self.capacity
    }

    /// The file after power loss: its synced bytes and the tail.
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

    /// Fills `left` up to `to` with the old durable content, which is zeros in most files.
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
                    // The length of the file at a time when this sector was written.
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
