//! Changes of files from all sides, and delegations: each excludes the other.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, export, open_with, simulated};
use crate::v3::client::{at, mode};
use backend::file::{
    Acl, Allocate, Caller, Change, Done, FileBackend, FileReply, Handle, Linked, Name, RemoveKind,
    Removed, RenameMode, Renamed, SetAttributes, SetXattr, Stability, WriteAt, Written,
};
use io::SharedBuf;
use nfs::export::ExportConfig;
use nfs::service::Service;
use nfs::v3;
use nfs::v3::wire::Arguments;
use nfs::wire::callback::CallbackOp;
use nfs::wire::files::{Claim, CreateHow};
use nfs::wire::minor2::{Copy, Minor2, Span};
use nfs::wire::{Attrs, Bitmap, Op, Stateid, Status};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const SLOW: &[&str] = &["tank", "slow"];
/// Time that a change of data takes.
const CHANGE: Duration = Duration::from_secs(2);

/// Files whose data changes slowly.
struct Slow(Arc<dyn FileBackend>);

/// Requests that take effect after a while.
macro_rules! slow {
    ($($name:ident($($given:ident: $kind:ty),*) -> $done:ty;)*) => {
        $(fn $name(&self, $($given: $kind),*) -> FileReply<$done> {
            let reply = self.0.$name($($given),*);
            FileReply::later(async move {
                io::time::sleep(CHANGE).await;
                reply.await
            })
        })*
    };
}

impl FileBackend for Slow {
    backend::pass_on! { 0:
        limits, root, space, lookup, parent, attributes, access, open, create, read_link,
        read_directory, read, commit, commit_all, seek, seek_within, xattr, xattrs, acl, watch,
    }

    slow! {
        set_attributes(caller: &Caller, of: Handle, set: SetAttributes, stability: Stability) -> Done<Change>;
        link(caller: &Caller, of: Handle, directory: Handle, name: &Name, stability: Stability) -> Done<Linked>;
        set_xattr(caller: &Caller, of: Handle, name: &[u8], value: Option<Vec<u8>>, how: SetXattr, stability: Stability)
            -> Done<Change>;
        set_acl(caller: &Caller, of: Handle, acl: Option<Acl>, stability: Stability) -> Done<Change>;
        write(caller: &Caller, of: Handle, at: WriteAt, data: SharedBuf, stability: Stability) -> Done<Written>;
        allocate(caller: &Caller, of: Handle, range: Range<u64>, how: Allocate, grows: bool) -> Change;
        copy(caller: &Caller, from: (Handle, u64), to: (Handle, u64), len: u64) -> u64;
    }

    // A name changes at the end: until then, it has its object.
    fn remove(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        kind: RemoveKind,
        stability: Stability,
    ) -> FileReply<Done<Removed>> {
        let (files, caller, name) = (self.0.clone(), caller.clone(), name.clone());
        FileReply::later(async move {
            io::time::sleep(CHANGE).await;
            let done = files.remove(&caller, directory, &name, kind, stability);
            done.await
        })
    }

    fn rename(
        &self,
        caller: &Caller,
        from: Handle,
        old: &Name,
        to: Handle,
        new: &Name,
        mode: RenameMode,
        stability: Stability,
    ) -> FileReply<Done<Renamed>> {
        let (files, caller) = (self.0.clone(), caller.clone());
        let (old, new) = (old.clone(), new.clone());
        FileReply::later(async move {
            io::time::sleep(CHANGE).await;
            let done = files.rename(&caller, from, &old, to, &new, mode, stability);
            done.await
        })
    }
}

/// Changes of the data of "f", each by a special stateid; the saved file is "source".
fn changes() -> [Op<'static>; 4] {
    let span = Span {
        stateid: Stateid::ANONYMOUS,
        offset: 0,
        length: 100,
    };
    let copy = Copy {
        source: Stateid::ANONYMOUS,
        target: Stateid::ANONYMOUS,
        source_offset: 0,
        target_offset: 0,
        count: 0,
        is_consecutive: false,
        is_synchronous: true,
        servers: 0,
    };
    let write = Op::Write {
        stateid: Stateid::BYPASS,
        offset: 0,
        stable: 2,
        data: b"data",
    };
    let of_minor2 = |op| Op::Minor2(Box::new(op));
    [
        of_minor2(Minor2::Allocate(span)),
        of_minor2(Minor2::Deallocate(span)),
        of_minor2(Minor2::Copy(copy)),
        write,
    ]
}

/// Opens a file; the type of the delegation that came with it. The open is closed again.
async fn wished(client: &mut Client, home: &[&str], name: &str) -> (u32, Option<Stateid>) {
    let create = Some(CreateHow::Unchecked(NO_ATTRS));
    let open = open_with(Claim::Name(name.as_bytes()), create, 1, 0);
    let mut results = client.at(home, &[open]).await;
    let (stateid, kind) = results.open_wishing();
    let delegation = (kind == 1).then(|| results.stateid());
    let path = [home, &[name]].concat();
    let closed = client.at(&path, &[Op::Close { stateid }]).await;
    assert_eq!(closed.status, Status::Ok);
    (kind, delegation)
}

async fn give_back(client: &mut Client, home: &[&str], stateid: Stateid) {
    let path = [home, &["f"]].concat();
    let done = client.at(&path, &[Op::DelegReturn { stateid }]).await;
    assert_eq!(done.status, Status::Ok);
}

/// Carries out a change of "f".
async fn change(client: &mut Client, home: &[&str], change: Op<'static>) -> Status {
    let names = ["source"].iter().chain(home).chain(&["f"]);
    let lookups = names.map(|name| Op::Lookup {
        name: name.as_bytes(),
    });
    let mut all: Vec<Op<'_>> = lookups.collect();
    all.splice(1..1, [Op::SaveFh, Op::PutRootFh]);
    all.push(change);
    client.at(home, &all).await.status
}

#[test]
fn no_delegation_is_granted_while_data_changes() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let slow = export(2, "/tank/slow", all_rights());
        let files = Arc::new(Slow(slow.files.clone()));
        let slow = ExportConfig { files, ..slow };
        fixture.service.add_export(slow).expect("a new export");
        let mut holder = Client::with_back_channel(&fixture, "holder").await;
        let mut other = fixture.client("other").await;
        other.minor = 2;
        let (_, of_source) = wished(&mut holder, SLOW, "source").await;
        let source = [SLOW, &["source"]].concat();
        let stateid = of_source.expect("a delegation");
        let returned = holder.at(&source, &[Op::DelegReturn { stateid }]).await;
        assert_eq!(returned.status, Status::Ok);
        // COPY copies something.
        let stable = Op::Write {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            stable: 2,
            data: b"source",
        };
        assert_eq!(other.at(&source, &[stable]).await.status, Status::Ok);
        for op in changes() {
            let (kind, delegation) = wished(&mut holder, SLOW, "f").await;
            assert_eq!(kind, 1, "nobody changes the file");
            give_back(&mut holder, SLOW, delegation.expect("one")).await;

            let text = format!("{op:?}");
            let changing = io::spawn(async move {
                let status = change(&mut other, SLOW, op).await;
                (status, other)
            });
            io::time::sleep(CHANGE / 2).await;
            assert_eq!(wished(&mut holder, SLOW, "f").await.0, 0, "{text}");
            let done;
            (done, other) = changing.await.expect("not killed");
            assert_eq!(done, Status::Ok, "{text}");
        }
        let (kind, _) = wished(&mut holder, SLOW, "f").await;
        assert_eq!(kind, 1, "the changes have ended");
    });
}

/// What changes "f", or its name, from outside of version 4's opens: version 3, a mount, and version 4's names and opens.
#[derive(Debug, Clone, Copy)]
enum Changes {
    V3Write,
    V3Truncate,
    V3SetAttr,
    V3Remove,
    V3Rename,
    V3RenameOver,
    V4OpenTruncate,
    V4Remove,
    V4RenameOver,
    MountWrite,
    MountRemove,
}

const ALL_CHANGES: [Changes; 11] = [
    Changes::V3Write,
    Changes::V3Truncate,
    Changes::V3SetAttr,
    Changes::V3Remove,
    Changes::V3Rename,
    Changes::V3RenameOver,
    Changes::V4OpenTruncate,
    Changes::V4Remove,
    Changes::V4RenameOver,
    Changes::MountWrite,
    Changes::MountRemove,
];

/// Carries out a change of `name`, which is there, as is "beside". Returns whether it took effect.
async fn change_by(
    how: Changes,
    service: Service,
    files: Arc<dyn FileBackend>,
    client: &mut Client,
    name: &str,
) -> bool {
    let rights = Caller::root();
    let of = |name: &str| Name::new(name.as_bytes()).expect("a name");
    let root = files.root();
    let home = client.mounted("/tank/slow").await.expect("it is exported");
    let (file, _) = client.lookup_v3(&home, name).await;
    let arguments = match how {
        Changes::V3Write => Arguments::Write {
            file: &file,
            offset: 0,
            count: 4,
            stable: 2,
            data: b"data",
        },
        Changes::V3Truncate => Arguments::Create {
            at: at(&home, name),
            how: v3::wire::CreateHow::Unchecked(SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            }),
        },
        Changes::V3SetAttr => Arguments::SetAttr {
            object: &file,
            set: mode(0o600),
            guard: None,
        },
        Changes::V3Remove => Arguments::Remove(at(&home, name)),
        Changes::V3Rename => Arguments::Rename {
            from: at(&home, name),
            to: at(&home, "elsewhere"),
        },
        Changes::V3RenameOver => Arguments::Rename {
            from: at(&home, "beside"),
            to: at(&home, name),
        },
        Changes::V4OpenTruncate => {
            let size = Attrs {
                mask: Bitmap::of(&[4]),
                values: &[0; 8],
            };
            let create = Some(CreateHow::Unchecked(size));
            // for reading: no open for writing keeps delegations away
            let open = open_with(Claim::Name(name.as_bytes()), create, 1 | 0x400, 0);
            return client.at(SLOW, &[open]).await.status == Status::Ok;
        }
        Changes::V4Remove => {
            let remove = Op::Remove {
                name: name.as_bytes(),
            };
            return client.at(SLOW, &[remove]).await.status == Status::Ok;
        }
        Changes::V4RenameOver => {
            let rename = Op::Rename {
                old: b"beside",
                new: name.as_bytes(),
            };
            return client.at(SLOW, &[Op::SaveFh, rename]).await.status == Status::Ok;
        }
        Changes::MountWrite => {
            let mut data = io::pool().alloc(4).await;
            data.copy_from_slice(b"data");
            let mount = service.guarded(files.clone());
            let handle = mount
                .lookup(&rights, root, &of(name))
                .await
                .expect("found")
                .handle;
            let at = WriteAt::Offset(0);
            return mount
                .write(&rights, handle, at, data.into(), Stability::Cached)
                .await
                .is_ok();
        }
        Changes::MountRemove => {
            let mount = service.guarded(files.clone());
            let removed = mount.remove(
                &rights,
                root,
                &of(name),
                RemoveKind::File,
                Stability::Cached,
            );
            return removed.await.is_ok();
        }
    };
    client.v3(&arguments).await.status == v3::wire::Status::Ok
}

/// WRITE of version 3, and its CREATE that truncates, looked at the delegations once and changed the file later: a delegation was
/// granted between, and its holder kept old data. REMOVE, RENAME and an OPEN for reading that truncates did the same while no
/// client had a delegation yet.
#[test]
fn no_change_of_any_kind_races_with_the_grant_of_a_delegation() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let slow = export(2, "/tank/slow", all_rights());
        let files: Arc<dyn FileBackend> = Arc::new(Slow(slow.files.clone()));
        let slow = ExportConfig {
            files: files.clone(),
            ..slow
        };
        fixture.service.add_export(slow).expect("a new export");
        let mut holder = Client::with_back_channel(&fixture, "holder").await;
        let mut other = fixture.client("other").await;
        for (n, how) in ALL_CHANGES.into_iter().enumerate() {
            let name = format!("f{n}");
            for name in [&*name, "beside"] {
                let create = Some(CreateHow::Unchecked(NO_ATTRS));
                let open = open_with(Claim::Name(name.as_bytes()), create, 1 | 0x400, 0);
                let mut results = other.at(SLOW, &[open]).await;
                let (stateid, _) = results.open_wishing();
                let path = [SLOW, &[name]].concat();
                let closed = other.at(&path, &[Op::Close { stateid }]).await;
                assert_eq!(closed.status, Status::Ok);
            }
            let (service, below, of) = (fixture.service.clone(), files.clone(), name.clone());
            let changing = io::spawn(async move {
                let is_done = change_by(how, service, below, &mut other, &of).await;
                (is_done, other)
            });
            io::time::sleep(CHANGE / 2).await;
            let (kind, _) = wished(&mut holder, SLOW, &name).await;
            assert_eq!(kind, 0, "{how:?}: a delegation amid a change");
            let is_done;
            (is_done, other) = changing.await.expect("not killed");
            assert!(is_done, "{how:?}");
        }
    });
}

#[test]
fn changes_of_data_by_special_stateids_recall_delegations() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut first = fixture.client("first").await;
        wished(&mut first, HOME, "source").await;
        for (owner, op) in ["a", "b", "c", "d"].into_iter().zip(changes()) {
            // A file that was recalled is not delegated again at once.
            io::time::sleep(Duration::from_secs(600)).await;
            let mut other = fixture.client(&format!("beside {owner}")).await;
            other.minor = 2;
            let mut holder = Client::with_back_channel(&fixture, owner).await;
            let (_, delegation) = wished(&mut holder, HOME, "f").await;
            let delegation = delegation.expect("a delegation");
            let refused = change(&mut other, HOME, op.clone()).await;
            assert_eq!(refused, Status::Delay, "{op:?}");
            let callback = holder.callback().await;
            match callback.op() {
                CallbackOp::Recall { stateid, .. } => assert_eq!(stateid, delegation),
                unexpected => panic!("CB_RECALL, not {unexpected:?}"),
            }
            holder.answer(&callback, Status::Ok, &[]).await;
            give_back(&mut holder, HOME, delegation).await;
            assert_eq!(
                change(&mut other, HOME, op.clone()).await,
                Status::Ok,
                "{op:?}"
            );
        }
    });
}
