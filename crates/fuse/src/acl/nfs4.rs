//! The attribute `system.nfs4_acl`, as Linux's NFS client has it and nfs4_getfacl(1) reads it.
//!
//! **Owns** its form: the `fattr4_acl` of RFC 8881, section 6.2.1, in XDR. **Called by** requests for extended attributes.
//! **Invariants**: what is read is bounded by the limits of [`Acl`]; users and groups are numbers, because names are nobody's
//! business here.

use backend::file::{ACES_MAX, Ace, AceFlags, AceKind, AceMask, Acl, Who};

/// `ACE4_IDENTIFIER_GROUP`: the subject is a group.
const GROUP: u32 = 0x40;

/// The value of the attribute. `None` if the list has a Windows security identifier, for which it has no form.
pub(crate) fn encode(acl: &Acl) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let word = |value: &mut Vec<u8>, n: u32| value.extend_from_slice(&n.to_be_bytes());
    word(&mut value, acl.aces().len() as u32);
    for ace in acl.aces() {
        let (who, is_group) = match &ace.who {
            Who::Owner => ("OWNER@".to_owned(), false),
            Who::OwningGroup => ("GROUP@".to_owned(), true),
            Who::Everyone => ("EVERYONE@".to_owned(), false),
            Who::User(uid) => (uid.to_string(), false),
            Who::Group(gid) => (gid.to_string(), true),
            Who::Sid(_) => return None,
        };
        word(&mut value, ace.kind as u32);
        let group = if is_group { GROUP } else { 0 };
        word(&mut value, u32::from(ace.flags.0) | group);
        word(&mut value, ace.mask.0);
        word(&mut value, who.len() as u32);
        value.extend_from_slice(who.as_bytes());
        value.resize(value.len().next_multiple_of(4), 0);
    }
    Some(value)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = self.word()? as usize;
        let text = self.0.get(..len)?;
        self.0 = self.0.get(len.checked_next_multiple_of(4)?..)?;
        std::str::from_utf8(text).ok()
    }

    fn ace(&mut self) -> Option<Ace> {
        let kind = match self.word()? {
            0 => AceKind::Allow,
            1 => AceKind::Deny,
            2 => AceKind::Audit,
            3 => AceKind::Alarm,
            _ => return None,
        };
        let flags = self.word()?;
        let mask = AceMask(self.word()?);
        let who = match (self.text()?, flags & GROUP != 0) {
            ("OWNER@", _) => Who::Owner,
            ("GROUP@", _) => Who::OwningGroup,
            ("EVERYONE@", _) => Who::Everyone,
            (id, is_group) => {
                let number = id.split('@').next()?.parse().ok()?;
                if is_group {
                    Who::Group(number)
                } else {
                    Who::User(number)
                }
            }
        };
        Some(Ace {
            kind,
            flags: AceFlags(u16::try_from(flags & !GROUP).ok()?),
            mask,
            who,
        })
    }
}

/// Reads the value of the attribute. `None` if it is none, or names a user or group otherwise than by number.
pub(crate) fn decode(value: &[u8]) -> Option<Acl> {
    let mut reader = Reader(value);
    let count = reader.word()? as usize;
    if count > ACES_MAX {
        return None;
    }
    let aces: Option<Vec<Ace>> = (0..count).map(|_| reader.ace()).collect();
    let aces = aces.filter(|_| reader.0.is_empty())?;
    Acl::new(aces).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_is_read_as_it_was_written() {
        let ace = |who| Ace {
            kind: AceKind::Deny,
            flags: AceFlags::FILE_INHERIT,
            mask: AceMask::READ_DATA,
            who,
        };
        let all = [
            Who::Owner,
            Who::OwningGroup,
            Who::Everyone,
            Who::User(1000),
            Who::Group(12),
        ];
        let acl = Acl::new(all.map(ace).to_vec()).unwrap();
        let value = encode(&acl).unwrap();
        assert_eq!(decode(&value), Some(acl));
        for len in 0..value.len() {
            assert_eq!(decode(&value[..len]), None, "{len} bytes of it");
        }
        let sid = Acl::new(vec![ace(Who::Sid([1; 8].into()))]).unwrap();
        assert_eq!(encode(&sid), None);
    }

    #[test]
    fn users_are_numbers_with_or_without_a_domain() {
        let value = |who: &str| {
            let mut value = Vec::new();
            for word in [1, 0, 0, 1, who.len() as u32] {
                value.extend_from_slice(&word.to_be_bytes());
            }
            value.extend_from_slice(who.as_bytes());
            value.resize(value.len().next_multiple_of(4), 0);
            value
        };
        let who = |text: &str| Some(decode(&value(text))?.aces()[0].who.clone());
        assert_eq!(who("1000"), Some(Who::User(1000)));
        assert_eq!(who("1000@localdomain"), Some(Who::User(1000)));
        assert_eq!(who("bob@localdomain"), None);
        assert_eq!(decode(&u32::MAX.to_be_bytes()), None);
    }
}
