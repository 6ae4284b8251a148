//! Settings of clients, as files.
//!
//! **Owns** the recommended values with their reasons. **Called by** `wirepool client-config`, and by the checks of clients, so
//! that both have the same values. **Invariants**: a name that would change the meaning of a file is refused; nothing is
//! installed; no secret is printed.

mod iscsi;
mod nfs;
mod nvme;
mod other;
mod settings;
pub mod timeouts;

pub use settings::{Address, ClientSettings, ClientTransport, ConfigFile, Export, Os, Unsupported};

/// Whether a name is one plain word in every file and command below.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    !name.is_empty() && name.chars().all(is_plain)
}

/// Makes the settings of a client. Errors: [`Unsupported`].
pub fn settings(
    export: &Export,
    os: Os,
    transport: ClientTransport,
) -> Result<ClientSettings, Unsupported> {
    if export.addresses().is_empty() {
        return Err(Unsupported::NoAddress(transport));
    }
    if transport == ClientTransport::Rdma && matches!(os, Os::Esxi | Os::Windows) {
        return Err(Unsupported::NoClient(
            "settings for RDMA exist for Linux only: use TCP with this system",
        ));
    }
    let hosts = export.addresses().iter().map(|a| a.host.as_str());
    let uuids = match export {
        Export::Nvme { namespaces, .. } => namespaces.as_slice(),
        _ => &[],
    };
    let uuids = uuids.iter().map(String::as_str);
    let mut names = [export.name()].into_iter().chain(hosts).chain(uuids);
    if let Some(bad) = names.find(|n| !is_plain(n)) {
        return Err(Unsupported::Name(bad.to_owned()));
    }
    let mut settings = ClientSettings {
        export: export.name().to_owned(),
        os,
        transport,
        packages: Vec::new(),
        files: Vec::new(),
        commands: Vec::new(),
        notes: Vec::new(),
    };
    match os {
        Os::Esxi => other::esxi(export, &mut settings),
        Os::Windows => other::windows(export, &mut settings)?,
        Os::Debian | Os::Rhel | Os::Proxmox => match export {
            Export::Nvme { .. } => nvme::linux(export, &mut settings),
            Export::Iscsi { .. } => iscsi::linux(export, &mut settings),
            Export::Nfs { .. } => nfs::linux(export, &mut settings),
        },
    }
    Ok(settings)
}
