//! The bytes of one file: what programs read, and what the platter has.
//!
//! Programs read and write `pages`, the cache. For each sector that differs on the platter,
//! `behind` keeps what the platter has. A sync forgets these entries, and a crash puts some of them
//! back.
//!
//! *Invariants*:
//!
//! 1. A sector without an entry in `behind` is the same on the platter.
//! 2. The pages have zeros behind the end of the file.
//!
//! | event | a dirty sector | a sector of a failed sync |
//! | --- | --- | --- |
//! | written again | the older version may be on the platter now: a coin decides | is dirty again |
//! | sync | is on the platter | stays behind, as in Linux |
//! | failed sync | is on the platter, or is no longer dirty: a coin decides | stays behind |
//! | crash | is kept, lost or torn | is lost |
//!
//! A length is behind in the same way. A crash leaves the old one, the new one, or one in between
//! at the end of a sector. What is lost in the middle of a longer file reads as zeros.
//!
//! Rejected: a log of all writes, to be replayed in part. It grows with each write, and its states
//! are the same, but for a sector that was written more than twice.

use std::{collections::BTreeMap, mem};

use super::dice::Dice;

/// Bytes that the platter writes whole, unless a fault tears them.
pub(super) const SECTOR: usize = 512;

/// Bytes of a page, the unit in which space is taken.
pub(super) const PAGE: usize = 4096;

type Sector = [u8; SECTOR];

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Contents {
    len: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    behind: BTreeMap<u64, Behind>,
    platter_len: u64,
    /// Since when something is dirty, in nanoseconds of the simulation.
    dirty_since: Option<u64>,
}

/// A sector that differs on the platter.
#[derive(Debug)]
struct Behind {
    /// None is zeros.
    platter: Option<Box<Sector>>,
    /// The next sync writes it.
    is_dirty: bool,
}

/// The part of each unit of `size` bytes that a range covers: the unit, where, and the length.
fn units(at: u64, len: usize, size: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at + len as u64;
    let mut next = at;
    std::iter::from_fn(move || {
        let (unit, from) = (next / size as u64, (next % size as u64) as usize);
        let part = ((end - next) as usize).min(size - from);
        next += part as u64;
        (part > 0).then_some((unit, from, part))
    })
}

impl Contents {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Pages that it takes.
    pub(super) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Pages that a write there would take on top.
    pub(super) fn missing(&self, at: u64, len: usize) -> u64 {
        let missing = units(at, len, PAGE).filter(|(page, ..)| !self.pages.contains_key(page));
        missing.count() as u64
    }

    /// Reads from `at`, and gives the number of bytes.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let len = into.len().min(self.len.saturating_sub(at) as usize);
        let mut rest = &mut into[..len];
        for (page, from, part) in units(at, len, PAGE) {
            let (here, later) = mem::take(&mut rest).split_at_mut(part);
            match self.pages.get(&page) {
                Some(bytes) => here.copy_from_slice(&bytes[from..from + part]),
                None => here.fill(0),
            }
            rest = later;
        }
        len
    }

    /// The next place at or after `at` that is in a page, or in none if `hole`.
    pub(super) fn seek(&self, at: u64, hole: bool) -> Option<u64> {
        if at >= self.len {
            return None;
        }
        let mut page = at / PAGE as u64;
        if hole {
            while self.pages.contains_key(&page) {
                page += 1;
            }
        } else {
            page = *self.pages.range(page..).next()?.0;
        }
        let found = (page * PAGE as u64).max(at);
        match (found < self.len, hole) {
            (true, _) => Some(found),
            (false, true) => Some(self.len),
            (false, false) => None,
        }
    }

    fn sector(&self, sector: u64) -> Option<Box<Sector>> {
        let at = sector * SECTOR as u64;
        let page = self.pages.get(&(at / PAGE as u64))?;
        let from = (at % PAGE as u64) as usize;
        let bytes: Sector = page[from..from + SECTOR].try_into().expect("it is whole");
        Some(Box::new(bytes))
    }

    fn put_sector(&mut self, sector: u64, bytes: Option<&Sector>) {
        let at = sector * SECTOR as u64;
        let (page, from) = (at / PAGE as u64, (at % PAGE as u64) as usize);
        let place = match bytes {
            Some(_) => self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE])),
            None => match self.pages.get_mut(&page) {
                Some(place) => place,
                None => return,
            },
        };
        place[from..from + SECTOR].copy_from_slice(bytes.unwrap_or(&[0; SECTOR]));
    }

    /// Notes that a sector changes now.
    fn dirties(&mut self, sector: u64, dice: &mut Dice) {
        match self.behind.get(&sector) {
            Some(behind) if behind.is_dirty => {
                if dice.coin() {
                    let platter = self.sector(sector);
                    self.behind.insert(
                        sector,
                        Behind {
                            platter,
                            is_dirty: true,
                        },
                    );
                }
            }
            Some(_) => {
                let behind = self.behind.get_mut(&sector);
                behind.expect("it was there").is_dirty = true;
            }
            None => {
                let platter = self.sector(sector);
                self.behind.insert(
                    sector,
                    Behind {
                        platter,
                        is_dirty: true,
                    },
                );
            }
        }
    }

    /// Writes at `at`.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8], now: u64, dice: &mut Dice) {
        self.dirty_since.get_or_insert(now);
        for (sector, ..) in units(at, bytes.len(), SECTOR) {
            self.dirties(sector, dice);
        }
        let mut rest = bytes;
        for (page, from, part) in units(at, bytes.len(), PAGE) {
            let (here, later) = rest.split_at(part);
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE]));
            page[from..from + part].copy_from_slice(here);
            rest = later;
        }
        self.len = self.len.max(at + bytes.len() as u64);
    }

    /// Sets the length. What is cut off is gone, and what is added is zeros.
    pub(super) fn set_len(&mut self, len: u64, now: u64, dice: &mut Dice) {
        if len != self.len {
            self.dirty_since.get_or_insert(now);
        }
        self.zero(len, self.len.saturating_sub(len), dice);
        self.len = len;
        let first = len.div_ceil(PAGE as u64);
        drop(self.pages.split_off(&first));
    }

    /// Fills a range with zeros, and gives whole pages of it back.
    pub(super) fn punch(&mut self, at: u64, len: u64, now: u64, dice: &mut Dice) {
        let end = (at + len).min(self.len.next_multiple_of(PAGE as u64));
        self.clear(at, end.saturating_sub(at), now, dice);
        let whole = at.div_ceil(PAGE as u64)..end / PAGE as u64;
        if !whole.is_empty() {
            self.pages.retain(|page, _| !whole.contains(page));
        }
    }

    /// Fills a range with zeros, and keeps its pages.
    pub(super) fn clear(&mut self, at: u64, len: u64, now: u64, dice: &mut Dice) {
        self.dirty_since.get_or_insert(now);
        self.zero(at, len, dice);
    }

    fn zero(&mut self, at: u64, len: u64, dice: &mut Dice) {
        let pages = at / PAGE as u64..(at + len).div_ceil(PAGE as u64);
        let present: Vec<u64> = self.pages.range(pages).map(|(page, _)| *page).collect();
        for page in present {
            let start = at.max(page * PAGE as u64);
            let end = (at + len).min((page + 1) * PAGE as u64);
            for (sector, from, part) in units(start, (end - start) as usize, SECTOR) {
                self.dirties(sector, dice);
                let from = (sector * SECTOR as u64 % PAGE as u64) as usize + from;
                let bytes = self.pages.get_mut(&page).expect("it is present");
                bytes[from..from + part].fill(0);
            }
        }
    }

    /// Takes pages for a range, without a change of what is read.
    pub(super) fn reserve(&mut self, at: u64, len: usize) {
        for (page, ..) in units(at, len, PAGE) {
            self.pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE]));
        }
    }

    /// All that is dirty is on the platter.
    pub(super) fn sync(&mut self) {
        self.behind.retain(|_, behind| !behind.is_dirty);
        self.platter_len = self.len;
        self.dirty_since = None;
    }

    /// The same, if something is dirty since a time before `since`.
    pub(super) fn sync_if_older(&mut self, since: u64) {
        if self.dirty_since.is_some_and(|dirty| dirty < since) {
            self.sync();
        }
    }

    /// A sync that fails: what did not reach the platter is not dirty any more.
    pub(super) fn fail_to_sync(&mut self, dice: &mut Dice) {
        self.behind.retain(|_, behind| {
            let is_lost = !behind.is_dirty || dice.coin();
            behind.is_dirty = false;
            is_lost
        });
    }

    /// What is left after a crash. `tear_ppm`: the chance that a dirty sector is torn.
    pub(super) fn crash(&mut self, tear_ppm: u32, dice: &mut Dice) {
        let len = self.len_after_crash(dice);
        let behind = mem::take(&mut self.behind);
        // All lost, all kept, or each sector by itself.
        let way = if behind.is_empty() { 0 } else { dice.below(3) };
        for (sector, Behind { platter, is_dirty }) in behind {
            // The cut is lost, so its zeros are as well.
            let is_cut = len > self.len && (sector + 1) * SECTOR as u64 > self.len;
            let is_lost = !is_dirty || is_cut || way == 0 || way == 2 && dice.coin();
            if is_dirty && !is_cut && dice.chance(tear_ppm) {
                let mut torn = self.sector(sector).unwrap_or_else(|| Box::new([0; SECTOR]));
                let from = dice.below(SECTOR as u64) as usize;
                match &platter {
                    Some(old) => torn[from..].copy_from_slice(&old[from..]),
                    None => torn[from..].fill(0),
                }
                self.put_sector(sector, Some(&torn));
            } else if is_lost {
                self.put_sector(sector, platter.as_deref());
            }
        }
        self.len = len;
        let end = (len / PAGE as u64, (len % PAGE as u64) as usize);
        if let Some(page) = self.pages.get_mut(&end.0) {
            page[end.1..].fill(0);
        }
        drop(self.pages.split_off(&len.div_ceil(PAGE as u64)));
        (self.platter_len, self.dirty_since) = (len, None);
    }

    fn len_after_crash(&self, dice: &mut Dice) -> u64 {
        let (old, new) = (self.platter_len, self.len);
        if old == new {
            return new;
        }
        match dice.below(3) {
            0 => old,
            2 if old < new => {
                let at = old + dice.below(new - old);
                (at - at % SECTOR as u64).max(old)
            }
            _ => new,
        }
    }

    /// Turns one bit, in the cache and on the platter. False if the file is empty.
    pub(super) fn rot(&mut self, dice: &mut Dice) -> bool {
        if self.len == 0 {
            return false;
        }
        let at = dice.below(self.len);
        let bit = 1_u8 << dice.below(8);
        let page = self.pages.entry(at / PAGE as u64);
        page.or_insert_with(|| Box::new([0; PAGE]))[(at % PAGE as u64) as usize] ^= bit;
        if let Some(behind) = self.behind.get_mut(&(at / SECTOR as u64)) {
            let platter = behind.platter.get_or_insert_with(|| Box::new([0; SECTOR]));
            platter[(at % SECTOR as u64) as usize] ^= bit;
        }
        true
    }
}
