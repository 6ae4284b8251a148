//! Intel's ISA-L computes the same parity.

use io::rng::Prng;
use pool::vdev::parity::{Columns, PARITY_MAX};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// The parity columns that ISA-L makes of data columns.
fn isal(data: &[Vec<u8>], parity: usize) -> Vec<u8> {
    let length = data[0].len();
    let mut python = Command::new("python3")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/all/parts/isal.py"
        ))
        .args([data.len(), parity, length].map(|n| n.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut input = python.stdin.take().expect("piped");
    input.write_all(&data.concat()).expect("it reads");
    drop(input);
    let mut made = Vec::new();
    let mut output = python.stdout.take().expect("piped");
    output.read_to_end(&mut made).expect("it writes");
    let ended = python.wait().expect("it ends");
    assert!(
        ended.success(),
        "ISA-L runs: `xtask/install.sh test` installs Debian's libisal2"
    );
    made
}

#[test]
fn parity_is_that_of_isal() {
    let mut rng = Prng::new(36);
    for parity in 1..=PARITY_MAX {
        for (data, length) in [(1, 64), (2, 4096), (8, 4096 + 37), (29, 512)] {
            let mut columns = vec![vec![0; length]; data + parity];
            for column in &mut columns[..data] {
                rng.fill(column);
            }
            let mut row = Columns::new(columns, data);
            row.compute();
            let (given, made) = row.all().split_at(data);
            assert!(
                made.concat() == isal(given, parity),
                "{data}+{parity} columns of {length} bytes"
            );
        }
    }
}
