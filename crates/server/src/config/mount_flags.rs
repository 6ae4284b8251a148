//! Options of a mount, in the words of mount(8).
//!
//! **Owns** [`MountFlags`] and its text, as after `-o` and in the configuration. **Called by** the configuration, the control
//! API and the command line. **Invariants**: the text of flags parses to the same flags; the last of two words that contradict
//! each other counts, as with mount(8); a word that is not in the list is refused.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Options of a mount. The default is the text `""`: read and write, no setuid bits, no devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountFlags {
    /// Every change is refused.
    pub read_only: bool,
    /// Other users may use it, although the server does not run as root.
    pub allow_other: bool,
    /// Setuid and setgid bits and file capabilities have an effect.
    pub suid: bool,
    /// Device files have an effect.
    pub devices: bool,
    /// Programs cannot be executed.
    pub no_exec: bool,
    /// The filesystem has other users: mounts or clients of the network.
    pub shared: bool,
    /// The filesystem checks permissions by its NFSv4 access control lists, not the kernel by modes.
    pub own_checks: bool,
}

/// A word, its meaning, and whether it is written (the others say what is the case without them).
type Word = (&'static str, fn(&mut MountFlags), fn(&MountFlags) -> bool);

const WORDS: &[Word] = &[
    ("ro", |f| f.read_only = true, |f| f.read_only),
    ("rw", |f| f.read_only = false, |_| false),
    ("allow_other", |f| f.allow_other = true, |f| f.allow_other),
    ("suid", |f| f.suid = true, |f| f.suid),
    ("nosuid", |f| f.suid = false, |_| false),
    ("dev", |f| f.devices = true, |f| f.devices),
    ("nodev", |f| f.devices = false, |_| false),
    ("noexec", |f| f.no_exec = true, |f| f.no_exec),
    ("exec", |f| f.no_exec = false, |_| false),
    ("shared", |f| f.shared = true, |f| f.shared),
    ("acl=nfs4", |f| f.own_checks = true, |f| f.own_checks),
    ("acl=off", |f| f.own_checks = false, |_| false),
];

/// The text has a word that is no option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown mount option {found:?} (known are {})", known())]
pub struct FlagsError {
    found: String,
}

fn known() -> String {
    let words: Vec<&str> = WORDS.iter().map(|(word, ..)| *word).collect();
    words.join(", ")
}

impl MountFlags {
    /// Both options: a flag is set if one of them has it.
    #[must_use]
    pub fn and(mut self, other: &MountFlags) -> MountFlags {
        for (_, set, is_set) in WORDS {
            if is_set(other) {
                set(&mut self);
            }
        }
        self
    }
}

impl FromStr for MountFlags {
    type Err = FlagsError;

    fn from_str(text: &str) -> Result<MountFlags, FlagsError> {
        let mut flags = MountFlags::default();
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let known = WORDS.iter().find(|(name, ..)| *name == word);
            let (_, set, _) = known.ok_or_else(|| FlagsError {
                found: word.to_owned(),
            })?;
            set(&mut flags);
        }
        Ok(flags)
    }
}

impl fmt::Display for MountFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = WORDS.iter().filter(|(.., is_set)| is_set(self));
        let words: Vec<&str> = set.map(|(word, ..)| *word).collect();
        f.write_str(&words.join(","))
    }
}

impl JsonSchema for MountFlags {
    fn schema_name() -> Cow<'static, str> {
        "MountFlags".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": format!("Options of a mount, separated by commas: {}.", known()),
            "type": "string",
        })
    }
}

impl Serialize for MountFlags {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MountFlags {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<MountFlags, D::Error> {
        let text = Cow::<str>::deserialize(d)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_flags_are_the_same() {
        for (word, _, is_set) in WORDS {
            let flags: MountFlags = word.parse().unwrap();
            let shown = if is_set(&flags) { word } else { "" };
            assert_eq!(flags.to_string(), *shown);
        }
        let text = "ro,suid,shared,acl=nfs4";
        let flags: MountFlags = text.parse().unwrap();
        assert_eq!(flags.to_string(), text);
        assert_eq!(" rw , ".parse(), Ok(MountFlags::default()));
        assert_eq!(
            "ro,rw".parse(),
            Ok(MountFlags::default()),
            "the last counts"
        );
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_known_ones() {
        let refused = "ro,sudi".parse::<MountFlags>().unwrap_err().to_string();
        assert!(refused.starts_with("unknown mount option \"sudi\" (known are ro, rw,"));
    }

    #[test]
    fn flags_of_both_are_set() {
        let one: MountFlags = "ro".parse().unwrap();
        let both = one.and(&"dev".parse().unwrap());
        assert_eq!(both.to_string(), "ro,dev");
    }
}
