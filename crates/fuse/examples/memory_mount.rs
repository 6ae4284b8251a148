//! Mounts a file system in memory, for other people's test suites.
//!
//! `memory_mount DIRECTORY [OPTION...]`: prints `mounted` and serves until it is unmounted or killed, or until its standard
//! input ends, which unmounts it. Options: `pool` (the pool's filesystem, on a store in memory; otherwise the reference
//! `MemoryFiles`; what the pool's filesystem stored is checked at the end), `allow_other`, `shared`, `read_only`, `suid`, `devices`, `check` (the file system
//! checks permissions), `replace_dead`, `over_files`, `mib=N` (space), `shards=N`, `totals` (prints counts at the end).

use backend::file::FileBackend;
use backend::file::memory::{MemoryFiles, MemoryOptions};
use fuse::{Mount, MountOptions, MountState, Permissions, Unmount};
use io::RuntimeConfig;
use io::runtime::{Shard, ShardConfig};
use pool::filesystem::{FileSystem, NewFileSystem, create_filesystem};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use testkit::store::{MemoryStore, check};

struct Settings {
    options: MountOptions,
    mib: u64,
    shards: usize,
    totals: bool,
    is_pool: bool,
}

fn settings(words: &[String]) -> Result<Settings, String> {
    let mut all = Settings {
        options: MountOptions {
            source: "memory".into(),
            ..MountOptions::default()
        },
        mib: 1024,
        shards: 1,
        totals: false,
        is_pool: false,
    };
    for word in words {
        let options = &mut all.options;
        let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{word}: {e}"));
        match word.split_once('=').unwrap_or((word, "")) {
            ("allow_other", _) => options.allow_other = true,
            ("shared", _) => options.is_shared = true,
            ("read_only", _) => options.is_read_only = true,
            ("suid", _) => options.suid = true,
            ("devices", _) => options.devices = true,
            ("check", _) => options.permissions = Permissions::FileSystem,
            ("replace_dead", _) => options.replace_dead = true,
            ("over_files", _) => options.over_files = true,
            ("mib", n) => all.mib = number(n)?,
            ("shards", n) => all.shards = number(n)? as usize,
            ("pool", _) => all.is_pool = true,
            ("totals", _) => all.totals = true,
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(all)
}

fn shard(index: usize) -> Result<Shard, String> {
    let config = ShardConfig {
        name: format!("shard-{index}"),
        cpu: None,
        runtime: RuntimeConfig::default(),
    };
    Shard::start(config).map_err(|e| format!("a shard: {e}"))
}

/// A file system, and the store below it if there is one.
struct Files {
    files: Arc<dyn FileBackend>,
    store: Option<MemoryStore>,
}

fn memory_files(bytes: u64) -> Files {
    let files = MemoryFiles::new(MemoryOptions {
        space_max: bytes,
        ..MemoryOptions::default()
    });
    Files {
        files: Arc::new(files),
        store: None,
    }
}

async fn pool_files(bytes: u64) -> Result<Files, String> {
    let store = MemoryStore::new(io::rng::u64());
    store.set_space(bytes);
    let created = create_filesystem(&store, &NewFileSystem::default()).await;
    created.map_err(|e| e.to_string())?;
    let files = FileSystem::open(store.clone(), 1).await;
    let files = files.map_err(|e| e.to_string())?;
    drop(io::spawn(files.clone().free_orphans()));
    Ok(Files {
        files: Arc::new(files),
        store: Some(store),
    })
}

fn files(on: &Shard, settings: &Settings) -> Result<Files, String> {
    let (tx, rx) = mpsc::channel();
    let (bytes, is_pool) = (settings.mib << 20, settings.is_pool);
    on.spawn(move || async move {
        let files = match is_pool {
            true => pool_files(bytes).await,
            false => Ok(memory_files(bytes)),
        };
        let _ = tx.send(files);
    })
    .map_err(|e| e.to_string())?;
    rx.recv().map_err(|e| e.to_string())?
}

fn run(at: &str, words: &[String]) -> Result<(), String> {
    let settings = settings(words)?;
    let shards: Vec<Shard> = (0..settings.shards.max(1))
        .map(shard)
        .collect::<Result<_, _>>()?;
    let Files { files, store } = files(&shards[0], &settings)?;
    let mount = Mount::start(files, Path::new(at), &settings.options, &shards);
    let mount = Arc::new(mount.map_err(|e| e.to_string())?);
    println!("mounted");
    std::io::stdout().flush().map_err(|e| e.to_string())?;
    let asked = mount.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        if asked.state() == MountState::Mounted
            && let Err(e) = asked.unmount(Unmount::IfIdle)
        {
            eprintln!("{e}");
            let _ = asked.unmount(Unmount::Lazy);
        }
    });
    let ended = mount.wait();
    if settings.totals {
        let totals = mount.totals();
        let kinds = totals.operations.ended.iter().filter(|(_, n)| *n > 0);
        for (kind, count) in kinds {
            println!("{} {count}", kind.name());
        }
    }
    println!("{ended:?}");
    shards.iter().for_each(Shard::stop);
    if let Some(store) = store {
        check(&store.now());
        println!("checked");
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((at, options)) = words.split_first() else {
        eprintln!("usage: memory_mount DIRECTORY [OPTION...]");
        return ExitCode::FAILURE;
    };
    match run(at, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("memory_mount: {e}");
            ExitCode::FAILURE
        }
    }
}
