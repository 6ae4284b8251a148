//! Access control lists and modes: each follows from the other, and new objects inherit entries.
//!
//! **Owns** [`Acl::mode`], [`Acl::with_mode`] and [`Acl::inherited`]. **Called by** the rules for attributes.
//! **Invariants**: `acl.with_mode(m).mode() == m & 0o777`. RFC 8881, sections 6.3.2, 6.4.1.1 and 6.4.3.

use super::access::{effective, mask_of};
use crate::file::{Access, Ace, AceFlags, AceKind, AceMask, Acl, FileResult, Who};

/// Flags that hand an entry on to new objects.
const INHERIT: u16 = AceFlags::FILE_INHERIT.0 | AceFlags::DIRECTORY_INHERIT.0;
/// All flags about inheritance.
const INHERITANCE: u16 = INHERIT | AceFlags::NO_PROPAGATE.0 | AceFlags::INHERIT_ONLY.0;

/// The kinds of access that a mode is about.
fn mode_mask() -> AceMask {
    mask_of(Access::READ | Access::WRITE | Access::EXECUTE)
}

fn without(mask: AceMask, other: AceMask) -> AceMask {
    AceMask(mask.0 & !other.0)
}

fn is_inheritable(ace: &Ace) -> bool {
    ace.flags.0 & INHERIT != 0
}

/// An effective entry without flags; `None` if it is about nothing.
fn entry(kind: AceKind, who: Who, mask: AceMask) -> Option<Ace> {
    let flags = AceFlags::default();
    (mask.0 != 0).then_some(Ace {
        kind,
        flags,
        mask,
        who,
    })
}

impl Acl {
    /// The permission bits, 0o0 to 0o777, that this list amounts to (RFC 8881, section 6.3.2).
    #[must_use]
    pub fn mode(&self) -> u16 {
        let class = |who: Option<&Who>| {
            let (mut allowed, mut denied) = (0, 0);
            for ace in effective(self) {
                if ace.who != Who::Everyone && Some(&ace.who) != who {
                    continue;
                }
                let open = ace.mask.0 & !(allowed | denied);
                match ace.kind {
                    AceKind::Allow => allowed |= open,
                    AceKind::Deny => denied |= open,
                    AceKind::Audit | AceKind::Alarm => {}
                }
            }
            [Access::READ, Access::WRITE, Access::EXECUTE]
                .into_iter()
                .filter(|kind| AceMask(allowed).has(mask_of(*kind)))
                .fold(0, |bits, kind| bits | kind.bits())
        };
        class(Some(&Who::Owner)) << 6 | class(Some(&Who::OwningGroup)) << 3 | class(None)
    }

    /// The list after its object got these permission bits (RFC 8881, section 6.4.1.1). Owner, group and others get what the
    /// mode says; other users and groups keep at most what the mode says for the group. Inheritance stays. Errors:
    /// `TooLarge`.
    pub fn with_mode(&self, mode: u16) -> FileResult<Acl> {
        let [owner, group, other] =
            [mode >> 6, mode >> 3, mode].map(|bits| mask_of(Access::from_bits(bits)));
        let mut kept = Vec::new();
        for ace in self.aces() {
            let is_effective = !ace.flags.has(AceFlags::INHERIT_ONLY)
                && matches!(ace.kind, AceKind::Allow | AceKind::Deny);
            if !is_effective {
                kept.push(ace.clone());
                continue;
            }
            if is_inheritable(ace) {
                let flags = AceFlags(ace.flags.0 | AceFlags::INHERIT_ONLY.0);
                kept.push(Ace {
                    flags,
                    ..ace.clone()
                });
            }
            let mask = match (&ace.who, ace.kind) {
                (Who::Owner | Who::OwningGroup | Who::Everyone, _) => {
                    without(ace.mask, mode_mask())
                }
                (_, AceKind::Allow) => without(ace.mask, without(mode_mask(), group)),
                (_, _) => ace.mask,
            };
            let flags = AceFlags(ace.flags.0 & !INHERITANCE);
            if mask.0 != 0 {
                kept.push(Ace {
                    flags,
                    mask,
                    ..ace.clone()
                });
            }
        }
        let granted = |ace: &&Ace| ace.kind == AceKind::Allow && !is_inheritable(ace);
        let below = kept
            .iter()
            .filter(granted)
            .fold(group | other, |mask, ace| mask | (ace.mask & mode_mask()));
        let first = [
            entry(AceKind::Deny, Who::Owner, without(below, owner)),
            entry(AceKind::Allow, Who::Owner, owner),
        ];
        let last = [
            entry(AceKind::Deny, Who::OwningGroup, without(other, group)),
            entry(AceKind::Allow, Who::OwningGroup, group),
            entry(AceKind::Allow, Who::Everyone, other),
        ];
        let all = first.into_iter().flatten().chain(kept);
        Acl::new(all.chain(last.into_iter().flatten()).collect())
    }

    /// The list that a new object of a directory with this list begins with; `None` if it inherits nothing.
    #[must_use]
    pub fn inherited(&self, is_directory: bool) -> Option<Acl> {
        let inherit = |ace: &Ace| {
            let own = match is_directory {
                true => AceFlags::DIRECTORY_INHERIT,
                false => AceFlags::FILE_INHERIT,
            };
            let goes_on = is_directory && !ace.flags.has(AceFlags::NO_PROPAGATE);
            let handed_on = match (ace.flags.has(own), goes_on) {
                (true, true) => ace.flags.0 & INHERIT,
                (true, false) => 0,
                // A directory that only hands it on to its files.
                (false, true) => (ace.flags.0 & INHERIT) | AceFlags::INHERIT_ONLY.0,
                (false, false) => return None,
            };
            let others = ace.flags.0 & !INHERITANCE;
            Some(Ace {
                flags: AceFlags(others | handed_on | AceFlags::INHERITED.0),
                ..ace.clone()
            })
        };
        let aces = self.aces().iter().filter(|ace| is_inheritable(ace));
        let aces: Vec<Ace> = aces.filter_map(inherit).collect();
        match aces.is_empty() {
            true => None,
            false => Acl::new(aces).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ace(kind: AceKind, flags: u16, who: Who, mask: AceMask) -> Ace {
        let flags = AceFlags(flags);
        Ace {
            kind,
            flags,
            mask,
            who,
        }
    }

    const F: u16 = AceFlags::FILE_INHERIT.0;
    const D: u16 = AceFlags::DIRECTORY_INHERIT.0;
    const N: u16 = AceFlags::NO_PROPAGATE.0;
    const O: u16 = AceFlags::INHERIT_ONLY.0;
    const I: u16 = AceFlags::INHERITED.0;

    #[test]
    fn a_mode_needs_both_kinds_of_writing() {
        let mode = |mask| {
            let all = ace(AceKind::Allow, 0, Who::Everyone, mask);
            Acl::new(vec![all]).unwrap().mode()
        };
        assert_eq!(mode(AceMask::WRITE_DATA), 0);
        assert_eq!(mode(AceMask::WRITE_DATA | AceMask::APPEND_DATA), 0o222);
        assert_eq!(mode(AceMask::ALL), 0o777);
    }

    #[test]
    fn other_users_keep_at_most_the_bits_of_the_group() {
        let all = ace(AceKind::Allow, 0, Who::User(8), AceMask::ALL);
        let acl = Acl::new(vec![all]).unwrap().with_mode(0o740).unwrap();
        let entries: Vec<_> = acl.aces().iter().map(|a| (a.kind, a.who.clone())).collect();
        assert_eq!(
            entries,
            [
                (AceKind::Allow, Who::Owner),
                (AceKind::Allow, Who::User(8)),
                (AceKind::Allow, Who::OwningGroup)
            ]
        );
        let user = acl.aces()[1].mask;
        assert!(user.has(AceMask::READ_DATA | AceMask::DELETE));
        assert_eq!(user & (AceMask::WRITE_DATA | AceMask::EXECUTE), AceMask(0));
    }

    #[test]
    fn a_mode_leaves_inheritance_as_it_was() {
        let acl = Acl::new(vec![
            ace(AceKind::Allow, F | D, Who::Group(9), AceMask::ALL),
            ace(AceKind::Deny, F | D | O, Who::Group(9), AceMask::ALL),
        ])
        .unwrap();
        let after = acl.with_mode(0o700).unwrap();
        let child = after.inherited(true).unwrap();
        assert_eq!(child.aces(), acl.inherited(true).unwrap().aces());
        assert_eq!(after.with_mode(0o700).unwrap(), after, "and grows once");
    }

    #[test]
    fn flags_decide_about_inheritance() {
        let inherited = |flags, is_directory| {
            let entry = ace(AceKind::Allow, flags, Who::Everyone, AceMask::ALL);
            let list = Acl::new(vec![entry]).unwrap().inherited(is_directory)?;
            Some(list.aces()[0].flags.0)
        };
        let cases = [
            (0, None, None),
            (F, Some(I), Some(F | O | I)),
            (F | N, Some(I), None),
            (D, None, Some(D | I)),
            (D | O, None, Some(D | I)),
            (D | N, None, Some(I)),
            (F | D | O, Some(I), Some(F | D | I)),
            (F | D | N, Some(I), Some(I)),
        ];
        for (flags, file, directory) in cases {
            assert_eq!(inherited(flags, false), file, "{flags:#x}");
            assert_eq!(inherited(flags, true), directory, "{flags:#x}");
        }
    }

    fn any_ace() -> impl Strategy<Value = Ace> {
        let kind = prop_oneof![
            Just(AceKind::Allow),
            Just(AceKind::Deny),
            Just(AceKind::Audit)
        ];
        let who = prop_oneof![
            Just(Who::Owner),
            Just(Who::OwningGroup),
            Just(Who::Everyone),
            (0..4_u32).prop_map(Who::User),
            (0..4_u32).prop_map(Who::Group),
        ];
        let mask = any::<u32>().prop_map(|m| AceMask(m & AceMask::ALL.0));
        (kind, 0..16_u16, who, mask)
            .prop_map(|(kind, flags, who, mask)| ace(kind, flags, who, mask))
    }

    proptest! {
        #[test]
        fn the_mode_that_was_set_is_the_mode_of_the_list(
            aces in prop::collection::vec(any_ace(), 0..12), mode in 0..0o1000_u16,
        ) {
            let after = Acl::new(aces).unwrap().with_mode(mode).unwrap();
            prop_assert_eq!(after.mode(), mode);
            prop_assert_eq!(after.with_mode(mode).unwrap().mode(), mode);
        }
    }
}
