//! State of version 4 that excludes a request of version 3.
//!
//! **Called by** every procedure, before it reads data or changes anything but a new object. **Invariants**: this is the only place where requests of
//! version 3 meet the opens and delegations of version 4. A request of version 3 is one of a client without state: it is treated as one of version 4 with
//! the anonymous stateid (RFC 8881, section 9.1.2).

use super::procedure::Procedure;
use super::wire::Status;
use crate::access::Target;
use crate::shared::{Changing, NameChange};
use crate::wire::Stateid;
use backend::file::{Handle, Name};
use filestate::{NO_CLIENT, Refused};

/// How a request uses an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It reads data.
    Read,
    /// It changes data, or the size.
    Write,
}

impl Procedure<'_> {
    /// Announces the use of an object. Errors: `Access` if a share reservation excludes it; `Jukebox` while clients of version 4 may
    /// still reclaim share reservations.
    pub(super) fn announce(&self, file: Handle, how: Use) -> Result<(), Status> {
        if self.view.is_grace() {
            return Err(Status::Jukebox);
        }
        let is_write = how == Use::Write;
        let shared = self.view.shared;
        match shared.check_io(NO_CLIENT, &Stateid::ANONYMOUS, file, is_write) {
            Ok(()) => Ok(()),
            Err(Refused::Share(_)) => Err(Status::Access),
            Err(Refused::State(_) | Refused::Lock(_) | Refused::Delegation | Refused::Full(_)) => {
                Err(Status::Jukebox)
            }
        }
    }

    /// Errors: `Jukebox` while clients of version 4 may reclaim state that would exclude a change.
    pub(super) fn check_grace(&self) -> Result<(), Status> {
        match self.view.is_grace() {
            true => Err(Status::Jukebox),
            false => Ok(()),
        }
    }

    /// A change of an object begins. Errors: `Jukebox` in the grace period, and while a client has a delegation, which is recalled.
    pub(super) fn changing(&self, object: Handle) -> Result<Changing, Status> {
        self.check_grace()?;
        let changing = self.view.shared.change(object, None);
        changing.ok_or(Status::Jukebox)
    }

    /// A change of data or of the size begins. Errors: those of [`Procedure::changing`] and [`Procedure::announce`].
    pub(super) fn changing_data(&self, file: Handle) -> Result<Changing, Status> {
        // Announced behind the begin of the change: no delegation is granted between the two.
        let changing = self.changing(file)?;
        self.announce(file, Use::Write)?;
        Ok(changing)
    }

    /// A change of the object of a name begins, if there is one. Errors: `Jukebox`, as above.
    pub(super) async fn changing_name(
        &self,
        directory: &Target,
        entry: &Name,
    ) -> Result<NameChange, Status> {
        self.check_grace()?;
        let at = (&directory.caller, directory.handle, entry);
        let shared = self.view.shared;
        match shared.change_name(directory.files(), at, None).await {
            NameChange::Excluded => Err(Status::Jukebox),
            change => Ok(change),
        }
    }
}
