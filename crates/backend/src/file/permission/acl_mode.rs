//! Access control lists and modes: each follows from the other, and new objects inherit entries.
//!
//! **Owns** [`Acl::mode`], [`Acl::with_mode`], [`Acl::inherited`] and [`Acl::narrowed`]. **Called by** the rules for attributes.
//! **Invariants**: `acl.with_mode(m).mode() == m & 0o777`; `acl.narrowed(m, u).mode() & !m == 0`. RFC 8881, sections 6.3.2, 6.4.1.1
//! and 6.4.3; RFC 8275, section 4 (decision 0322).

use super::access::{effective, mask_of};
use crate::file::{Access, Ace, AceFlags, AceKind, AceMask, Acl, FileResult, Who};

/// Flags that hand an entry on to new objects.
const INHERIT: u16 = AceFlags::FILE_INHERIT.0 | AceFlags::DIRECTORY_INHERIT.0;
/// All flags about inheritance.
pub(super) const INHERITANCE: u16 = INHERIT | AceFlags::NO_PROPAGATE.0 | AceFlags::INHERIT_ONLY.0;

/// The kinds of access that a mode is about.
pub(super) fn mode_mask() -> AceMask {
    mask_of(Access::READ | Access::WRITE | Access::EXECUTE)
}

pub(super) fn without(mask: AceMask, other: AceMask) -> AceMask {
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
        self.classes(|who| self.decided(who).0)
    }

    /// The permission bits of `kinds` of access for the owner, the group and everyone.
    fn classes(&self, kinds: impl Fn(&Who) -> AceMask) -> u16 {
        let class = |who| {
            let granted = kinds(who);
            [Access::READ, Access::WRITE, Access::EXECUTE]
                .into_iter()
                .filter(|kind| granted.has(mask_of(*kind)))
                .fold(0, |bits, kind| bits | kind.bits())
        };
        class(&Who::Owner) << 6 | class(&Who::OwningGroup) << 3 | class(&Who::Everyone)
    }

    /// The kinds of access that the entries of `who` and of everyone allow and deny.
    fn decided(&self, who: &Who) -> (AceMask, AceMask) {
        let (mut allowed, mut denied) = (0, 0);
        for ace in effective(self) {
            if ace.who != Who::Everyone && ace.who != *who {
                continue;
            }
            let open = ace.mask.0 & !(allowed | denied);
            match ace.kind {
                AceKind::Allow => allowed |= open,
                AceKind::Deny => denied |= open,
                AceKind::Audit | AceKind::Alarm => {}
            }
        }
        (AceMask(allowed), AceMask(denied))
    }

    /// The list after its object got these permission bits (RFC 8881, section 6.4.1.1). Owner, group and others get what the
    /// mode says; other users and groups keep at most what the mode says for the group, and get nothing that an earlier entry denied to
    /// everyone. Inheritance stays. Errors: `TooLarge`.
    pub fn with_mode(&self, mode: u16) -> FileResult<Acl> {
        self.fitted(mode, mode >> 3)
    }

    /// The inherited list of a new object of a process with this mode and umask. The mode narrows all entries: other users and
    /// groups keep at most what it says for the group. A class (owner, group, everyone) that an entry allows something gets
    /// at most that; another class gets the mode without the umask, and nothing that entries deny. Errors: `TooLarge`.
    pub fn narrowed(&self, mode: u16, umask: u16) -> FileResult<Acl> {
        let own = mode & !umask;
        let bits = self.classes(|who| {
            let (allowed, denied) = self.decided(who);
            let grants = |ace: &Ace| ace.kind == AceKind::Allow && ace.who == *who;
            let is_named =
                effective(self).any(|ace| grants(ace) && (ace.mask & mode_mask()).0 != 0);
            let shift = match who {
                Who::Owner => 6,
                Who::OwningGroup => 3,
                _ => 0,
            };
            match is_named {
                true => allowed,
                false => allowed | without(mask_of(Access::from_bits(own >> shift)), denied),
            }
        });
        self.fitted(mode & bits, mode >> 3)
    }

    /// The list with the permission bits `mode` for owner, group and others, and at most the bits `named` for other users and groups.
    pub(super) fn fitted(&self, mode: u16, named: u16) -> FileResult<Acl> {
        let [owner, group, other, named] =
            [mode >> 6, mode >> 3, mode, named].map(|bits| mask_of(Access::from_bits(bits)));
        let mut kept = Vec::new();
        let mut denied = AceMask::default();
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
            if (&ace.who, ace.kind) == (&Who::Everyone, AceKind::Deny) {
                denied = denied | (ace.mask & mode_mask());
            }
            let mask = match (&ace.who, ace.kind) {
                (Who::Owner | Who::OwningGroup | Who::Everyone, _) => {
                    without(ace.mask, mode_mask())
                }
                (_, AceKind::Allow) => without(ace.mask, without(mode_mask(), named) | denied),
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

    /// Classes, and the access of user 8, of an object that inherits these entries.
    fn narrowed(entries: &[(AceKind, Who, AceMask)], mode: u16, umask: u16) -> (u16, AceMask) {
        let aces = entries.iter();
        let aces = aces.map(|(kind, who, mask)| ace(*kind, F, who.clone(), *mask));
        let parent = Acl::new(aces.collect()).unwrap();
        let child = parent.inherited(false).unwrap();
        let child = child.narrowed(mode, umask).unwrap();
        let user = child.aces().iter().filter(|ace| ace.who == Who::User(8));
        let user = user.fold(AceMask(0), |mask, ace| mask | ace.mask);
        (child.mode(), user & mode_mask())
    }

    #[test]
    fn the_umask_counts_for_classes_that_nothing_inherited_names() {
        use AceKind::{Allow, Deny};
        let (read, write) = (mask_of(Access::READ), mask_of(Access::WRITE));
        let both = read | write;
        let (no, user) = (AceMask(0), (Allow, Who::User(8), AceMask::ALL));
        for (entries, mode, umask, expected) in [
            // One entry for a user: the others get the mode without the umask, the user what the mode has for the group.
            (vec![user.clone()], 0o666, 0o077, (0o600, both)),
            (vec![user.clone()], 0o666, 0o022, (0o644, both)),
            (vec![user.clone()], 0o640, 0o077, (0o600, read)),
            (vec![user.clone()], 0o600, 0, (0o600, no)),
            // Named classes: the umask does not count, and the mode narrows.
            (
                vec![(Allow, Who::OwningGroup, both)],
                0o666,
                0o077,
                (0o660, no),
            ),
            (
                vec![(Allow, Who::OwningGroup, read)],
                0o666,
                0o002,
                (0o644, no),
            ),
            (vec![(Allow, Who::Owner, read)], 0o666, 0o022, (0o444, no)),
            (
                vec![(Allow, Who::Owner, AceMask::ALL)],
                0o640,
                0o077,
                (0o600, no),
            ),
            // Entries of everyone count for owner and group, and do not name them.
            (
                vec![(Allow, Who::Everyone, read)],
                0o666,
                0o077,
                (0o644, no),
            ),
            (
                vec![(Allow, Who::Everyone, AceMask::ALL)],
                0o777,
                0o077,
                (0o777, no),
            ),
            // What is denied is not given by the mode.
            (
                vec![(Deny, Who::Everyone, write), user],
                0o666,
                0o022,
                (0o444, read),
            ),
            (
                vec![(Deny, Who::OwningGroup, both)],
                0o666,
                0o022,
                (0o604, no),
            ),
        ] {
            let found = narrowed(&entries, mode, umask);
            assert_eq!(found, expected, "{entries:?} {mode:o} {umask:o}");
        }
    }

    #[test]
    fn without_an_inherited_allowance_the_umask_counts_as_always() {
        let audit = [(AceKind::Audit, Who::Everyone, AceMask::ALL)];
        for umask in 0..0o1000 {
            assert_eq!(narrowed(&audit, 0o777, umask).0, 0o777 & !umask);
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

        #[test]
        fn a_mode_and_a_umask_give_nothing_that_the_mode_has_not(
            aces in prop::collection::vec(any_ace(), 0..12), mode in 0..0o1000_u16, umask in 0..0o1000_u16,
        ) {
            let acl = Acl::new(aces).unwrap();
            let after = acl.narrowed(mode, umask).unwrap().mode();
            prop_assert_eq!(after & !mode, 0);
            prop_assert_eq!(after & !(acl.mode() | mode & !umask), 0);
            let wider = acl.narrowed(mode, 0).unwrap().mode();
            prop_assert_eq!(after & !wider, 0, "a umask takes away only");
        }
    }
}
