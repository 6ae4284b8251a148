//! Parity against a slow model of the field: logarithms and whole matrices.

use pool::vdev::parity::{Columns, PARITY_MAX, compute};
use proptest::prelude::*;

/// Powers of 2 in the field with the polynomial 0x11d, by repeated shifts of a wider integer.
fn powers() -> [u8; 255] {
    let mut powers = [0; 255];
    let mut value: u16 = 1;
    for power in &mut powers {
        *power = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= 0x11d;
        }
    }
    powers
}

fn product(a: u8, b: u8) -> u8 {
    let powers = powers();
    let log = |x: u8| powers.iter().position(|p| *p == x);
    match (log(a), log(b)) {
        (Some(a), Some(b)) => powers[(a + b) % 255],
        _ => 0,
    }
}

/// Parity byte by byte.
fn model(data: &[Vec<u8>], parity: usize) -> Vec<Vec<u8>> {
    let powers = powers();
    let byte = |row: usize, at: usize| {
        let columns = data.iter().enumerate();
        let terms = columns.map(|(i, column)| product(powers[row * i % 255], column[at]));
        terms.fold(0, |sum, term| sum ^ term)
    };
    let column = |row| (0..data[0].len()).map(|at| byte(row, at)).collect();
    (0..parity).map(column).collect()
}

/// Data columns of equal length, and a number of parity columns.
fn rows() -> impl Strategy<Value = (Vec<Vec<u8>>, usize)> {
    (1..14_usize, 1..200_usize, 1..=PARITY_MAX).prop_flat_map(|(columns, len, parity)| {
        let column = proptest::collection::vec(any::<u8>(), len);
        (proptest::collection::vec(column, columns), Just(parity))
    })
}

fn columns(data: &[Vec<u8>], parity: usize) -> Columns {
    let all = data.iter().cloned().chain(model(data, parity));
    Columns::new(all.collect(), data.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The words of the fast code are bytes of the field, also at the end of a column.
    #[test]
    fn parity_is_that_of_the_model((data, parity) in rows()) {
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut found = vec![vec![0; data[0].len()]; parity];
        let mut places: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
        compute(&slices, &mut places);
        prop_assert_eq!(found, model(&data, parity));
    }

    /// Any columns, data or parity, are reconstructed, and one more than there is parity is refused.
    #[test]
    fn missing_columns_come_back((data, parity) in rows(), picks in any::<[prop::sample::Index; 4]>()) {
        let whole = columns(&data, parity);
        let mut missing: Vec<usize> = picks.iter().map(|p| p.index(whole.all().len())).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut damaged = whole.clone();
        for index in &missing {
            damaged.all_mut()[*index].fill(0xa5);
        }
        let before = damaged.clone();
        if missing.len() > parity {
            prop_assert!(!damaged.reconstruct(&missing));
            prop_assert_eq!(&damaged, &before);
        } else {
            prop_assert!(damaged.reconstruct(&missing));
            prop_assert_eq!(&damaged, &whole);
        }
    }

    /// Surplus parity finds the members that lie, beside one that is missing.
    #[test]
    fn liars_are_found((data, parity) in rows(), picks in any::<[prop::sample::Index; 3]>()) {
        let whole = columns(&data, parity);
        let mut wrong: Vec<usize> = picks.iter().map(|p| p.index(whole.all().len())).collect();
        wrong.sort_unstable();
        wrong.dedup();
        wrong.truncate(parity);
        let mut damaged = whole.clone();
        for index in &wrong {
            damaged.all_mut()[*index][0] ^= 0x80;
        }
        let (missing, liars) = wrong.split_at(wrong.len() / 2);
        let is_right = |tried: &Columns| tried.all()[..data.len()] == whole.all()[..data.len()];
        let found = damaged.find(missing, is_right);
        prop_assert!(found.is_some());
        prop_assert_eq!(&damaged.all()[..data.len()], &whole.all()[..data.len()]);
        let found = found.expect("found");
        // a parity column that lies is no obstacle to the data, and need not be found
        let found_data: Vec<_> = found.iter().filter(|i| **i < data.len()).collect();
        let liars: Vec<_> = liars.iter().filter(|i| **i < data.len()).collect();
        prop_assert!(liars.iter().all(|liar| found_data.contains(liar)));
    }
}

/// Every choice of three columns of the widest raidz has an inverse: the code loses nothing that it promises.
#[test]
fn every_loss_of_three_of_sixteen_is_recovered() {
    let data: Vec<Vec<u8>> = (0..13_u8)
        .map(|n| vec![n.wrapping_mul(37) ^ 0x5a; 9])
        .collect();
    let whole = columns(&data, 3);
    for a in 0..16 {
        for b in a + 1..16 {
            for c in b + 1..16 {
                let mut damaged = whole.clone();
                for index in [a, b, c] {
                    damaged.all_mut()[index].fill(0);
                }
                assert!(damaged.reconstruct(&[a, b, c]), "{a} {b} {c}");
                assert_eq!(damaged, whole, "{a} {b} {c}");
            }
        }
    }
}

#[test]
fn a_parity_column_that_differs_is_named() {
    let data: Vec<Vec<u8>> = (0..5_u8).map(|n| vec![n + 1; 100]).collect();
    let mut row = columns(&data, 3);
    assert!(row.wrong_parity().is_empty());
    row.all_mut()[6][99] ^= 1;
    assert_eq!(row.wrong_parity(), [6]);
}
