//! docs/doctor.md has the table of all checks as the code has them.

use std::path::Path;

/// Lines around the table.
const BEGIN: &str = "<!-- checks: made by crates/doctor/tests/checks/docs.rs -->\n";
const END: &str = "<!-- end of checks -->\n";

#[test]
fn the_table_of_checks_is_the_codes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let page = std::fs::read_to_string(&path).expect("docs/doctor.md");
    let (before, rest) = page.split_once(BEGIN).expect("the beginning of the table");
    let (table, after) = rest.split_once(END).expect("the end of the table");
    let expected = format!("\n{}", doctor::checks::table());
    if std::env::var_os("WIREPOOL_BLESS").is_some() {
        let page = format!("{before}{BEGIN}{expected}{END}{after}");
        std::fs::write(&path, page).expect("written");
        return;
    }
    assert!(
        table == expected,
        "docs/doctor.md is old: run this test with WIREPOOL_BLESS=1"
    );
}
