//! POSIX ACLs (POSIX.1e draft 17), and lists that grant the same.
//!
//! **Owns** [`PosixAcl`], its form as an extended attribute (`posix_acl_xattr.h` of Linux), and its form as entries. **Called
//! by** the parent module. **Invariants**: the entries of an ACL grant each process what the ACL grants, where several groups
//! of a process grant together what each of them grants; entries become an ACL only if that ACL grants the same.
//!
//! ```text
//! owner          allow p, deny the rest
//! each user      deny what the mask takes away, allow p, deny the rest
//! group, groups  for all: deny what the mask takes away; then for all: allow p; then for all: deny the rest
//! others         allow p
//! ```

use super::is_decisive;
use backend::file::{Ace, AceFlags, AceKind, AceMask, Who};
use std::collections::BTreeSet;

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The id of entries without one.
const NO_ID: u32 = u32::MAX;
/// Read, write, execute.
const BITS: [u16; 3] = [4, 2, 1];
/// Granted to everyone who is named, as a mode does.
const ALWAYS: u32 = AceMask::READ_ATTRIBUTES.0 | AceMask::READ_ACL.0 | AceMask::SYNCHRONIZE.0;
/// Kinds of access that no POSIX ACL has.
const BEYOND: u32 = AceMask::DELETE.0
    | AceMask::DELETE_CHILD.0
    | AceMask::WRITE_ACL.0
    | AceMask::WRITE_OWNER.0
    | AceMask::WRITE_ATTRIBUTES.0;
/// Of these, the owner always has.
const OWNERS: u32 = AceMask::WRITE_ACL.0 | AceMask::WRITE_ATTRIBUTES.0;

/// A POSIX ACL. Permissions are three bits, read to execute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PosixAcl {
    owner: u16,
    /// By user, sorted.
    users: Vec<(u32, u16)>,
    group: u16,
    /// By group, sorted.
    groups: Vec<(u32, u16)>,
    /// Limits users, group and groups; there is one if there are users or groups.
    mask: Option<u16>,
    other: u16,
}

fn mask_of(bits: u16) -> u32 {
    let parts = [
        AceMask::READ_DATA | AceMask::READ_NAMED_ATTRS,
        AceMask::WRITE_DATA | AceMask::APPEND_DATA | AceMask::WRITE_NAMED_ATTRS,
        AceMask::EXECUTE,
    ];
    let set = BITS.iter().zip(parts).filter(|(bit, _)| bits & **bit != 0);
    set.fold(0, |mask, (_, part)| mask | part.0)
}

impl PosixAcl {
    /// The ACL that says the same as permission bits.
    pub(crate) fn of_mode(mode: u16) -> Self {
        Self {
            owner: mode >> 6 & 7,
            group: mode >> 3 & 7,
            other: mode & 7,
            ..Self::default()
        }
    }

    /// Its permission bits, of which the group's are those of the group.
    pub(crate) fn mode(&self) -> u16 {
        self.owner << 6 | self.masked(self.group) << 3 | self.other
    }

    /// Whether permission bits say the same.
    pub(crate) fn is_minimal(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    fn masked(&self, bits: u16) -> u16 {
        bits & self.mask.unwrap_or(7)
    }

    /// The ACL after chmod(2).
    pub(super) fn with_mode(mut self, mode: u16) -> Self {
        let bits = Self::of_mode(mode);
        (self.owner, self.group, self.other) = (bits.owner, bits.group, bits.other);
        self.mask = self.mask.map(|_| bits.group);
        self
    }

    /// The access ACL of a new object whose directory has this default ACL, created with this mode.
    pub(super) fn restricted(&self, mode: u16) -> Self {
        let bits = Self::of_mode(mode);
        let mut new = self.clone();
        new.owner &= bits.owner;
        new.other &= bits.other;
        match &mut new.mask {
            Some(mask) => *mask &= bits.group,
            None => new.group &= bits.group,
        }
        new
    }

    /// Reads the value of the attribute. `None` if it is none.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (version, entries) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
            return None;
        }
        let mut acl = Self::default();
        let mut seen = 0;
        for entry in entries.chunks_exact(8) {
            let (tag, rest) = entry.split_first_chunk::<2>()?;
            let (bits, id) = rest.split_first_chunk::<2>()?;
            let (tag, bits) = (u16::from_le_bytes(*tag), u16::from_le_bytes(*bits));
            let id = u32::from_le_bytes(id.try_into().ok()?);
            let is_named = tag == USER || tag == GROUP;
            if bits > 7 || (!is_named && seen & tag != 0) {
                return None;
            }
            seen |= tag;
            match tag {
                USER_OBJ => acl.owner = bits,
                USER => acl.users.push((id, bits)),
                GROUP_OBJ => acl.group = bits,
                GROUP => acl.groups.push((id, bits)),
                MASK => acl.mask = Some(bits),
                OTHER => acl.other = bits,
                _ => return None,
            }
        }
        acl.users.sort_unstable();
        acl.groups.sort_unstable();
        let is_unique = |named: &[(u32, u16)]| named.windows(2).all(|w| w[0].0 != w[1].0);
        let needed = USER_OBJ | GROUP_OBJ | OTHER;
        let is_whole = seen & needed == needed && (acl.is_minimal() || acl.mask.is_some());
        (is_whole && is_unique(&acl.users) && is_unique(&acl.groups)).then_some(acl)
    }

    /// The value of the attribute.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        let mut add = |tag: u16, bits: u16, id: u32| {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&bits.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        };
        add(USER_OBJ, self.owner, NO_ID);
        self.users
            .iter()
            .for_each(|(id, bits)| add(USER, *bits, *id));
        add(GROUP_OBJ, self.group, NO_ID);
        self.groups
            .iter()
            .for_each(|(id, bits)| add(GROUP, *bits, *id));
        if let Some(mask) = self.mask {
            add(MASK, mask, NO_ID);
        }
        add(OTHER, self.other, NO_ID);
        value
    }

    /// Entries that grant the same.
    pub(super) fn to_entries(&self, flags: AceFlags) -> Vec<Ace> {
        let mut entries = Vec::new();
        let mut add = |kind: AceKind, who: &Who, mask: u32| {
            if mask != 0 {
                entries.push(Ace {
                    kind,
                    flags,
                    mask: AceMask(mask),
                    who: who.clone(),
                });
            }
        };
        let lost = |bits: u16| mask_of(bits & !self.masked(bits));
        let rest = |bits: u16| mask_of(7 & !bits);
        add(AceKind::Allow, &Who::Owner, mask_of(self.owner) | ALWAYS);
        add(AceKind::Deny, &Who::Owner, rest(self.owner));
        for (uid, bits) in &self.users {
            let who = Who::User(*uid);
            add(AceKind::Deny, &who, lost(*bits));
            add(AceKind::Allow, &who, mask_of(*bits) | ALWAYS);
            add(AceKind::Deny, &who, rest(*bits));
        }
        let named = self
            .groups
            .iter()
            .map(|(gid, bits)| (Who::Group(*gid), *bits));
        let groups: Vec<(Who, u16)> = std::iter::once((Who::OwningGroup, self.group))
            .chain(named)
            .collect();
        groups
            .iter()
            .for_each(|(who, bits)| add(AceKind::Deny, who, lost(*bits)));
        for (who, bits) in &groups {
            add(AceKind::Allow, who, mask_of(*bits) | ALWAYS);
        }
        groups
            .iter()
            .for_each(|(who, bits)| add(AceKind::Deny, who, rest(*bits)));
        add(AceKind::Allow, &Who::Everyone, mask_of(self.other) | ALWAYS);
        entries
    }

    /// The ACL that grants what entries grant; `None` if there is none.
    pub(super) fn of_entries(entries: &[Ace]) -> Option<Self> {
        if !entries.iter().all(has_only_permissions) {
            return None;
        }
        let (mut users, mut groups) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            match &entry.who {
                Who::User(uid) => drop(users.insert(*uid)),
                Who::Group(gid) => drop(groups.insert(*gid)),
                Who::Sid(_) => return None,
                Who::Owner | Who::OwningGroup | Who::Everyone => {}
            }
        }
        let one = |who: &Who| granted(entries, &[who]);
        let mut acl = Self {
            owner: one(&Who::Owner)?,
            group: one(&Who::OwningGroup)?,
            other: granted(entries, &[])?,
            ..Self::default()
        };
        for uid in users {
            acl.users.push((uid, one(&Who::User(uid))?));
        }
        for gid in groups {
            acl.groups.push((gid, one(&Who::Group(gid))?));
        }
        acl.grants_the_same(entries)?;
        acl.unmask(entries);
        Some(acl)
    }

    fn group_class(&self) -> Vec<(Who, u16)> {
        let named = self
            .groups
            .iter()
            .map(|(gid, bits)| (Who::Group(*gid), *bits));
        let mut all = vec![(Who::OwningGroup, self.group)];
        all.extend(named);
        all
    }

    /// Processes that several entries are about: the owner and named users are decided before groups, and groups grant
    /// together. Two entries are enough: the first one that is about a process decides. `None` if that is not so.
    fn grants_the_same(&self, entries: &[Ace]) -> Option<()> {
        let is = |who: [&Who; 2], bits: u16| (granted(entries, &who)? == bits).then_some(());
        let users: Vec<(Who, u16)> = {
            let named = self.users.iter();
            named.map(|(uid, bits)| (Who::User(*uid), *bits)).collect()
        };
        let groups = self.group_class();
        for (who, _) in users.iter().chain(&groups) {
            is([&Who::Owner, who], self.owner)?;
        }
        for (user, bits) in &users {
            for (group, _) in &groups {
                is([user, group], *bits)?;
            }
        }
        for (n, (one, bits)) in groups.iter().enumerate() {
            for (other, more) in &groups[n + 1..] {
                is([one, other], bits | more)?;
            }
        }
        Some(())
    }

    /// Adds the mask, and the permissions that it takes away: permissions that are denied first and allowed later.
    fn unmask(&mut self, entries: &[Ace]) {
        if self.is_minimal() {
            return;
        }
        let named = |all: &[(u32, u16)]| all.iter().fold(0, |all, (_, bits)| all | bits);
        let mask = self.group | named(&self.users) | named(&self.groups);
        self.mask = Some(mask);
        let raw = |who: &Who, bits: u16| {
            let own = entries.iter().filter(|e| e.who == *who);
            let allowed = own
                .filter(|e| e.kind == AceKind::Allow)
                .fold(0, |all, e| all | e.mask.0);
            let lost = BITS.iter().filter(|bit| {
                let all = mask_of(**bit);
                **bit & mask == 0 && allowed & all == all
            });
            lost.fold(bits, |bits, bit| bits | bit)
        };
        self.group = raw(&Who::OwningGroup, self.group);
        for (uid, bits) in &mut self.users {
            *bits = raw(&Who::User(*uid), *bits);
        }
        for (gid, bits) in &mut self.groups {
            *bits = raw(&Who::Group(*gid), *bits);
        }
    }
}

/// Whether an entry is about nothing but reading, writing and executing.
fn has_only_permissions(entry: &Ace) -> bool {
    let allowed = match (&entry.who, entry.kind) {
        (Who::Owner, AceKind::Allow) => OWNERS,
        _ => 0,
    };
    is_decisive(entry) && entry.mask.0 & BEYOND & !allowed == 0
}

/// The permissions of a process that entries are about, besides those for everyone. `None` if it may add data to a file and not
/// change it, or the other way round.
fn granted(entries: &[Ace], about: &[&Who]) -> Option<u16> {
    let (mut allowed, mut denied) = (0, 0);
    for entry in entries {
        if entry.who != Who::Everyone && !about.contains(&&entry.who) {
            continue;
        }
        let open = entry.mask.0 & !(allowed | denied);
        match entry.kind {
            AceKind::Allow => allowed |= open,
            _ => denied |= open,
        }
    }
    let has = |mask: AceMask| allowed & mask.0 != 0;
    if has(AceMask::WRITE_DATA) != has(AceMask::APPEND_DATA) {
        return None;
    }
    let kinds = [AceMask::READ_DATA, AceMask::WRITE_DATA, AceMask::EXECUTE];
    let set = BITS.iter().zip(kinds).filter(|(_, kind)| has(*kind));
    Some(set.fold(0, |bits, (bit, _)| bits | bit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::file::permission::{Permissions, access};
    use backend::file::{Access, Acl, Attributes, Caller, FileKind, Handle, Timestamp};

    fn acl(users: &[(u32, u16)], groups: &[(u32, u16)], mask: u16) -> PosixAcl {
        PosixAcl {
            owner: 6,
            users: users.to_vec(),
            group: 4,
            groups: groups.to_vec(),
            mask: (users.len() + groups.len() > 0).then_some(mask),
            other: 1,
        }
    }

    fn examples() -> Vec<PosixAcl> {
        vec![
            acl(&[], &[], 7),
            acl(&[(8, 7)], &[], 7),
            acl(&[(8, 0), (9, 6)], &[(60, 2)], 6),
            acl(&[(8, 7)], &[(60, 3), (61, 5)], 7),
            acl(&[(8, 7)], &[(60, 7)], 4),
            acl(&[(8, 7)], &[], 0),
        ]
    }

    #[test]
    fn the_attribute_is_read_as_it_was_written() {
        for acl in examples() {
            assert_eq!(PosixAcl::decode(&acl.encode()), Some(acl));
        }
        let value = acl(&[(8, 7)], &[], 7).encode();
        assert_eq!(PosixAcl::decode(&value[..value.len() - 1]), None);
        assert_eq!(PosixAcl::decode(&value[..4]), None, "no entries");
        assert_eq!(PosixAcl::decode(&[]), None);
        let twice = [&value[..], &value[4..]].concat();
        assert_eq!(PosixAcl::decode(&twice), None);
    }

    #[test]
    fn entries_become_the_acl_that_they_were_made_of() {
        for acl in examples() {
            let found = PosixAcl::of_entries(&acl.to_entries(AceFlags::default())).unwrap();
            let named = acl.users.iter().chain(&acl.groups);
            let union = named.fold(acl.group, |all, (_, bits)| all | bits);
            // bits of the mask that take nothing away are not kept
            let mask = acl.mask.map(|mask| mask & union);
            assert_eq!(found, PosixAcl { mask, ..acl });
        }
    }

    /// POSIX.1e, section 23.1.5, with the groups of a process granting together.
    fn posix(acl: &PosixAcl, uid: u32, groups: &[u32]) -> u16 {
        if uid == 7 {
            return acl.owner;
        }
        if let Some((_, bits)) = acl.users.iter().find(|(user, _)| *user == uid) {
            return acl.masked(*bits);
        }
        let own = groups.contains(&50).then_some(acl.group);
        let named = acl.groups.iter().filter(|(gid, _)| groups.contains(gid));
        let found: Vec<u16> = own
            .into_iter()
            .chain(named.map(|(_, bits)| *bits))
            .collect();
        match found.is_empty() {
            true => acl.other,
            false => acl.masked(found.into_iter().fold(0, |all, bits| all | bits)),
        }
    }

    #[test]
    fn the_list_grants_what_the_acl_grants() {
        let all = Access::READ | Access::WRITE | Access::EXECUTE;
        for acl in examples() {
            let list = Acl::new(acl.to_entries(AceFlags::default())).unwrap();
            assert_eq!(list.mode(), acl.mode());
            let file = Attributes {
                handle: Handle {
                    filesystem: 1,
                    object: 2,
                    generation: 3,
                },
                kind: FileKind::File,
                mode: list.mode(),
                links: 1,
                uid: 7,
                gid: 50,
                size: 0,
                used: 0,
                device: 0,
                accessed: Timestamp(0),
                modified: Timestamp(0),
                changed: Timestamp(0),
                created: Timestamp(0),
                change: 0,
            };
            let of = Permissions::new(&file, Some(&list));
            for uid in [7, 8, 9, 10] {
                for groups in [
                    &[][..],
                    &[50],
                    &[60],
                    &[60, 61],
                    &[50, 61],
                    &[50, 60, 61],
                    &[99],
                ] {
                    let caller = Caller::new(uid, 1, groups.to_vec());
                    let granted = access(&caller, &of, all).bits();
                    assert_eq!(
                        granted,
                        posix(&acl, uid, groups),
                        "{acl:?} {uid} {groups:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn lists_that_no_acl_can_say_become_none() {
        let entry = |kind, who, mask: AceMask| Ace {
            kind,
            flags: AceFlags::default(),
            mask,
            who,
        };
        let (allow, deny) = (AceKind::Allow, AceKind::Deny);
        let read = AceMask::READ_DATA;
        let lists = [
            vec![entry(allow, Who::Everyone, AceMask::DELETE)],
            vec![entry(allow, Who::Everyone, AceMask::APPEND_DATA)],
            vec![entry(allow, Who::Sid([1; 8].into()), read)],
            vec![entry(AceKind::Audit, Who::Everyone, read)],
            // a group that is refused what another one grants
            vec![
                entry(deny, Who::Group(60), read),
                entry(allow, Who::Group(61), read),
            ],
            // an owner who gets more as a member of a group
            vec![entry(allow, Who::Group(60), read)],
        ];
        for list in lists {
            assert_eq!(PosixAcl::of_entries(&list), None, "{list:?}");
        }
        let all = entry(allow, Who::Everyone, read);
        assert_eq!(PosixAcl::of_entries(&[all]), Some(PosixAcl::of_mode(0o444)));
    }
}
