//! `wirepool fs userspace` and `wirepool fs groupspace`.
//!
//! **Called by** `wirepool fs`. **Invariants**: as for all commands.

use crate::ask::Ask;
use crate::cli_filesystems::OwnersArgs;
use crate::table::{table, text};
use anyhow::Result;
use io::printable::printable;
use server::ByteSize;
use server::api::{ListOwnerSpace, OwnerKind, OwnerSpace};

/// Shows the space of users or groups.
pub(crate) fn owners(ask: &Ask, owners: OwnerKind, args: OwnersArgs) -> Result<String> {
    let call = ListOwnerSpace {
        name: args.name.clone(),
        owners,
    };
    ask.show(&call, |spaces| lines(owners, &args, spaces))
}

fn lines(owners: OwnerKind, args: &OwnersArgs, spaces: &[OwnerSpace]) -> String {
    let kind = match owners {
        OwnerKind::User => "POSIX User",
        OwnerKind::Group => "POSIX Group",
    };
    let size = |bytes: u64| match args.exact {
        true => bytes.to_string(),
        false => ByteSize(bytes).human(),
    };
    let mut rows: Vec<[String; 4]> = Vec::with_capacity(spaces.len());
    for space in spaces {
        let name = space.name.as_deref().filter(|_| !args.numeric);
        let name = name.map_or(space.id.to_string(), |name| printable(name).into_owned());
        let quota = match space.quota {
            0 => "none".to_owned(),
            quota => size(quota),
        };
        rows.push([kind.to_owned(), name, size(space.used), quota]);
    }
    rows.sort_by(|a, b| a[1].cmp(&b[1]));
    if args.script {
        return rows.iter().map(|row| row.join("\t") + "\n").collect();
    }
    let mut t = table(&["TYPE", "NAME", "USED", "QUOTA"], &[2, 3]);
    for row in rows {
        t.add_row(row);
    }
    text(&t)
}
