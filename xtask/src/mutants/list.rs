//! The list of mutants: a TOML file with one table for each.

use anyhow::{Context, Result, bail, ensure};

/// In a replacement: whether the mutant is chosen.
pub(super) const CHOSEN: &str = "MUTANT";

/// One promise, broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// Its name, unique.
    pub name: String,
    /// The promise that it breaks.
    pub promise: String,
    /// The simulator's scenario that must notice.
    pub scenario: String,
    /// The source file, from the root.
    pub file: String,
    /// Text that the file has exactly once.
    pub text: String,
    /// The replacement: an expression in place of an expression. If it has the word `MUTANT`, it replaces the text in
    /// every run, and the word stands for a condition that is true if the mutant is chosen.
    pub with: String,
}

impl Mutant {
    /// The text with its switch; the switch is `number`.
    pub(super) fn switched(&self, number: usize) -> String {
        let chosen = format!("::io::mutant({number})");
        if self.with.contains(CHOSEN) {
            return self.with.replace(CHOSEN, &chosen);
        }
        format!("(if {chosen} {{ {} }} else {{ {} }})", self.with, self.text)
    }
}

/// Reads the list.
///
/// # Errors
/// The file is malformed, or a name occurs twice.
pub fn parse(text: &str) -> Result<Vec<Mutant>> {
    let table: toml::Table = text.parse().context("the list of mutants is no TOML")?;
    let Some(entries) = table.get("mutant").and_then(toml::Value::as_array) else {
        bail!("no [[mutant]] in the list");
    };
    let mut mutants: Vec<Mutant> = Vec::new();
    for entry in entries {
        let field = |name: &str| {
            let value = entry.get(name).and_then(toml::Value::as_str);
            let value = value.filter(|v| !v.is_empty()).map(str::to_owned);
            value.with_context(|| format!("a mutant without `{name}`: {entry}"))
        };
        let mutant = Mutant {
            name: field("name")?,
            promise: field("promise")?,
            scenario: field("scenario")?,
            file: field("file")?,
            text: field("text")?,
            with: field("with")?,
        };
        let is_new = mutants.iter().all(|m| m.name != mutant.name);
        ensure!(is_new, "two mutants named {}", mutant.name);
        mutants.push(mutant);
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[mutant]]\nname = 'a'\npromise = 'p'\nscenario = 'pool'\nfile = 'f'\ntext = 'x()'\nwith = '()'\n";

    #[test]
    fn a_mutant_is_a_switch_between_two_expressions() {
        let mutants = parse(ONE).unwrap();
        assert_eq!(
            mutants[0].switched(3),
            "(if ::io::mutant(3) { () } else { x() })"
        );
    }

    #[test]
    fn a_replacement_may_use_the_switch_itself() {
        let text = ONE.replace("'()'", "'!MUTANT && x()'");
        assert_eq!(
            parse(&text).unwrap()[0].switched(1),
            "!::io::mutant(1) && x()"
        );
    }

    #[test]
    fn a_list_with_a_name_twice_or_a_field_missing_is_refused() {
        assert!(parse(&format!("{ONE}{ONE}")).is_err());
        assert!(parse(&ONE.replace("promise = 'p'\n", "")).is_err());
        assert!(parse("").is_err());
    }
}
