//! Changes of exports that wait at the same time: their writes are counted, and looked for in the file.

use io::runtime::Shard;
use server::api::{AddDisk, AllowHost, Export, ExportNvme, NewMedium};
use server::config::ConfigFile;
use server::{ByteSize, Error, Server, Shards};
use std::path::PathBuf;
use std::rc::Rc;

const EXPORTS: usize = 40;
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000001";

fn nqn(disk: &str) -> String {
    format!("nqn.2026-01.org.example:{disk}")
}

fn export(disk: &str) -> ExportNvme {
    ExportNvme {
        disk: disk.to_owned(),
        nqn: Some(nqn(disk)),
        hosts: vec![HOST.to_owned()],
        transports: Vec::new(),
    }
}

/// A server with RAM disks of these names, and its configuration file.
async fn start(dir: &tempfile::TempDir, disks: &[String]) -> (Rc<Server>, PathBuf) {
    let path = dir.path().join("w.toml");
    let text = "# ours\n[server]\nstate_dir = \"state\"\n[nvmf]\nlisten = [\"127.0.0.1:0\"]\n";
    std::fs::write(&path, text).expect("written");
    let file = ConfigFile::load(&path).expect("valid");
    let shards = Shards::of(vec![Shard::here()]);
    let server = Server::start(file, shards, 100).await.expect("start");
    for name in disks {
        let add = AddDisk {
            name: name.clone(),
            medium: NewMedium::Mem {
                size: ByteSize(1 << 20),
            },
            block_size: None,
            read_only: false,
        };
        server.add_disk(add).await.expect("added");
    }
    (server, path)
}

fn names() -> Vec<String> {
    (0..EXPORTS).map(|n| format!("d{n}")).collect()
}

fn run(test: impl AsyncFnOnce(tempfile::TempDir) + 'static) {
    let dir = tempfile::tempdir().expect("a directory");
    let runtime = io::Runtime::new(io::RuntimeConfig::default()).expect("a runtime");
    runtime.block_on(test(dir));
}

/// Starts all exports at once. Each answer comes after the file has the export.
async fn export_all(
    server: &Rc<Server>,
    path: &std::path::Path,
    requests: Vec<ExportNvme>,
) -> Vec<Result<Export, Error>> {
    let start = |request: ExportNvme| {
        let (server, path) = (server.clone(), path.to_owned());
        io::spawn(async move {
            let answer = server.export_nvme(request).await;
            if let Ok(export) = &answer {
                let text = std::fs::read_to_string(path).expect("the file");
                assert!(text.contains(&export.nqn), "answered before it was written");
            }
            answer
        })
    };
    let started: Vec<_> = requests.into_iter().map(start).collect();
    let mut answers = Vec::new();
    for one in started {
        answers.push(one.await.expect("it ends"));
    }
    answers
}

/// Regression: a thousand exports took two minutes. Each wrote the configuration once for its namespace and once for its hosts.
#[test]
fn exports_that_wait_together_are_written_together() {
    run(async |dir| {
        let names = names();
        let (server, path) = start(&dir, &names).await;
        let before = server.config_writes();
        let requests = names.iter().map(|n| export(n)).collect();
        for (answer, name) in export_all(&server, &path, requests)
            .await
            .iter()
            .zip(&names)
        {
            let export = answer.as_ref().expect("exported");
            assert_eq!(export.nqn, nqn(name));
            assert_eq!(export.hosts, [HOST]);
            assert_eq!(
                (export.namespaces.len(), &export.namespaces[0].disk),
                (1, name)
            );
        }
        let writes = server.config_writes() - before;
        println!("{EXPORTS} exports in {writes} writes");
        assert!(writes <= 2, "{writes}: the first, and one for all others");
        // A start with the file would have the same exports.
        let stored = ConfigFile::load(&path).expect("valid");
        assert_eq!(stored.config(), &server.config());
        assert!(stored.text().starts_with("# ours\n"));
        // One after the other: one write each.
        for name in &names[..3] {
            let remove = server::api::RemoveExport {
                nqn: nqn(name),
                nsid: None,
            };
            server.remove_export(remove).await.expect("removed");
        }
        let before = server.config_writes();
        for name in &names[..3] {
            server.export_nvme(export(name)).await.expect("exported");
        }
        assert_eq!(server.config_writes() - before, 3);
        let stored = ConfigFile::load(&path).expect("valid");
        assert_eq!(stored.config(), &server.config());
    });
}

#[test]
fn a_refused_export_fails_alone() {
    run(async |dir| {
        let names = names();
        let (server, path) = start(&dir, &names).await;
        let mut requests: Vec<_> = names.iter().map(|n| export(n)).collect();
        // Refused before the write: no such disk, and no host.
        requests[5].disk = "none".into();
        requests[6].hosts = vec!["nobody".into()];
        // Refused by the check of the whole text: the name of the discovery service.
        requests[7].nqn = Some("nqn.2014-08.org.nvmexpress.discovery".into());
        // The same disk twice: the second one is refused as it would be alone.
        requests[9].disk = names[8].clone();
        let answers = export_all(&server, &path, requests).await;
        for (n, answer) in answers.iter().enumerate() {
            match n {
                5 => assert!(matches!(answer, Err(Error::NoDisk(_))), "{answer:?}"),
                6 | 7 => assert!(matches!(answer, Err(Error::Invalid(_))), "{n}: {answer:?}"),
                9 => assert!(matches!(answer, Err(Error::Conflict(_))), "{answer:?}"),
                _ => assert!(answer.is_ok(), "{n}: {answer:?}"),
            }
        }
        let stored = ConfigFile::load(&path).expect("valid");
        assert_eq!(stored.config().nvmf.subsystems.len(), EXPORTS - 4);
        assert_eq!(stored.config(), &server.config());
    });
}

#[test]
fn hosts_of_one_subsystem_that_are_allowed_together_are_all_allowed() {
    run(async |dir| {
        let (server, path) = start(&dir, &names()).await;
        let made = server.export_nvme(export("d0")).await;
        made.expect("a subsystem");
        let host = |n: usize| format!("nqn.2026-01.org.example:host{n}");
        let allow = |n: usize| {
            let server = server.clone();
            let request = AllowHost {
                nqn: nqn("d0"),
                host: host(n),
            };
            io::spawn(async move { server.allow_host(request).await })
        };
        let all: Vec<_> = (0..9).map(allow).collect();
        for one in all {
            one.await.expect("it ends").expect("allowed");
        }
        let text = std::fs::read_to_string(path).expect("the file");
        assert!((0..9).all(|n| text.contains(&host(n))), "{text}");
    });
}

/// An edit by hand while changes wait: none of them is carried out, and none is answered as done.
#[test]
fn a_write_that_fails_is_answered_to_each() {
    run(async |dir| {
        let names = names();
        let (server, path) = start(&dir, &names).await;
        let by_hand = std::fs::read_to_string(&path).expect("the file") + "# by hand\n";
        std::fs::write(&path, &by_hand).expect("written");
        let requests = names.iter().map(|n| export(n)).collect();
        for answer in export_all(&server, &path, requests).await {
            assert!(matches!(answer, Err(Error::Edited(_))), "{answer:?}");
        }
        assert!(server.config().nvmf.subsystems.is_empty());
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), by_hand);
    });
}
