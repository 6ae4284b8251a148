//! Tests of the rules for lists, by tables and against a slow model of modes.

use super::*;
use proptest::prelude::*;

const F: u16 = AceFlags::FILE_INHERIT.0;

fn ace(kind: AceKind, flags: u16, who: Who, mask: AceMask) -> Ace {
    let flags = AceFlags(flags);
    Ace {
        kind,
        flags,
        mask,
        who,
    }
}

fn bits(bits: u16) -> AceMask {
    mask_of(Access::from_bits(bits)) & mode_mask()
}

fn list(aces: Vec<Ace>) -> Acl {
    Acl::new(aces).unwrap()
}

/// The bits that the entries of a user allow.
fn granted(acl: &Acl, user: u32) -> u16 {
    let of = |ace: &&Ace| ace.kind == AceKind::Allow && ace.who == Who::User(user);
    let mask = effective(acl)
        .filter(|ace| of(ace))
        .fold(0, |mask, ace| mask | ace.mask.0);
    let kinds = [1, 2, 4].into_iter();
    kinds.filter(|bit| AceMask(mask).has(bits(*bit))).sum()
}

#[test]
fn chmod_changes_a_list_by_its_rule() {
    let acl = list(vec![
        ace(AceKind::Allow, 0, Who::User(7), bits(6)),
        ace(AceKind::Allow, 0, Who::Everyone, bits(4)),
    ]);
    let after = |rule| acl.after_chmod(0o740, rule);
    assert_eq!(after(AclMode::Discard), Ok(None));
    for (rule, named) in [(AclMode::Groupmask, 4), (AclMode::Passthrough, 6)] {
        let changed = after(rule).unwrap().unwrap();
        assert_eq!(
            (changed.mode(), granted(&changed, 7)),
            (0o740, named),
            "{rule:?}"
        );
    }
    assert_eq!(after(AclMode::Restricted), Err(FileError::NotOwner));
    let trivial = list(vec![ace(AceKind::Allow, 0, Who::Everyone, bits(4))]);
    let changed = trivial.after_chmod(0o740, AclMode::Restricted).unwrap();
    assert_eq!(changed.unwrap().mode(), 0o740);
    let inheritable = list(vec![ace(AceKind::Allow, F, Who::Everyone, bits(4))]);
    assert!(!inheritable.is_trivial());
}

#[test]
fn a_mode_that_is_set_again_counts_for_strict_rules_only() {
    let acl = list(vec![ace(AceKind::Allow, 0, Who::User(7), bits(6))]);
    let acl = acl.with_mode(0o640).unwrap();
    let set = |is_set, rule| acl.after_set((0o640, 0o640), is_set, rule);
    for rule in [AclMode::Groupmask, AclMode::Passthrough] {
        assert_eq!(set(true, rule), Ok(Some(acl.clone())), "{rule:?}");
    }
    assert_eq!(set(true, AclMode::Discard), Ok(None));
    let forbidden = Err(FileError::NotOwner);
    assert_eq!(set(true, AclMode::Restricted), forbidden);
    // a change of owner or size, which may clear special bits
    for rule in [AclMode::Discard, AclMode::Restricted] {
        let kept = acl.after_set((0o4640, 0o640), false, rule);
        assert_eq!(kept, Ok(Some(acl.clone())), "{rule:?}");
    }
    let special = acl.after_set((0o640, 0o4640), true, AclMode::Restricted);
    assert_eq!(special, forbidden, "as ZFS: special bits are part of chmod");
}

#[test]
fn rights_to_change_list_and_owner_are_inherited_by_passthrough_alone() {
    let rights = AceMask::WRITE_ACL | AceMask::WRITE_OWNER;
    let parent = list(vec![
        ace(AceKind::Deny, F, Who::User(8), rights),
        ace(AceKind::Allow, F, Who::User(7), bits(4) | rights),
        ace(AceKind::Allow, F, Who::User(9), rights),
    ]);
    let has = |rule| {
        let first = parent.for_new(false, (0o640, None), rule).unwrap().unwrap();
        let named = |ace: &&Ace| matches!(ace.who, Who::User(7..=9)) && ace.mask.has(rights);
        first.aces().iter().filter(named).count()
    };
    assert_eq!(has(AclInherit::Restricted), 1, "the entry that denies");
    assert_eq!(has(AclInherit::Passthrough), 3);
    let nothing_else = list(vec![ace(AceKind::Allow, F, Who::User(9), rights)]);
    let first = nothing_else.for_new(false, (0o640, None), AclInherit::Restricted);
    assert_eq!(first, Ok(None));
}

#[test]
fn a_new_object_inherits_by_the_rule() {
    let parent = list(vec![
        ace(AceKind::Deny, F, Who::User(8), bits(2)),
        ace(AceKind::Allow, F, Who::User(7), bits(7)),
        ace(AceKind::Allow, F, Who::Owner, bits(7)),
    ]);
    let first = |mode, rule| parent.for_new(false, (mode, None), rule).unwrap();
    assert_eq!(first(0o640, AclInherit::Discard), None);
    let denying = first(0o640, AclInherit::Noallow).unwrap();
    assert_eq!((denying.mode(), granted(&denying, 7)), (0o640, 0));
    let restricted = first(0o640, AclInherit::Restricted).unwrap();
    assert_eq!((restricted.mode(), granted(&restricted, 7)), (0o640, 4));
    let passed = first(0o640, AclInherit::Passthrough).unwrap();
    assert_eq!((passed.mode(), granted(&passed, 7)), (0o700, 7));
    let passed = first(0o640, AclInherit::PassthroughX).unwrap();
    assert_eq!((passed.mode(), granted(&passed, 7)), (0o600, 7));
    let passed = first(0o750, AclInherit::PassthroughX).unwrap();
    assert_eq!(passed.mode(), 0o700);
    let named = list(vec![ace(AceKind::Allow, F, Who::User(7), bits(7))]);
    let passed = named.for_new(false, (0o666, Some(0o077)), AclInherit::Passthrough);
    let passed = passed.unwrap().unwrap();
    assert_eq!((passed.mode(), granted(&passed, 7)), (0o600, 7));
}

fn lists() -> impl Strategy<Value = Acl> {
    let who = prop_oneof![
        Just(Who::Owner),
        Just(Who::OwningGroup),
        Just(Who::Everyone),
        Just(Who::User(7))
    ];
    let kind = prop_oneof![Just(AceKind::Allow), Just(AceKind::Deny)];
    let entry = (kind, prop_oneof![Just(0), Just(F)], who, 0u16..8);
    let entry = entry.prop_map(|(kind, flags, who, mask)| ace(kind, flags, who, bits(mask)));
    prop::collection::vec(entry, 0..8).prop_map(list)
}

/// The slow model of a class: each bit is decided by its first entry.
fn class_of(acl: &Acl, who: &Who) -> u16 {
    let decides = |ace: &&Ace, bit| {
        let is_about = ace.who == Who::Everyone || ace.who == *who;
        is_about && !ace.flags.has(AceFlags::INHERIT_ONLY) && ace.mask.has(bits(bit))
    };
    let is_allowed = |bit: &u16| {
        let first = acl.aces().iter().find(|ace| decides(ace, *bit));
        first.is_some_and(|ace| ace.kind == AceKind::Allow)
    };
    [1, 2, 4].into_iter().filter(is_allowed).sum()
}

fn slow_mode(acl: &Acl) -> u16 {
    class_of(acl, &Who::Owner) << 6
        | class_of(acl, &Who::OwningGroup) << 3
        | class_of(acl, &Who::Everyone)
}

proptest! {
    #[test]
    fn modes_are_those_of_the_slow_model(acl in lists(), mode in 0u16..0o1000) {
        for rule in [AclMode::Groupmask, AclMode::Passthrough] {
            let after = acl.after_chmod(mode, rule).unwrap().unwrap();
            prop_assert_eq!(slow_mode(&after), mode);
        }
        for rule in [AclInherit::Noallow, AclInherit::Restricted] {
            if let Some(first) = acl.for_new(false, (mode, None), rule).unwrap() {
                prop_assert_eq!(slow_mode(&first), mode);
            }
        }
        let first = |rule| acl.for_new(false, (mode, None), rule).unwrap();
        if let Some(first) = first(AclInherit::Passthrough) {
            let inherited = acl.inherited(false).unwrap();
            let decides = inherited.aces().iter().any(|ace| is_class(&ace.who));
            let want = if decides { slow_mode(&inherited) } else { mode };
            prop_assert_eq!(slow_mode(&first), want);
        }
        if let Some(first) = first(AclInherit::PassthroughX).filter(|_| mode & 0o111 == 0) {
            prop_assert_eq!(slow_mode(&first) & 0o111, 0);
        }
    }
}
