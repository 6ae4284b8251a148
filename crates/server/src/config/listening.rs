//! Addresses that a section listens on, as a change of the configuration.
//!
//! **Called by** `wirepool setup`. **Invariants**: those of [`super::edit`]; an address that stays keeps its comment.

use super::edit::{Edit, set_list};
use std::net::SocketAddr;
use toml_edit::{DocumentMut, Item, Table};

/// Sets a list of addresses in a section, which is created if it does not exist. A running server reads it at its next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenEdit {
    /// The section, such as `nvmf`.
    pub section: &'static str,
    /// The key of the list, such as `listen`.
    pub key: &'static str,
    /// All addresses of the list.
    pub addresses: Vec<SocketAddr>,
}

impl Edit for ListenEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let section = document
            .as_table_mut()
            .entry(self.section)
            .or_insert(Item::Table(Table::new()));
        let wanted: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        if let Some(table) = section.as_table_mut() {
            set_list(table, self.key, &wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, section: &'static str, addresses: &[&str]) -> String {
        let mut document: DocumentMut = text.parse().expect("TOML");
        let addresses = addresses.iter().map(|a| a.parse().expect("an address"));
        let edit = ListenEdit {
            section,
            key: "listen",
            addresses: addresses.collect(),
        };
        edit.apply(&mut document);
        document.to_string()
    }

    #[test]
    fn addresses_are_added_and_comments_stay() {
        let text = "# mine\n[nvmf]\nlisten = [\"127.0.0.1:4420\"] # here\n#discovery = []\n";
        let new = edited(text, "nvmf", &["127.0.0.1:4420", "10.0.0.1:4420"]);
        assert_eq!(
            new,
            "# mine\n[nvmf]\nlisten = [\"127.0.0.1:4420\", \"10.0.0.1:4420\"] # here\n#discovery = []\n"
        );
    }

    #[test]
    fn a_section_is_created() {
        let new = edited("[server]\nshards = 1\n", "iscsi", &["[::]:3260"]);
        assert_eq!(
            new,
            "[server]\nshards = 1\n\n[iscsi]\nlisten = [\"[::]:3260\"]\n"
        );
    }
}
