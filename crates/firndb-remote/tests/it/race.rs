//! Tests of concurrent publishers: one succeeds, the others get `AlreadyExists`, and no version is
//! lost.

use super::*;
use firndb::ErrorKind;
use firndb::catalog::Origin;
use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};

const PUBLISHERS: u64 = 8;

/// Several publishers publish `rounds` versions each, and retry after a conflict.
pub fn race(catalogs: Vec<Catalog>, rounds: u64) {
    let place = Place::new();
    let begin = Barrier::new(catalogs.len());
    let publishers = catalogs.len() as u64;
    let outcomes: Vec<(BTreeSet<String>, u64)> = std::thread::scope(|scope| {
        let (place, begin) = (&place, &begin);
        let publisher = |(who, catalog): (usize, &Catalog)| {
            let (catalog, mut ids, mut lost) = (catalog.clone(), BTreeSet::new(), 0);
            scope.spawn(move || {
                for round in 0..rounds {
                    let table = place.table(who as u64 * rounds + round, 100);
                    begin.wait();
                    loop {
                        match publish(&catalog, "words", &table) {
                            Ok(published) => {
                                ids.insert(published.version.id);
                                break;
                            }
                            Err(e) => {
                                assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
                                assert!(e.message().contains("publish again"), "{e}");
                                lost += 1;
                            }
                        }
                    }
                }
                (ids, lost)
            })
        };
        let all: Vec<_> = catalogs.iter().enumerate().map(publisher).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let catalog = &catalogs[0];
    let numbers = catalog.versions("words").unwrap();
    assert_eq!(numbers, (1..=publishers * rounds).collect::<Vec<_>>());
    let there: BTreeSet<String> =
        numbers.iter().map(|&n| catalog.version("words", n).unwrap().id).collect();
    let published: BTreeSet<String> = outcomes.iter().flat_map(|(ids, _)| ids.clone()).collect();
    assert_eq!(there, published, "a version was lost, or is there and nobody was told");
    for number in numbers {
        catalog.verify(&catalog.version("words", number).unwrap(), |_| ()).unwrap();
    }
    let lost: u64 = outcomes.iter().map(|(_, lost)| lost).sum();
    assert!(lost > 0, "nobody was ever second: this proves nothing");
}

#[test]
fn concurrent_publishers_in_a_directory() {
    let place = Place::new();
    let catalog = || Catalog::create(place.path("catalog")).unwrap();
    race(vec![catalog(), catalog()], 40);
}

#[test]
fn concurrent_publishers_in_an_object_store() {
    let Some(moto) = Moto::shared("concurrent_publishers_in_an_object_store") else { return };
    moto.bucket("race");
    let catalog = |_| Catalog::at(Arc::new(origin(&moto, "race", "p")));
    race((0..PUBLISHERS).map(catalog).collect(), 2);
}

#[test]
fn create_is_exclusive() {
    let Some(moto) = Moto::shared("create_is_exclusive") else { return };
    moto.bucket("create");
    let origins: Vec<_> = (0..PUBLISHERS).map(|_| origin(&moto, "create", "p")).collect();
    let begin = Barrier::new(origins.len());
    for round in 0..20 {
        let object = format!("a/{round}");
        let winners: Vec<u64> = std::thread::scope(|scope| {
            let (object, begin) = (&object, &begin);
            let creator = |(who, origin)| {
                scope.spawn(move || {
                    let origin: &dyn Origin = origin;
                    begin.wait();
                    match origin.create(object, format!("by {who}").as_bytes()) {
                        Ok(()) => Some(who as u64),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
                            None
                        }
                    }
                })
            };
            let all: Vec<_> = origins.iter().map(|o| o as _).enumerate().map(creator).collect();
            all.into_iter().filter_map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(winners.len(), 1, "round {round}");
        let there = origins[0].read(&object, 0, 99).unwrap();
        assert_eq!(there, format!("by {}", winners[0]).as_bytes());
    }
}
