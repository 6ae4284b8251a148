//! A job that changes names of its own in the directory of the export, one after the other, and looks at them.

use super::expectations::failure;
use super::mount::{Live, SimMount};
use super::names::{NAMES, NameChange, NameNumber};
use crate::access::Failure;
use crate::workload::Expected;
use io::rng::Prng;
use io::time::sleep;
use nfs::wire::Status;
use nfs_initiator::{Error, FileHandle, OpenOptions};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Most steps of a job.
const STEPS_MAX: u64 = 60;
/// Longest pause between two steps.
const PAUSE_MAX: Duration = Duration::from_millis(40);
/// Pause after the server or its export disappeared.
const GONE_PAUSE: Duration = Duration::from_millis(100);
const NEW: OpenOptions = OpenOptions {
    write: true,
    create: true,
};

/// See the module header.
pub(super) struct Naming {
    pub(super) who: usize,
    pub(super) mounted: Rc<SimMount>,
    pub(super) rng: Prng,
    pub(super) expected: Expected,
}

/// A change that was begun. If it is dropped without an answer (its client lost power), its effect is unknown.
struct Begun<'a> {
    mounted: &'a SimMount,
    who: usize,
    number: u64,
    is_answered: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let share = &self.mounted.share;
        let mut names = share.names[self.who].borrow_mut();
        if !self.is_answered {
            names.unknown(self.number);
        }
        names.follow(share.epoch());
    }
}

fn prefix(who: usize) -> String {
    format!("client {who} name ")
}

fn name(who: usize, number: NameNumber) -> String {
    format!("{}{number}", prefix(who))
}

/// Lists the names of a client, and has its model judge them. Errors: they cannot be listed.
pub(super) async fn list(mounted: &Rc<SimMount>, who: usize) -> Result<(), Error> {
    let live = mounted.live().await;
    let (share, began) = (&mounted.share, mounted.share.epoch());
    share.names[who].borrow_mut().follow(began);
    let listed = listed(&live, who).await;
    let found = listed.inspect_err(|error| mounted.failed(&live, error))?;
    if began == share.epoch()
        && let Err(what) = share.names[who].borrow_mut().listed(&found)
    {
        share.blame(format!("client {who}: {what}"));
    }
    Ok(())
}

async fn listed(live: &Live, who: usize) -> Result<BTreeMap<NameNumber, FileHandle>, Error> {
    let (mut found, mut page) = (BTreeMap::new(), None);
    loop {
        let next = live.session.read_directory(&live.home, page.as_ref());
        let next = next.await?;
        for entry in &next.entries {
            let text = String::from_utf8_lossy(&entry.name);
            let number = text.strip_prefix(&prefix(who)).map(str::parse);
            if let Some(Ok(number)) = number {
                let handle = FileHandle::new(&entry.attributes.handle);
                found.insert(number, handle.expect("a handle of a reply is short"));
            }
        }
        if next.is_end {
            return Ok(found);
        }
        page = Some(next);
    }
}

async fn make(
    live: &Live,
    who: usize,
    change: NameChange,
    closes: bool,
) -> Result<Option<FileHandle>, Error> {
    let (session, home) = (&live.session, &live.home);
    match change {
        NameChange::Open(number) => {
            let file = session.open(home, &name(who, number), NEW).await?;
            let handle = file.handle().clone();
            // The file was opened, however its end is answered. Some stay open until their client ends.
            if closes {
                drop(file.close().await);
            }
            Ok(Some(handle))
        }
        NameChange::Directory(number) => {
            let made = session.create_directory(home, &name(who, number)).await;
            made.map(Some)
        }
        NameChange::Remove(number) => {
            let removed = session.remove(home, &name(who, number)).await;
            removed.map(|()| None)
        }
        NameChange::Rename(from, to) => {
            let (from, to) = (name(who, from), name(who, to));
            let renamed = session.rename((home, &from), (home, &to)).await;
            renamed.map(|()| None)
        }
    }
}

/// Whether a change was refused because of the names that are there.
fn is_refusal(error: &Error) -> bool {
    let status = error.status();
    status.is_some_and(|status| {
        matches!(
            status,
            Status::Noent | Status::Exist | Status::Isdir | Status::Notdir | Status::Notempty
        )
    })
}

impl Naming {
    /// Runs all steps. Ends early at a violation.
    pub(super) async fn run(mut self) {
        for _ in 0..self.rng.below(STEPS_MAX) {
            if self.mounted.share.is_wrong() {
                return;
            }
            if self.rng.chance(0.3) {
                sleep(PAUSE_MAX.mul_f64(self.rng.below(100) as f64 / 100.0)).await;
            }
            let (a, b) = (self.rng.below(NAMES), self.rng.below(NAMES));
            let step = match self.rng.below(12) {
                0..=2 => self.change(NameChange::Open(a)).await,
                3 => self.change(NameChange::Directory(a)).await,
                4 | 5 => self.change(NameChange::Remove(a)).await,
                6..=8 => self.change(NameChange::Rename(a, b)).await,
                9 | 10 => self.look_up(a).await,
                _ => list(&self.mounted, self.who).await,
            };
            if let Err(error) = step {
                self.judge(&error).await;
            }
        }
    }

    async fn judge(&self, error: &Error) {
        let failure = failure(error);
        if !self.expected.explains(failure) {
            let what = format!(
                "client {}: a name failed without a reason: {error}",
                self.who
            );
            self.mounted.share.blame(what);
        }
        if matches!(failure, Failure::Gone | Failure::Unknown) {
            sleep(GONE_PAUSE).await;
        }
    }

    fn blame(&self, judged: Result<(), String>) {
        if let Err(what) = judged {
            self.mounted
                .share
                .blame(format!("client {}: {what}", self.who));
        }
    }

    async fn change(&mut self, change: NameChange) -> Result<(), Error> {
        let closes = self.rng.chance(0.7);
        let live = self.mounted.live().await;
        let share = &self.mounted.share;
        let number = {
            let mut names = share.names[self.who].borrow_mut();
            names.follow(share.epoch());
            names.begin(change)
        };
        let mut begun = Begun {
            mounted: &self.mounted,
            who: self.who,
            number,
            is_answered: false,
        };
        let made = make(&live, self.who, change, closes).await;
        let names = &share.names[self.who];
        match made {
            Ok(handle) => {
                begun.is_answered = true;
                let judged = names.borrow_mut().done(number, handle.as_ref());
                self.blame(judged);
                Ok(())
            }
            Err(error) if is_refusal(&error) => {
                begun.is_answered = true;
                let judged = names.borrow_mut().refused(number);
                self.blame(judged);
                Ok(())
            }
            Err(error) => {
                if error.status().is_some() {
                    begun.is_answered = true;
                    names.borrow_mut().failed(number);
                }
                self.mounted.failed(&live, &error);
                Err(error)
            }
        }
    }

    async fn look_up(&self, number: NameNumber) -> Result<(), Error> {
        let live = self.mounted.live().await;
        let (share, began) = (&self.mounted.share, self.mounted.share.epoch());
        share.names[self.who].borrow_mut().follow(began);
        let name = name(self.who, number);
        let found = match live.session.lookup(&live.home, &name).await {
            Ok((handle, _)) => Some(handle),
            Err(error) if error.status() == Some(Status::Noent) => None,
            Err(error) => {
                self.mounted.failed(&live, &error);
                return Err(error);
            }
        };
        if began == share.epoch() {
            let judged = share.names[self.who]
                .borrow_mut()
                .seen(number, found.as_ref());
            self.blame(judged);
        }
        Ok(())
    }
}
