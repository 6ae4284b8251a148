//! Registration with an rpcbind of our own.

use nfs::rpc::{Call, Reply};
use nfs::service::{NfsTransport, Service, ServiceConfig};
use nfs::xdr::{Reader, Writer};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::Runs;

const RUNS: Runs = Runs {
    seeds: 1,
    limit: Duration::from_secs(60),
};

/// Program, version and network, and the address.
type Entries = Arc<Mutex<BTreeMap<(u32, u32, String), String>>>;

fn text(reader: &mut Reader<'_>) -> String {
    String::from_utf8(reader.opaque(1024).expect("text").to_vec()).expect("text")
}

fn answer(record: &[u8], entries: &Entries) -> Vec<u8> {
    let mut reader = Reader::new(record);
    let call = Call::decode(&mut reader).expect("a call");
    assert_eq!((call.program, call.version), (100_000, 4));
    let key = (
        reader.u32().expect("a program"),
        reader.u32().expect("a version"),
        text(&mut reader),
    );
    let address = text(&mut reader);
    let mut entries = entries.lock().expect("no panic");
    let mut writer = Writer::new();
    Reply::Success.encode(call.xid, &mut writer);
    match call.procedure {
        1 => {
            let is_new = !entries.contains_key(&key);
            entries.entry(key).or_insert(address);
            writer.bool(is_new);
        }
        2 => writer.bool(entries.remove(&key).is_some()),
        3 => writer.opaque(entries.get(&key).map_or(&b""[..], |found| found.as_bytes())),
        other => panic!("procedure {other} is not used"),
    }
    writer.to_vec()
}

fn serve(mut stream: UnixStream, entries: &Entries) {
    let mut mark = [0; 4];
    while stream.read_exact(&mut mark).is_ok() {
        let len = u32::from_be_bytes(mark) & 0x7fff_ffff;
        let mut record = vec![0; len as usize];
        stream.read_exact(&mut record).expect("a record");
        let reply = answer(&record, entries);
        stream
            .write_all(&nfs::rpc::record::mark(reply.len()))
            .and_then(|()| stream.write_all(&reply))
            .expect("the caller waits");
    }
}

fn socket(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("wirepool-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join("socket")
}

#[test]
fn programs_are_registered_and_removed_and_others_stay() {
    let path = socket("rpcbind");
    let listener = UnixListener::bind(&path).expect("a socket");
    let entries = Entries::default();
    let key = |program, version| (program, version, "tcp".to_string());
    let others = [
        // Another service; and an entry that we left behind.
        (key(100_005, 3), "0.0.0.0.9.9".to_string()),
        (key(100_003, 3), "0.0.0.0.8.1".to_string()),
    ];
    entries.lock().expect("no panic").extend(others.clone());
    let served = entries.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream, &served);
        }
    });
    let (used, now) = (path.clone(), entries.clone());
    RUNS.real(move || {
        let (path, entries) = (used.clone(), now.clone());
        async move {
            let service = Service::new(ServiceConfig::default());
            let any = "0.0.0.0:2049".parse().expect("an address");
            let listeners = [(any, NfsTransport::Tcp)];
            assert_eq!(service.register(&path, &listeners).await, 2);
            let all = entries.lock().expect("no panic").clone();
            assert_eq!(all.get(&key(100_003, 4)), Some(&"0.0.0.0.8.1".to_string()));
            assert_eq!(all.len(), 3);
            assert_eq!(service.unregister().await, 2);
            assert_eq!(service.unregister().await, 0);
        }
    });
    let all = entries.lock().expect("no panic").clone();
    assert_eq!(all, BTreeMap::from([others[0].clone()]));
    std::fs::remove_dir_all(path.parent().expect("a directory")).expect("it is there");
}

#[test]
fn without_an_rpcbind_nothing_happens() {
    let path = socket("no-rpcbind");
    let used = path.clone();
    RUNS.real(move || {
        let path = used.clone();
        async move {
            let service = Service::new(ServiceConfig::default());
            let any = "0.0.0.0:2049".parse().expect("an address");
            let listeners = [(any, NfsTransport::Tcp)];
            assert_eq!(service.register(&path, &listeners).await, 0);
            assert_eq!(service.unregister().await, 0);
        }
    });
    std::fs::remove_dir_all(path.parent().expect("a directory")).expect("it is there");
}
