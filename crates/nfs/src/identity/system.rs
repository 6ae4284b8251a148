//! Users and groups of the operating system, from `passwd` and `group` of its name service switch.

use super::accounts::{Accounts, Unavailable};
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;

/// The users and groups that the C library knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemAccounts;

fn unavailable(error: Errno) -> Unavailable {
    Unavailable(error.to_string())
}

impl Accounts for SystemAccounts {
    fn user_name(&self, uid: u32) -> Result<Option<String>, Unavailable> {
        let found = User::from_uid(Uid::from_raw(uid)).map_err(unavailable)?;
        Ok(found.map(|user| user.name))
    }

    fn group_name(&self, gid: u32) -> Result<Option<String>, Unavailable> {
        let found = Group::from_gid(Gid::from_raw(gid)).map_err(unavailable)?;
        Ok(found.map(|group| group.name))
    }

    fn uid(&self, name: &str) -> Result<Option<u32>, Unavailable> {
        let found = User::from_name(name).map_err(unavailable)?;
        Ok(found.map(|user| user.uid.as_raw()))
    }

    fn gid(&self, name: &str) -> Result<Option<u32>, Unavailable> {
        let found = Group::from_name(name).map_err(unavailable)?;
        Ok(found.map(|group| group.gid.as_raw()))
    }

    fn groups(&self, uid: u32) -> Result<Option<Vec<u32>>, Unavailable> {
        let Some(user) = User::from_uid(Uid::from_raw(uid)).map_err(unavailable)? else {
            return Ok(None);
        };
        let Ok(name) = CString::new(user.name) else {
            return Ok(None);
        };
        let groups = getgrouplist(&name, user.gid).map_err(unavailable)?;
        Ok(Some(groups.into_iter().map(Gid::as_raw).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superuser_is_known() {
        let accounts = SystemAccounts;
        let name = accounts.user_name(0).unwrap().expect("a user 0");
        assert_eq!(accounts.uid(&name), Ok(Some(0)));
        let group = accounts.group_name(0).unwrap().expect("a group 0");
        assert_eq!(accounts.gid(&group), Ok(Some(0)));
        assert!(accounts.groups(0).unwrap().unwrap().contains(&0));
        assert_eq!(accounts.uid("no such user"), Ok(None));
    }
}
