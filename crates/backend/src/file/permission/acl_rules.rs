//! Rules for lists: how chmod changes one, and what new objects inherit.
//!
//! **Owns** [`AclMode`] and [`AclInherit`], and what each of their values means. **Called by** the rules for attributes and by
//! implementations of file systems. **Invariants**: after a change of the mode, list and mode say the same about owner, group and
//! others; the defaults are the rules of RFC 8881 and of decision 0322, without the rights to
//! change list and owner. Decision 0136; `zfsprops(7)`.

use super::access::{effective, mask_of};
use super::acl_mode::{INHERITANCE, mode_mask, without};
use crate::file::{Access, Ace, AceFlags, AceKind, AceMask, Acl, FileError, FileResult, Who};

/// How chmod changes a list (`aclmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AclMode {
    /// The list goes; the mode says all.
    Discard,
    /// Owner, group and others get what the mode says. Other users and groups keep at most what it says for the group.
    #[default]
    Groupmask,
    /// Owner, group and others get what the mode says. Other entries stay as they are.
    Passthrough,
    /// A list that says more than a mode can refuses the change.
    Restricted,
}

/// Which entries of its directory a new object inherits (`aclinherit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AclInherit {
    /// None.
    Discard,
    /// Entries that deny.
    Noallow,
    /// All, narrowed by the mode, and without the rights to change list and owner.
    #[default]
    Restricted,
    /// All, as they are: an entry of owner, group or everyone decides about the mode.
    Passthrough,
    /// As [`Self::Passthrough`], but owner, group and everyone may execute only if the creation asks for a bit of that.
    PassthroughX,
}

/// The rules of a file system for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AclRules {
    /// How chmod changes a list.
    pub on_chmod: AclMode,
    /// What new objects inherit.
    pub on_create: AclInherit,
}

impl AclRules {
    /// The rules where nothing else is set.
    pub const STANDARD: Self = Self {
        on_chmod: AclMode::Groupmask,
        on_create: AclInherit::Restricted,
    };
}

/// Whether an entry is about owner, group or everyone, the classes of a mode.
fn is_class(who: &Who) -> bool {
    matches!(who, Who::Owner | Who::OwningGroup | Who::Everyone)
}

impl Acl {
    /// Whether a mode can say what this list says about reading, writing and executing: it has entries of owner, group and
    /// everyone alone, and hands none on.
    #[must_use]
    pub fn is_trivial(&self) -> bool {
        let mut aces = self.aces().iter();
        aces.all(|ace| {
            let decides = matches!(ace.kind, AceKind::Allow | AceKind::Deny);
            decides && is_class(&ace.who) && ace.flags.0 & INHERITANCE == 0
        })
    }

    /// The list of an object whose permission bits go from `before` to `after`. `is_set` says that the request names a mode, even the
    /// one that the object has: `discard` and `restricted` then count too, as in ZFS. `None` if the mode says all. Errors: `NotOwner`
    /// if `rule` forbids the change; `TooLarge`.
    pub fn after_set(
        &self,
        (before, after): (u16, u16),
        is_set: bool,
        rule: AclMode,
    ) -> FileResult<Option<Acl>> {
        let is_strict = matches!(rule, AclMode::Discard | AclMode::Restricted);
        match before & 0o777 != after & 0o777 || is_set && is_strict {
            true => self.after_chmod(after, rule),
            false => Ok(Some(self.clone())),
        }
    }

    /// The list of an object after chmod to these permission bits. `None` if the mode says all. Errors: `NotOwner` if `rule` forbids
    /// the change; `TooLarge`.
    fn after_chmod(&self, mode: u16, rule: AclMode) -> FileResult<Option<Acl>> {
        match rule {
            AclMode::Discard => Ok(None),
            AclMode::Groupmask => self.with_mode(mode).map(Some),
            AclMode::Passthrough => self.fitted(mode, 0o7).map(Some),
            AclMode::Restricted if self.is_trivial() => self.with_mode(mode).map(Some),
            AclMode::Restricted => Err(FileError::NotOwner),
        }
    }

    /// The entries that deny; `None` if there are none.
    fn denials(self) -> Option<Acl> {
        let denies = |ace: &&Ace| ace.kind == AceKind::Deny;
        let kept: Vec<Ace> = self.aces().iter().filter(denies).cloned().collect();
        match kept.is_empty() {
            true => None,
            false => Acl::new(kept).ok(),
        }
    }

    /// This inherited list without the rights to change list and owner.
    fn restricted(self) -> Option<Acl> {
        let rights = AceMask::WRITE_ACL | AceMask::WRITE_OWNER;
        let strip = |ace: &Ace| Ace {
            mask: match ace.kind {
                AceKind::Allow => without(ace.mask, rights),
                _ => ace.mask,
            },
            ..ace.clone()
        };
        let aces = self.aces().iter().map(strip);
        let kept: Vec<Ace> = aces.filter(|ace| ace.mask != AceMask(0)).collect();
        match kept.is_empty() {
            true => None,
            false => Acl::new(kept).ok(),
        }
    }

    /// This inherited list where entries stay as they are, and the permission bits of its object. An entry of owner, group or
    /// everyone decides about them; otherwise the mode without the umask does, and becomes part of the list. Errors: `TooLarge`.
    fn passed_through(self, mode: u16, umask: u16, may_execute: bool) -> FileResult<Acl> {
        let decides =
            |ace: &Ace| is_class(&ace.who) && matches!(ace.kind, AceKind::Allow | AceKind::Deny);
        if !effective(&self).any(decides) {
            return self.fitted(mode & !umask, 0o7);
        }
        if may_execute {
            return Ok(self);
        }
        let execute = mask_of(Access::EXECUTE) & mode_mask();
        let strip = |ace: &Ace| {
            let is_own = decides(ace) && !ace.flags.has(AceFlags::INHERIT_ONLY);
            let mask = match is_own && ace.kind == AceKind::Allow {
                true => without(ace.mask, execute),
                false => ace.mask,
            };
            Ace {
                mask,
                ..ace.clone()
            }
        };
        let aces = self.aces().iter().map(strip);
        Acl::new(aces.filter(|ace| ace.mask != AceMask(0)).collect())
    }

    /// The list of a new object of a directory with this list; `None` if it inherits nothing. `umask` is `None` if it has been
    /// applied to the mode. The object has the permission bits of the list. Errors: `TooLarge`.
    pub(super) fn for_new(
        &self,
        is_directory: bool,
        (mode, umask): (u16, Option<u16>),
        rule: AclInherit,
    ) -> FileResult<Option<Acl>> {
        let inherited = match rule {
            AclInherit::Discard => None,
            AclInherit::Noallow => self.inherited(is_directory).and_then(Acl::denials),
            AclInherit::Restricted => self.inherited(is_directory).and_then(Acl::restricted),
            AclInherit::Passthrough | AclInherit::PassthroughX => self.inherited(is_directory),
        };
        let Some(inherited) = inherited else {
            return Ok(None);
        };
        let may_execute = rule != AclInherit::PassthroughX || mode & 0o111 != 0;
        match (rule, umask) {
            (AclInherit::Passthrough | AclInherit::PassthroughX, umask) => {
                inherited.passed_through(mode, umask.unwrap_or(0), may_execute)
            }
            (_, Some(umask)) => inherited.narrowed(mode, umask),
            (_, None) => inherited.with_mode(mode),
        }
        .map(Some)
    }
}

#[cfg(test)]
mod tests;
