//! A volume of a pool of this process: the pool without a network.
//!
//! **Owns** the thread that the pool lives on, until the last use of the target ends; the pool is closed then, so
//! that another one can open it. **Called by** the demo. **Invariants**: the pool's own work is done on its thread;
//! I/O begins and ends on the job's thread, as in a server with several shards.

use super::{Engine, Facts, Medium, Session, Target};
use crate::limits::BLOCK_SIZE_MAX;
use crate::{Error, Result};
use backend::{BlockBackend, Extent, Lba};
use io::IoBuf;
use io::disk::{Disk, OpenOptions};
use io::runtime::{Runtime, RuntimeConfig};
use io::sync::oneshot;
use pool::format::Host;
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const BLOCK: u64 = 4096;

/// Options for creating a pool.
#[derive(Debug, Clone)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// Paths of its disks, which do not exist yet: the members of one mirror.
    pub disks: Vec<PathBuf>,
    /// Bytes of each disk.
    pub disk_size: u64,
    /// The volume in it.
    pub volume: String,
    /// Bytes of the volume: whole blocks of 4 KiB.
    pub volume_size: u64,
}

/// A volume of a pool that this process has opened.
#[derive(Clone)]
pub struct VolumeTarget {
    volume: Volume,
    members: usize,
    _keeper: Arc<Keeper>,
}

/// Ends the pool's thread.
struct Keeper(Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>);

impl Drop for Keeper {
    fn drop(&mut self) {
        let kept = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((end, thread)) = kept.take() {
            end.send(());
            let _ = thread.join();
        }
    }
}

impl VolumeTarget {
    /// Creates the pool and opens its volume. Errors: `Target`.
    pub async fn make(new: NewPool) -> Result<VolumeTarget> {
        let (name, members) = (new.name.clone(), new.disks.len());
        let (made, opened) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("pool".into());
        let thread = thread.spawn(move || keep(new, made, ended));
        let thread = thread.map_err(io::Error::from)?;
        let keeper = Arc::new(Keeper(Mutex::new(Some((end, thread)))));
        let opened = opened
            .await
            .unwrap_or_else(|| Err("its thread ended".into()));
        let volume = opened.map_err(|why| Error::target(&name, why))?;
        Ok(VolumeTarget {
            volume,
            members,
            _keeper: keeper,
        })
    }
}

/// Runs the pool's thread.
fn keep(
    new: NewPool,
    made: oneshot::Sender<std::result::Result<Volume, String>>,
    ended: oneshot::Receiver<()>,
) {
    let runtime = match Runtime::new(RuntimeConfig::default()) {
        Ok(runtime) => runtime,
        Err(e) => return made.send(Err(e.to_string())),
    };
    runtime.block_on(async move {
        match open(&new).await {
            Ok((pool, volume)) => {
                made.send(Ok(volume));
                let _ = ended.await;
                let vdevs = pool.vdevs().clone();
                // a failure is reported when the pool is opened next
                if pool.close().await.is_ok() {
                    let _ = vdevs.export().await;
                }
            }
            Err(why) => made.send(Err(why)),
        }
    });
}

async fn open(new: &NewPool) -> std::result::Result<(Pool, Volume), String> {
    let mut members = Vec::new();
    for path in &new.disks {
        let options = OpenOptions {
            create_size: Some(new.disk_size),
            ..OpenOptions::default()
        };
        let disk = Disk::open(path, options).await;
        members.push(disk.map_err(|e| format!("{}: {e}", path.display()))?);
    }
    let mut id = [0; 16];
    io::rng::fill(&mut id);
    let spec = PoolSpec::new(&new.name, vec![members], Host::new(id, "lab"));
    let opened = create(spec).await.map_err(|e| e.to_string())?;
    let pool = Pool::open(opened, Options::default()).await;
    let pool = pool.map_err(|e| e.to_string())?;
    let volume = NewVolume::new(&new.volume, new.volume_size);
    let volume = pool.create_volume(volume).await;
    Ok((pool, volume.map_err(|e| e.to_string())?))
}

impl Target for VolumeTarget {
    type Session = VolumeSession;

    fn facts(&self) -> Facts {
        let geometry = self.volume.geometry();
        Facts {
            size: geometry.blocks * u64::from(geometry.block_size),
            block_size: geometry.block_size,
            transfer_max: BLOCK_SIZE_MAX,
            engine: Engine::Asynchronous,
            medium: Medium::Device,
            direct: Some(true),
            holes: 0,
            caches: {
                let options = Options::default();
                options.record_cache_bytes as u64 + options.dirty_bytes
            },
            transport: None,
            server_pid: None,
            description: format!("a volume of a pool here, {} members", self.members),
        }
    }

    async fn connect(&self, _depth: u32) -> Result<VolumeSession> {
        Ok(VolumeSession(self.clone()))
    }
}

/// A job's use of a volume.
pub struct VolumeSession(VolumeTarget);

impl VolumeSession {
    fn volume(&self) -> &Volume {
        &self.0.volume
    }

    async fn store(&self, buf: &IoBuf, offset: u64, durable: bool) -> backend::Result<()> {
        // the volume keeps the buffer, and the engine needs its own back
        let mut data = io::pool().alloc(buf.len()).await;
        data.copy_from_slice(buf);
        let start = Lba(offset / BLOCK);
        if durable {
            let _proof = self.volume().write_durable(start, data).await?;
            return Ok(());
        }
        self.volume().write(start, data).await
    }
}

fn answered<T>(result: backend::Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(e) => Err(Error::Status(e.to_string())),
    }
}

impl Session for VolumeSession {
    async fn read(&self, mut buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        let extent = Extent {
            start: Lba(offset / BLOCK),
            blocks: buf.len() as u64 / BLOCK,
        };
        let read = self.volume().read(extent).await;
        if let Ok(payload) = &read {
            payload.copy_to(&mut buf);
        }
        (answered(read), buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        (answered(self.store(&buf, offset, durable).await), buf)
    }

    async fn flush(&self) -> Result<()> {
        answered(self.volume().flush().await)
    }

    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn epoch(&self) -> u64 {
        0
    }

    async fn close(self) {}
}
