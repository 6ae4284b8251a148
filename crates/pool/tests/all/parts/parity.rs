//! Parity against a slow model of the field (logarithms and whole matrices), and against that of ISA-L.

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

/// Digests of the parity that ISA-L 2.30 computed (`gf_gen_rs_matrix` and `ec_encode_data`; the first two also by `pq_gen`) for 1 to 15
/// data columns of 4 KiB, as [`numbered_column`] and [`digest`] have them.
const ISA_L: [[u64; 3]; 15] = [
    [
        0x5d80_91b4_d267_6e80,
        0x5d80_91b4_d267_6e80,
        0x5d80_91b4_d267_6e80,
    ],
    [
        0x2da7_6686_7811_541b,
        0x358d_8cfa_d935_8bd2,
        0x2f1b_2feb_f6ba_b1a6,
    ],
    [
        0x8447_7526_7fe3_ef23,
        0x8e6f_9f8f_c045_bdf1,
        0x0fb7_2233_8891_9a48,
    ],
    [
        0x706d_1253_2c11_4bae,
        0xc169_c893_4edd_9f0c,
        0xd682_8edc_21ce_9266,
    ],
    [
        0x0101_3e60_c09f_ef0d,
        0xa69f_54c6_8911_1ebf,
        0x1d97_a2f3_2efc_845c,
    ],
    [
        0xe34f_6833_223c_bd29,
        0xacf6_0faa_0656_b446,
        0x4f12_7b04_50aa_2a0c,
    ],
    [
        0x0f7c_6156_8287_c345,
        0xb736_0196_b54d_76fd,
        0xf90b_995a_e8fb_4e4e,
    ],
    [
        0x125b_98e4_d745_4c99,
        0x41ff_29b4_c515_7997,
        0xa97e_e329_70af_dfbd,
    ],
    [
        0xe86c_e019_a3d9_07de,
        0xa17c_0967_7bfc_1dc5,
        0x7952_94f7_9686_3239,
    ],
    [
        0x3d5a_43ad_dd55_8a11,
        0x6de3_ea61_738b_f1bd,
        0x8fd4_ada1_5286_69d2,
    ],
    [
        0x93e1_8ef4_ff81_9347,
        0x450a_2bb8_bea5_4be0,
        0x2dcc_9e9d_1aa7_86f9,
    ],
    [
        0x8449_9a56_89d6_64fc,
        0x6ae8_7baf_64c7_4de0,
        0x99e5_770d_07c5_f814,
    ],
    [
        0x4ba0_583f_9093_98ec,
        0x1d5b_f8b3_c496_b73d,
        0x8ff5_8591_c11a_99b6,
    ],
    [
        0x9b78_fccd_f03b_45d3,
        0xf3ee_ed87_9a2c_710e,
        0xe228_54f2_fc0b_0ef6,
    ],
    [
        0x2456_f827_6bc1_2380,
        0x0263_74ba_3142_c812,
        0x97e5_5543_3633_6b6d,
    ],
];

/// Bytes that the program which asked ISA-L generated, too.
fn numbered_column(state: &mut u64) -> Vec<u8> {
    let next = |_| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 56) as u8
    };
    (0..4096).map(next).collect()
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn parity_is_that_of_isa_l() {
    for (columns, expected) in (1..).zip(ISA_L) {
        let mut state = columns;
        let data: Vec<Vec<u8>> = (0..columns).map(|_| numbered_column(&mut state)).collect();
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        for parity in 1..=PARITY_MAX {
            let mut found = vec![vec![0; 4096]; parity];
            let mut places: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
            compute(&slices, &mut places);
            let digests: Vec<u64> = found.iter().map(|unit| digest(unit)).collect();
            assert_eq!(digests, expected[..parity], "{columns} columns");
        }
    }
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
