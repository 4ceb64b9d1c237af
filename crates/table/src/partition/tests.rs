//! Ranks, mirror images and counts against lists of all partitions.

use super::*;
use crate::Position;
use crate::rng::Rng;

/// All partitions of `area` with rows of at most `longest`, made row by row.
fn all(area: u32, longest: u32) -> Vec<Vec<u32>> {
    if area == 0 {
        return vec![vec![]];
    }
    let with = |row: u32| {
        let rest = all(area - row, row);
        rest.into_iter().map(move |rest| [vec![row], rest].concat())
    };
    (1..=longest.min(area)).flat_map(with).collect()
}

#[test]
fn ranks_are_places_in_the_sorted_list_of_all() {
    for area in 0..=30 {
        let mut sorted = all(area, area);
        sorted.sort();
        assert_eq!(sorted.len() as u64, count(area));
        let mut walked = Partition::first(area);
        for (rank, rows) in (0..).zip(&sorted) {
            let partition = Partition::new(rows.clone()).unwrap();
            assert_eq!(partition.rank(), rank, "{partition}");
            assert_eq!(Partition::at(area, rank), partition);
            assert_eq!(walked, partition);
            assert_eq!(partition.area(), area);
            assert_eq!(walked.advance(), rank + 1 < count(area));
        }
        assert_eq!(walked.rows(), sorted.last().unwrap(), "the last one stays");
    }
}

#[test]
fn counts_are_those_of_the_lists() {
    for area in 0..=25 {
        for longest in 0..=area + 2 {
            let made = all(area, longest).len() as u64;
            assert_eq!(count_within(area, longest), made, "{area} {longest}");
            assert!(longest > area || counts_within(longest as usize)[area as usize] == made);
        }
    }
    for (area, known) in [(82, 20_506_255), (90, 56_634_173), (100, 190_569_292)] {
        assert_eq!(count(area), known);
    }
    assert_eq!((1..=100).map(count).sum::<u64>(), 1_642_992_567);
    assert_eq!(count(AREA_MAX), 1_844_349_560);
}

/// The columns, counted cell by cell.
fn columns(rows: &[u32]) -> Vec<u32> {
    let longer = |column| rows.iter().filter(move |&&row| row > column).count();
    let columns = 0..rows.first().copied().unwrap_or(0);
    columns
        .map(|column| u32::try_from(longer(column)).unwrap())
        .collect()
}

fn check_mirror(partition: &Partition) {
    let mirror = partition.mirror();
    assert_eq!(mirror.rows(), columns(partition.rows()));
    assert_eq!(mirror.mirror(), *partition);
    let is_first = partition.rank() <= mirror.rank();
    assert_eq!(partition.is_representative(), is_first, "{partition}");
    let representative = if is_first { partition } else { &mirror };
    assert_eq!(&partition.clone().representative(), representative);
    assert_eq!(&mirror.clone().representative(), representative);
}

#[test]
fn one_of_each_mirror_pair_is_the_representative() {
    for area in 0..=24 {
        let partitions = (0..count(area)).map(|rank| Partition::at(area, rank));
        let counted: Vec<u64> = partitions
            .inspect(check_mirror)
            .map(|partition| partition.stands_for())
            .collect();
        let representatives = counted.iter().filter(|&&positions| positions > 0);
        assert_eq!(representatives.count() as u64, count_representatives(area));
        assert_eq!(counted.iter().sum::<u64>(), count(area));
        for rank in 0..count(area) {
            let walked: Vec<u64> = Walk::from(area, rank).collect();
            assert_eq!(walked, counted[usize::try_from(rank).unwrap()..]);
        }
    }
}

#[test]
fn random_partitions_of_any_area() {
    let mut rng = Rng(1);
    for _ in 0..20_000 {
        let area = u32::try_from(rng.below(121)).unwrap();
        let rank = rng.below(count(area));
        let partition = Partition::at(area, rank);
        assert_eq!((partition.area(), partition.rank()), (area, rank));
        assert_eq!(
            Partition::new(partition.rows.clone()),
            Some(partition.clone())
        );
        check_mirror(&partition);
        let mut walk = Walk::from(area, rank);
        assert_eq!(walk.next(), Some(partition.stands_for()), "{partition}");
        let mut next = partition.clone();
        let has_next = next.advance();
        assert_eq!(walk.next(), has_next.then(|| next.stands_for()));
        if has_next {
            assert_eq!(next.rank(), rank + 1, "{partition}");
        } else {
            assert_eq!(rank + 1, count(area));
        }
    }
}

#[test]
fn only_partitions_are_partitions() {
    for rows in [
        vec![1, 2],
        vec![3, 0],
        vec![0],
        vec![121],
        vec![60, 60, 1],
        vec![u32::MAX, 1],
    ] {
        assert_eq!(Partition::new(rows.clone()), None, "{rows:?}");
    }
    assert!(Partition::new(vec![]).is_some());
    assert!(Partition::new(vec![120]).is_some());
}

/// By the definition: a move takes a cell, and all cells below and to the right of it.
#[test]
fn moves_take_all_cells_beyond_one() {
    for area in 1..=12 {
        for rank in 0..count(area) {
            let partition = Partition::at(area, rank);
            let mut moves = Vec::new();
            for (row, &length) in (1..).zip(partition.rows()) {
                for column in 1..=length {
                    let left = (1..).zip(partition.rows()).map(|(other, &length)| {
                        let is_cut = other >= row;
                        if is_cut {
                            length.min(column - 1)
                        } else {
                            length
                        }
                    });
                    let left = Partition::new(left.filter(|&length| length > 0).collect());
                    moves.push((Cell { row, column }, left.unwrap()));
                }
            }
            // The first is the poison.
            assert!(
                partition.moves().eq(moves.into_iter().skip(1)),
                "{partition}"
            );
        }
    }
}

#[test]
fn partitions_are_read_as_positions_are() {
    let read = |text: &str| text.parse::<Partition>();
    for text in ["0", "5,4,2,1", "8x8", "63", "10x12", "4x30"] {
        let position: Position = text.parse().unwrap();
        let partition = read(text).unwrap();
        assert_eq!(partition.rows(), position.rows(), "{text}");
        assert_eq!(partition.to_string(), position.to_string(), "{text}");
    }
    assert!(
        "64".parse::<Position>().is_err() && read("64").is_ok(),
        "65 bits"
    );
    for text in ["11x11", "121x1", "61,60", "121x4294967295"] {
        assert!(
            matches!(read(text), Err(PositionError::TooManyTiles(_))),
            "{text}"
        );
    }
    let order = PositionError::Order { row: 2, length: 3 };
    assert_eq!(read("2,3").unwrap_err(), order);
}
