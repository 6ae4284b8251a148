//! `wirepool console`: the users of the web console.
//!
//! **Owns** its arguments, and the reading of passwords. **Called by** `commands`. **Invariants**: a password comes from the terminal or from
//! stdin, and is never part of a command line, of the output, or of an error.

use crate::ask::Ask;
use crate::columns::rows;
use anyhow::{Result, bail};
use clap::Subcommand;
use console::Term;
use server::api::{
    AddConsoleUser, ConsoleUser, ListConsoleUsers, RemoveConsoleUser, SecretText,
    SetConsolePassword, UnlockConsoleUser, UserRole,
};
use std::io::{IsTerminal, Read};

/// Longest password that is read, bytes; the server's limit is lower.
const PASSWORD_LEN_MAX: u64 = 4096;

const EXAMPLES: &str = "\
Examples:
  wirepool console user add ann                asks for the password twice
  pass show wirepool | wirepool console user add ann
  wirepool console user add wall --read-only   may look, and change nothing
  wirepool console user password ann           its browsers are logged out
  wirepool console user list

The console itself is on if the configuration has [console] listen: docs/console.md.";

#[derive(Subcommand)]
pub(crate) enum ConsoleCommand {
    /// Add, remove and list users; set a password.
    #[command(subcommand, after_help = EXAMPLES)]
    User(UserCommand),
}

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user. The password is read from the terminal, or is the first line of stdin.
    Add {
        /// The name: letters, digits, '.', '_' and '-'.
        name: String,
        /// A user who may look at everything, and change nothing.
        #[arg(long)]
        read_only: bool,
    },
    /// Remove a user. Its browsers are logged out.
    Remove {
        /// The user.
        name: String,
    },
    /// List the users.
    List,
    /// Set a user's password, read as by `add`. Its browsers are logged out.
    Password {
        /// The user.
        name: String,
    },
    /// Forget a user's failed logins, so that it may log in at once.
    Unlock {
        /// The user.
        name: String,
    },
}

/// Runs one command; returns its output.
pub(crate) fn run(ask: &Ask, command: ConsoleCommand) -> Result<String> {
    let ConsoleCommand::User(command) = command;
    match command {
        UserCommand::Add { name, read_only } => {
            let password = password(&name)?;
            let role = match read_only {
                true => UserRole::Reader,
                false => UserRole::Admin,
            };
            let call = AddConsoleUser {
                name,
                password,
                role,
            };
            ask.show(&call, |user| match user.role {
                UserRole::Admin => format!("user {} may log in to the console\n", user.name),
                UserRole::Reader => format!(
                    "user {} may log in to the console, and only look\n",
                    user.name
                ),
            })
        }
        UserCommand::Remove { name } => {
            let text = format!("user {name} is removed, and logged out\n");
            ask.show(&RemoveConsoleUser { name }, |_| text)
        }
        UserCommand::Unlock { name } => {
            let text = format!("failed logins of user {name} are forgotten\n");
            ask.show(&UnlockConsoleUser { name }, |_| text)
        }
        UserCommand::List => ask.show(&ListConsoleUsers {}, |users| list(users)),
        UserCommand::Password { name } => {
            let password = password(&name)?;
            ask.show(&SetConsolePassword { name, password }, |user| {
                format!("user {} has a new password, and is logged out\n", user.name)
            })
        }
    }
}

fn list(users: &[ConsoleUser]) -> String {
    if users.is_empty() {
        return "no users: `wirepool console user add NAME`\n".to_owned();
    }
    rows(users)
        .left("USER", |u| u.name.clone())
        .left("ROLE", |u| role_word(u.role).to_owned())
        .right("BROWSERS", |u| u.sessions.to_string())
        .text()
}

fn role_word(role: UserRole) -> &'static str {
    match role {
        UserRole::Admin => "admin",
        UserRole::Reader => "reader",
    }
}

/// Asks for the password twice, or reads the first line of stdin.
fn password(name: &str) -> Result<SecretText> {
    let password = match std::io::stdin().is_terminal() {
        true => asked(name)?,
        false => first_line()?,
    };
    if password.is_empty() {
        bail!("the password is empty: type it, or give it as the first line of stdin");
    }
    Ok(SecretText(password))
}

fn first_line() -> Result<String> {
    let mut bytes = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin.take(PASSWORD_LEN_MAX).read_to_end(&mut bytes)?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("the password is not UTF-8 text");
    };
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn asked(name: &str) -> Result<String> {
    let terminal = Term::stderr();
    let ask = |question: String| -> Result<String> {
        terminal.write_str(&question)?;
        Ok(terminal.read_secure_line()?)
    };
    let password = ask(format!("password of {name}: "))?;
    if ask("once more: ".to_owned())? != password {
        bail!("the passwords differ: nothing was changed");
    }
    Ok(password)
}
