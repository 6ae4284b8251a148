//! What exports of all protocols have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::reservation::{RegisteredClient, Reserved};

/// Whether a namespace is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceState {
    /// Clients see it.
    Served,
    /// Its disk is temporarily unavailable.
    Held,
}

/// The reservations of namespaces and LUNs: all that have any, or all of one export.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListReservations {
    /// The subsystem or target.
    #[serde(default)]
    pub export: Option<String>,
}

/// Ends all registrations of a namespace or LUN and its reservation, without a key. The hosts that lose them are told.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClearReservations {
    /// The subsystem or target.
    pub export: String,
    /// The namespace or LUN; may be left out if the export has one.
    #[serde(default)]
    pub number: Option<u32>,
}

/// The reservations of a namespace or LUN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportReservations {
    /// `nvme` or `iscsi`.
    pub protocol: String,
    /// The subsystem or target.
    pub export: String,
    /// The namespace or LUN.
    pub number: u32,
    /// The name of its disk.
    pub disk: String,
    /// The type of the reservation that is held, such as `write exclusive`; none if none is.
    pub kind: Option<String>,
    /// Whether the reservations outlive a restart of the server.
    pub persists: bool,
    /// The registered clients.
    pub registrants: Vec<Registrant>,
}

/// A client that is registered for a namespace or LUN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registrant {
    /// The identifier of an NVMe host, or name and ISID of an iSCSI initiator.
    pub client: String,
    /// Its key, hexadecimal.
    pub key: String,
    /// Whether it holds the reservation.
    pub holder: bool,
}

impl ExportReservations {
    /// The reservations of the namespace or LUN `number` of an export.
    pub(crate) fn of(
        protocol: &str,
        (export, number, disk): (String, u32, &str),
        reserved: Reserved,
    ) -> ExportReservations {
        let registrant = |client: RegisteredClient| Registrant {
            client: client.client,
            key: format!("{:#x}", client.key),
            holder: client.is_holder,
        };
        ExportReservations {
            protocol: protocol.to_owned(),
            export,
            number,
            disk: disk.to_owned(),
            kind: reserved.kind.map(str::to_owned),
            persists: reserved.persists,
            registrants: reserved.registrants.into_iter().map(registrant).collect(),
        }
    }
}
