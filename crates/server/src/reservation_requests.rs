//! Requests about the reservations of exports.
//!
//! **Called by** the table of routes. **Invariants**: reservations are cleared only by such a request, and never in another export than
//! the named one.

use crate::api::{ClearReservations, ExportReservations, ListReservations};
use crate::server::Server;
use crate::{Error, Result};

impl Server {
    fn all_reservations(&self) -> Vec<ExportReservations> {
        let state = self.state.borrow();
        let config = state.file.config();
        let protocols = self.protocols.disk_exports();
        protocols.flat_map(|p| p.reservations(config)).collect()
    }

    /// See [`ListReservations`]. Errors: `NoExport`.
    pub(crate) fn list_reservations(
        &self,
        request: ListReservations,
    ) -> Result<Vec<ExportReservations>> {
        let mut all = self.all_reservations();
        match request.export {
            Some(export) => {
                all.retain(|r| r.export == export);
                if all.is_empty() {
                    let text = format!("no namespace or LUN is served as {export}");
                    return Err(Error::NoExport(text));
                }
            }
            None => all.retain(|r| r.kind.is_some() || !r.registrants.is_empty()),
        }
        Ok(all)
    }

    /// See [`ClearReservations`]. Errors: `NoExport`, `Conflict` if the export has several and none is named, `Disk` if the change cannot
    /// be saved.
    pub(crate) async fn clear_reservations(&self, request: ClearReservations) -> Result<()> {
        let ClearReservations { export, number } = request;
        let named = ListReservations {
            export: Some(export.clone()),
        };
        let mut found = self.list_reservations(named)?;
        found.retain(|r| number.is_none_or(|number| r.number == number));
        let of = match &found[..] {
            [one] => one,
            [] => {
                let number = number.unwrap_or_default();
                return Err(Error::NoExport(format!("{export} has no number {number}")));
            }
            several => {
                let numbers: Vec<_> = several.iter().map(|r| r.number.to_string()).collect();
                let numbers = numbers.join(", ");
                let text = format!("{export} has several: name one with --number ({numbers})");
                return Err(Error::Conflict(text));
            }
        };
        let mut protocols = self.protocols.disk_exports();
        if let Some(work) = protocols.find_map(|p| p.clear_reservations(of)) {
            work.await.map_err(|reason| Error::Disk {
                name: of.disk.clone(),
                reason,
            })?;
        }
        let registrants = of.registrants.len();
        tracing::warn!(
            export,
            number = of.number,
            registrants,
            "reservations cleared on request"
        );
        Ok(())
    }
}
