//! MOUNT: handles by path, the lists of mounts and of exports (RFC 1813, appendix I).
//!
//! **Called by** the dispatch of calls. **Invariants**: an export that the host may not use looks like a path that does not exist
//! (decision 0305); a path below an export is walked with the rights of the caller, so that nobody gets a handle behind a directory that
//! he may not search.

use super::mounts::Mount;
use super::wire::MountStatus;
use super::wire::mount::{Arguments, PATH_LEN_MAX};
use crate::access::{NoObject, View};
use crate::dispatch::{Outcome, Request};
use crate::export::{Hosts, Standing};
use crate::handle::ObjectId;
use crate::limits::REPLY_MAX;
use crate::rpc::{AUTH_NONE, AUTH_SYS, Reply};
use crate::xdr::Writer;
use backend::file::{FileError, FileKind, Handle, Name};

/// Bytes of a list's end, and of the longest host's name, number and marks.
const LIST_MARGIN: usize = 512;

/// Executes one call. Errors: the procedure does not exist, or its arguments cannot be decoded.
pub(crate) async fn execute(request: Request<'_>) -> Result<Outcome, Reply> {
    let mut out = request.out;
    let decoded = Arguments::decode_fields(request.procedure, &mut request.arguments.clone());
    let arguments = match decoded {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return Err(Reply::ProcedureUnavailable),
        Err(_) => return Err(Reply::GarbageArguments),
    };
    let shared = request.shared;
    let view = View::new(
        shared,
        request.origin.clone(),
        (request.credential, request.rights),
    );
    let host = request.origin.peer.to_canonical();
    match arguments {
        Arguments::Null => {}
        Arguments::Mount(path) => match mount(&view, path).await {
            Ok((export, handle)) => {
                shared.mounts().add(Mount {
                    host,
                    path: path.to_vec(),
                    export,
                });
                out.u32(MountStatus::Ok.code());
                let object = ObjectId::File(export, handle);
                out.opaque(&shared.handles.seal(object));
                out.count(2);
                out.u32(AUTH_SYS);
                out.u32(AUTH_NONE);
            }
            Err(status) => {
                if view.tree.standing(host) == Standing::Stranger {
                    let path = String::from_utf8_lossy(path).into_owned();
                    shared.note_refused(host, path);
                }
                out.u32(status.code());
            }
        },
        Arguments::Dump => write_mounts(&view, &mut out),
        Arguments::Unmount(path) => shared.mounts().remove(host, path),
        Arguments::UnmountAll => shared.mounts().remove_all(host),
        Arguments::Export => write_exports(&view, &mut out),
    }
    shared.counters.ended_mount(arguments.number());
    Ok(Outcome::new(Some(out), false))
}

/// The status of an error of a path.
fn status_of(error: FileError) -> MountStatus {
    match error {
        FileError::NotFound | FileError::Stale | FileError::NoAttribute => MountStatus::Noent,
        FileError::NotDirectory => MountStatus::Notdir,
        FileError::NameTooLong => MountStatus::Nametoolong,
        FileError::Access | FileError::NotOwner => MountStatus::Access,
        FileError::Storage(_) => MountStatus::Io,
        FileError::Exists
        | FileError::IsDirectory
        | FileError::NotEmpty
        | FileError::Invalid
        | FileError::NameNotUtf8
        | FileError::TooLarge
        | FileError::Links
        | FileError::NoData
        | FileError::Guard
        | FileError::Quota
        | FileError::NoSpace
        | FileError::ReadOnly
        | FileError::Unsupported
        | FileError::Busy => MountStatus::Serverfault,
    }
}

/// The directory of a path: an export's root, or a directory below it, with the number of the export. Symbolic links are not followed.
async fn mount(view: &View<'_>, path: &[u8]) -> Result<(u32, Handle), MountStatus> {
    let path = path.strip_prefix(b"/").ok_or(MountStatus::Noent)?;
    let parts = path.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !matches!(*part, b"" | b".")).collect();
    let found = view.tree.longest(&parts, view.peer);
    let (export, depth) = found.ok_or(MountStatus::Noent)?;
    let root = export.files().root();
    let id = export.config.id;
    let mut target = match view.target(export, root) {
        Ok(target) => target,
        // Linux asks without TLS even if it mounts with TLS. NFS refuses the handle on a connection without TLS.
        Err(NoObject::Insecure) if depth == parts.len() => return Ok((id, root)),
        Err(NoObject::Insecure | NoObject::Unprivileged) => return Err(MountStatus::Access),
        Err(NoObject::Forged | NoObject::Stale) => return Err(MountStatus::Noent),
        // MOUNT has no status for "ask again".
        Err(NoObject::Undecided) => return Err(MountStatus::Serverfault),
    };
    let mut kind = FileKind::Directory;
    for part in &parts[depth..] {
        let name = Name::new(part).map_err(|error| match error {
            FileError::Invalid => MountStatus::Noent,
            error => status_of(error),
        })?;
        let found = export
            .files()
            .lookup(&target.caller, target.handle, &name)
            .await
            .map_err(status_of)?;
        (target.handle, kind) = (found.handle, found.kind);
    }
    match kind {
        FileKind::Directory => Ok((id, target.handle)),
        _ => Err(MountStatus::Notdir),
    }
}

/// Whether a list has room for one more item of this many bytes.
fn has_room(out: &Writer, len: usize) -> bool {
    out.len() + len + LIST_MARGIN <= REPLY_MAX as usize
}

/// DUMP: the mounts of exports that the host may use.
fn write_mounts(view: &View<'_>, out: &mut Writer) {
    for mount in view.shared.mounts().all() {
        let export = view.tree.export(mount.export, view.peer);
        if export.is_none_or(|export| export.rule(view.peer).is_none()) {
            continue;
        }
        if !has_room(out, mount.path.len()) {
            break;
        }
        out.bool(true);
        out.opaque(mount.host.to_string().as_bytes());
        out.opaque(&mount.path);
    }
    out.bool(false);
}

/// EXPORT: the exports that the host may use, with the hosts of their rules.
fn write_exports(view: &View<'_>, out: &mut Writer) {
    for export in view.tree.exports() {
        let path = export.config.path.as_bytes();
        if export.rule(view.peer).is_none() || path.len() > PATH_LEN_MAX {
            continue;
        }
        if !has_room(out, path.len()) {
            break;
        }
        out.bool(true);
        out.opaque(path);
        let resolved = export.config.rules.iter();
        for rule in resolved.filter(|rule| rule.hosts != Hosts::Unresolved) {
            if !has_room(out, 0) {
                break;
            }
            out.bool(true);
            out.opaque(name_of(rule.hosts).as_bytes());
        }
        out.bool(false);
    }
    out.bool(false);
}

/// The hosts of a rule, as exports(5) writes them.
fn name_of(hosts: Hosts) -> String {
    match hosts {
        Hosts::Any => "*".into(),
        Hosts::Network(address, bits) => format!("{address}/{bits}"),
        Hosts::Unresolved => String::new(),
    }
}
