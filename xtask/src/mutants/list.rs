//! The list of mutants: a TOML file with one table for each.

use anyhow::{Context, Result, bail, ensure};

/// In a replacement: whether the mutant is chosen.
pub(super) const CHOSEN: &str = "MUTANT";

/// One place where the source is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The source file, from the root.
    pub file: String,
    /// Text that the file has exactly once.
    pub text: String,
    /// What stands there instead: an expression in place of an expression. With the word `MUTANT` in it, it replaces
    /// the text in every run, and the word stands for whether the mutant is chosen.
    pub with: String,
}

/// One promise, broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// Its name, unique.
    pub name: String,
    /// The promise that it breaks.
    pub promise: String,
    /// The simulator's scenario that must notice.
    pub scenario: String,
    /// Where it is broken: at least one place.
    pub edits: Vec<Edit>,
}

impl Edit {
    /// The text with a switch, which is `number`.
    pub(super) fn switched(&self, number: usize) -> String {
        let chosen = format!("::io::mutant({number})");
        if self.with.contains(CHOSEN) {
            return self.with.replace(CHOSEN, &chosen);
        }
        format!("(if {chosen} {{ {} }} else {{ {} }})", self.with, self.text)
    }
}

fn field(entry: &toml::Value, name: &str) -> Result<String> {
    let value = entry.get(name).and_then(toml::Value::as_str);
    let value = value.filter(|v| !v.is_empty()).map(str::to_owned);
    value.with_context(|| format!("a mutant without `{name}`: {entry}"))
}

fn edit(place: &toml::Value) -> Result<Edit> {
    Ok(Edit {
        file: field(place, "file")?,
        text: field(place, "text")?,
        with: field(place, "with")?,
    })
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
        let also = entry.get("also").and_then(toml::Value::as_array);
        let places = std::iter::once(entry).chain(also.into_iter().flatten());
        let mutant = Mutant {
            name: field(entry, "name")?,
            promise: field(entry, "promise")?,
            scenario: field(entry, "scenario")?,
            edits: places.map(edit).collect::<Result<_>>()?,
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
            mutants[0].edits[0].switched(3),
            "(if ::io::mutant(3) { () } else { x() })"
        );
    }

    #[test]
    fn a_replacement_may_use_the_switch_itself() {
        let text = ONE.replace("'()'", "'!MUTANT && x()'");
        assert_eq!(
            parse(&text).unwrap()[0].edits[0].switched(1),
            "!::io::mutant(1) && x()"
        );
    }

    #[test]
    fn a_mutant_may_change_several_places() {
        let also = "[[mutant.also]]\nfile = 'g'\ntext = 'y'\nwith = 'z'\n";
        let mutants = parse(&format!("{ONE}{also}")).unwrap();
        let files: Vec<&str> = mutants[0].edits.iter().map(|e| e.file.as_str()).collect();
        assert_eq!(files, ["f", "g"]);
    }

    #[test]
    fn a_list_with_a_name_twice_or_a_field_missing_is_refused() {
        assert!(parse(&format!("{ONE}{ONE}")).is_err());
        assert!(parse(&ONE.replace("promise = 'p'\n", "")).is_err());
        assert!(parse("").is_err());
    }
}
