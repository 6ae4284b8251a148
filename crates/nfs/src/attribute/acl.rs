//! Access control lists as attributes: `acl` and `dacl` (§6.2.1, §6.2.2).
//!
//! **Owns** entries on the wire, and the list of an object that has none. **Called by** encoding and decoding of attributes.
//! **Invariants**: entries of kinds other than allow and deny are neither shown nor accepted; the list that is shown for a mode
//! has that mode (§6.3.2). Text forms of principals are those of [`crate::identity`].

use crate::identity::{Identity, Names};
use crate::limits::PRINCIPAL_LEN_MAX;
use crate::wire::Status;
use crate::xdr::{Reader, Writer, XdrError};
use backend::file::{ACES_MAX, Access, Ace, AceFlags, AceKind, AceMask, Acl, FileError, Who};

/// `ACE4_IDENTIFIER_GROUP`.
const IDENTIFIER_GROUP: u32 = 0x40;
/// Fewest bytes of an entry: type, flags, mask, length of the principal.
const ACE_LEN_MIN: usize = 16;

/// The subjects of entries that have no number (§6.2.1.5).
const OWNER: &[u8] = b"OWNER@";
const GROUP: &[u8] = b"GROUP@";
const EVERYONE: &[u8] = b"EVERYONE@";

fn is_shown(ace: &&Ace) -> bool {
    matches!(ace.kind, AceKind::Allow | AceKind::Deny) && !matches!(ace.who, Who::Sid(_))
}

/// Writes the entries of a list (`nfsace4<>`).
pub(super) fn encode(aces: &[Ace], names: &Names, writer: &mut Writer) {
    writer.count(aces.iter().filter(is_shown).count());
    for ace in aces.iter().filter(is_shown) {
        let group = match ace.who {
            Who::OwningGroup | Who::Group(_) => IDENTIFIER_GROUP,
            Who::Owner | Who::Everyone | Who::User(_) | Who::Sid(_) => 0,
        };
        writer.u32(ace.kind as u32);
        writer.u32(u32::from(ace.flags.0) | group);
        writer.u32(ace.mask.0);
        match &ace.who {
            Who::Owner => writer.opaque(OWNER),
            Who::OwningGroup => writer.opaque(GROUP),
            Who::Everyone => writer.opaque(EVERYONE),
            Who::Sid(_) => unreachable!("it is not shown"),
            Who::User(uid) => writer.opaque(names.user(*uid).as_bytes()),
            Who::Group(gid) => writer.opaque(names.group(*gid).as_bytes()),
        }
    }
}

fn bad_xdr(_: XdrError) -> Status {
    Status::Badxdr
}

/// Reads the entries of a list. Errors: `Badxdr`; `Fbig` for too many; `Attrnotsupp` for audit and alarm (§6.2.1.2); `Inval` for
/// flags and kinds of access that do not exist; `Badowner`.
pub(super) async fn decode(reader: &mut Reader<'_>, identity: &Identity) -> Result<Acl, Status> {
    let count = match reader.count(ACES_MAX, ACE_LEN_MIN) {
        Err(XdrError::TooLong) => return Err(Status::Fbig),
        other => other.map_err(bad_xdr)?,
    };
    let mut aces = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = match reader.u32().map_err(bad_xdr)? {
            0 => AceKind::Allow,
            1 => AceKind::Deny,
            2 | 3 => return Err(Status::Attrnotsupp),
            _ => return Err(Status::Inval),
        };
        let flags = reader.u32().map_err(bad_xdr)?;
        let mask = AceMask(reader.u32().map_err(bad_xdr)?);
        let who = match reader.opaque(PRINCIPAL_LEN_MAX).map_err(bad_xdr)? {
            OWNER => Who::Owner,
            GROUP => Who::OwningGroup,
            EVERYONE => Who::Everyone,
            name if flags & IDENTIFIER_GROUP != 0 => Who::Group(identity.gid(name).await?),
            name => Who::User(identity.uid(name).await?),
        };
        let flags = u16::try_from(flags & !IDENTIFIER_GROUP).map_err(|_| Status::Inval)?;
        aces.push(Ace {
            kind,
            flags: AceFlags(flags),
            mask,
            who,
        });
    }
    Acl::new(aces).map_err(|error| match error {
        FileError::TooLarge => Status::Fbig,
        _ => Status::Inval,
    })
}

/// The users and groups that a list names.
pub(crate) fn principals(acl: &Acl) -> impl Iterator<Item = &Who> {
    let shown = acl.aces().iter().filter(is_shown);
    shown.map(|ace| &ace.who)
}

/// The list that stands for a mode (§6.4.2): of an object without a list, nobody has other rights.
pub(super) fn of_mode(mode: u16, is_directory: bool) -> Vec<Ace> {
    let class = |shift: u16| mask_of(Access::from_bits(mode >> shift));
    let (owner, group, other) = (class(6), class(3), class(0));
    let deny = |who, mask: u32| (AceKind::Deny, who, mask);
    let allow = |who, mask: u32| (AceKind::Allow, who, mask | implied(mask, is_directory));
    let of_owner = AceMask::WRITE_ATTRIBUTES | AceMask::WRITE_ACL;
    let all = [
        deny(Who::Owner, (group | other) & !owner),
        allow(Who::Owner, owner | of_owner.0),
        deny(Who::OwningGroup, other & !group),
        allow(Who::OwningGroup, group),
        allow(Who::Everyone, other),
    ];
    let all = all.into_iter().filter(|(_, _, mask)| *mask != 0);
    let ace = |(kind, who, mask)| Ace {
        kind,
        flags: AceFlags::default(),
        mask: AceMask(mask),
        who,
    };
    all.map(ace).collect()
}

/// Kinds of access that permission bits grant.
fn mask_of(access: Access) -> u32 {
    let of = |kind, mask: AceMask| if access.has(kind) { mask.0 } else { 0 };
    of(Access::READ, AceMask::READ_DATA)
        | of(Access::WRITE, AceMask::WRITE_DATA | AceMask::APPEND_DATA)
        | of(Access::EXECUTE, AceMask::EXECUTE)
}

/// Kinds of access that come with others where the mode decides.
fn implied(mask: u32, is_directory: bool) -> u32 {
    let always = AceMask::READ_ATTRIBUTES | AceMask::READ_ACL | AceMask::SYNCHRONIZE;
    let mut all = always.0;
    if AceMask(mask).has(AceMask::READ_DATA) {
        all |= AceMask::READ_NAMED_ATTRS.0;
    }
    if AceMask(mask).has(AceMask::WRITE_DATA) {
        all |= AceMask::WRITE_NAMED_ATTRS.0;
        if is_directory {
            all |= AceMask::DELETE_CHILD.0;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::now_or_never;

    fn decoded(write: impl FnOnce(&mut Writer)) -> Result<Acl, Status> {
        let mut writer = Writer::new();
        write(&mut writer);
        let bytes = writer.to_vec();
        let mut reader = Reader::new(&bytes);
        let acl = now_or_never(decode(&mut reader, &Identity::default()))?;
        assert!(reader.is_empty());
        Ok(acl)
    }

    fn ace(writer: &mut Writer, words: [u32; 3], who: &[u8]) {
        words.iter().for_each(|word| writer.u32(*word));
        writer.opaque(who);
    }

    #[test]
    fn entries_have_their_bytes() {
        let words: &[(_, &[u8])] = &[
            ([0, 0x3, 0x1f_01ff], b"OWNER@"),
            ([1, 0x40, 0x2], b"GROUP@"),
            ([0, 0, 0x20], b"EVERYONE@"),
            ([0, 0x80, 0x1], b"1000"),
            ([1, 0x4b, 0x1], b"50"),
        ];
        let write = |writer: &mut Writer| {
            writer.count(words.len());
            words
                .iter()
                .for_each(|(words, who)| ace(writer, *words, who));
        };
        let acl = decoded(write).unwrap();
        let who: Vec<&Who> = acl.aces().iter().map(|ace| &ace.who).collect();
        let expected = [
            &Who::Owner,
            &Who::OwningGroup,
            &Who::Everyone,
            &Who::User(1000),
            &Who::Group(50),
        ];
        assert_eq!(who, expected);
        let (mut golden, mut again) = (Writer::new(), Writer::new());
        write(&mut golden);
        encode(acl.aces(), &Names::default(), &mut again);
        assert_eq!(again.to_vec(), golden.to_vec());
    }

    #[test]
    fn bad_entries_are_refused() {
        let one = |words, who: &'static [u8]| {
            decoded(move |w| {
                w.u32(1);
                ace(w, words, who);
            })
        };
        assert_eq!(one([2, 0, 1], b"OWNER@"), Err(Status::Attrnotsupp));
        assert_eq!(one([3, 0, 1], b"OWNER@"), Err(Status::Attrnotsupp));
        assert_eq!(one([4, 0, 1], b"OWNER@"), Err(Status::Inval));
        assert_eq!(one([0, 0x100, 1], b"OWNER@"), Err(Status::Inval));
        assert_eq!(one([0, 0x1_0000, 1], b"OWNER@"), Err(Status::Inval));
        assert_eq!(one([0, 0, 0x200], b"OWNER@"), Err(Status::Inval));
        assert_eq!(one([0, 0, 1], b"INTERACTIVE@"), Err(Status::Badowner));
        assert_eq!(one([0, 0, 1], b"ann"), Err(Status::Badowner));
        assert_eq!(decoded(|w| w.u32(257)), Err(Status::Fbig));
        assert_eq!(decoded(|w| w.u32(256)), Err(Status::Badxdr));
    }

    #[test]
    fn the_list_of_a_mode_has_this_mode() {
        for mode in 0..0o1000 {
            for is_directory in [false, true] {
                let acl = Acl::new(of_mode(mode, is_directory)).unwrap();
                assert_eq!(acl.mode(), mode, "{mode:o}");
            }
        }
        let deny = of_mode(0o604, false);
        assert_eq!(
            (deny[1].kind, &deny[1].who),
            (AceKind::Deny, &Who::OwningGroup)
        );
    }
}
