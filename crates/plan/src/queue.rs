//! The queue: which units are offered to which workers.
//!
//! Most ranges that are offered are *fresh*: any worker may have them, and [regions](super::regions) say which worker
//! gets which. The other units are grouped by the parties that have found them or hold them, and so may not have
//! them. So a worker that may have none of a thousand units skips them as one group.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::{Party, Unit, WorkerId};
use super::regions::Fresh;
use super::units::{priority, unit_at};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OfferKind {
    Work,
    Checks,
    /// Units that another worker is slow with.
    Slow,
}

/// The kind of an offer, the layer of the unit, and the parties that may not have it.
pub(super) type Offer = (OfferKind, u32, Vec<Party>);

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) fresh: Fresh,
    /// The offered units that are not in `fresh`, by offer.
    groups: BTreeMap<Offer, BTreeSet<u64>>,
    /// The same by unit.
    offers: BTreeMap<Unit, Offer>,
    pub(super) offered_checks: u64,
}

impl Queue {
    pub(super) fn new(head_bits: u32) -> Queue {
        Queue {
            fresh: Fresh::new(head_bits),
            groups: BTreeMap::new(),
            offers: BTreeMap::new(),
            offered_checks: 0,
        }
    }

    /// Offers a unit, or withdraws its offer. Returns whether workers may have it now that might not before.
    pub(super) fn set_offer(&mut self, unit: Unit, offer: Option<Offer>) -> bool {
        let (layer, number) = priority(unit);
        let is_range = matches!(unit, Unit::Range(_));
        let is_fresh = is_range && offer == Some((OfferKind::Work, layer, Vec::new()));
        let was_fresh = self.fresh.remove((layer, number));
        let before = self.offers.remove(&unit);
        let is_new = offer.is_some() && offer != before && !(is_fresh && was_fresh);
        if let Some(before) = before {
            let group = self.groups.get_mut(&before).expect("it is in its group");
            group.remove(&number);
            if group.is_empty() {
                self.groups.remove(&before);
            }
            self.offered_checks -= u64::from(before.0 == OfferKind::Checks);
        }
        if is_fresh {
            self.fresh.insert((layer, number));
        } else if let Some(offer) = offer {
            let group = self.groups.entry(offer.clone()).or_default();
            group.insert(number);
            self.offered_checks += u64::from(offer.0 == OfferKind::Checks);
            self.offers.insert(unit, offer);
        }
        is_new
    }

    /// The offer of a unit.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn offer(&self, unit: Unit) -> Option<Offer> {
        let priority = priority(unit);
        let is_fresh = self.fresh.all.contains(&priority);
        let fresh = is_fresh.then(|| (OfferKind::Work, priority.0, Vec::new()));
        fresh.or_else(|| self.offers.get(&unit).cloned())
    }

    /// The groups of this kind of offer, ascending by layer.
    fn groups(&self, kind: OfferKind) -> impl Iterator<Item = (&Offer, &BTreeSet<u64>)> {
        let groups = self.groups.range((kind, 0, Vec::new())..);
        groups.take_while(move |(offer, _)| offer.0 == kind)
    }

    /// Whether there may be a unit for a worker that waits. `idle` says whether that worker would idle.
    pub(super) fn has_offers(&self, idle: bool) -> bool {
        self.fresh.is_wanted(idle) || !self.groups.is_empty()
    }

    /// At most `most` units of the lowest layer that has any for `worker`, ascending: units that others have begun, or
    /// if there are none, the fresh ones of the worker's [pile](Fresh::pile).
    pub(super) fn units_for(
        &self,
        worker: WorkerId,
        kind: OfferKind,
        idle: bool,
        most: impl Fn(u32) -> usize,
    ) -> Option<Vec<Unit>> {
        let admits = |offer: &Offer| !offer.2.iter().any(|party| party.includes(worker));
        let mut groups = self.groups(kind);
        let begun = groups.find(|(offer, _)| admits(offer));
        let pile = self
            .fresh
            .pile(worker, idle)
            .filter(|_| kind == OfferKind::Work);
        let fresh = pile.and_then(|pile| Some(pile.first()?.0));
        if let Some((&(_, layer, _), numbers)) = begun
            && fresh.is_none_or(|fresh| layer <= fresh)
        {
            let numbers = numbers.iter().take(most(layer));
            return Some(numbers.map(|&number| unit_at((layer, number))).collect());
        }
        let layer = fresh?;
        let units = pile?.iter().take_while(|unit| unit.0 == layer);
        Some(units.take(most(layer)).copied().map(unit_at).collect())
    }
}
