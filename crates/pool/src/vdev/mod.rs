//! TEMPORARY single-disk devices.
#![allow(missing_docs)]
use crate::format::*;
use crate::journal::{Ring, Store};
use crate::space::VdevSpace;
use crate::{Error, Result};
use io::disk::{Disk, Flushed};
use io::{BufPool, IoBuf};
use std::sync::Arc;

const LABEL: u64 = 1 << 20;
const SLOTS: u64 = 16;

#[derive(Debug)]
pub struct VdevInfo {
    pub id: VdevId,
    pub start: VdevOffset,
    pub end: VdevOffset,
    pub sector: u32,
}
impl From<&VdevInfo> for VdevSpace {
    fn from(v: &VdevInfo) -> Self {
        Self {
            vdev: v.id,
            start: v.start,
            end: v.end,
            sector: v.sector,
        }
    }
}
pub struct Vdevs {
    disks: Vec<Disk>,
    table: Vec<VdevInfo>,
    pool: PoolGuid,
    buffers: BufPool,
    segment: u32,
    segments: u64,
}

impl Vdevs {
    pub fn new(disks: Vec<Disk>, pool: PoolGuid, segment: u32, segments: u64) -> Arc<Self> {
        let table = disks
            .iter()
            .enumerate()
            .map(|(i, d)| {
                let start = if i == 0 {
                    u64::from(segment) * segments
                } else {
                    0
                };
                VdevInfo {
                    id: VdevId(i as u16),
                    start: VdevOffset(start),
                    end: VdevOffset(d.info().size - LABEL),
                    sector: 4096,
                }
            })
            .collect();
        Arc::new(Self {
            disks,
            table,
            pool,
            buffers: BufPool::new(32 << 20),
            segment,
            segments,
        })
    }
    pub fn pool(&self) -> PoolGuid {
        self.pool
    }
    pub fn sector(&self) -> u32 {
        4096
    }
    pub fn table(&self) -> &[VdevInfo] {
        &self.table
    }
    pub fn ring(&self) -> Ring {
        let segments = (0..self.segments)
            .map(|n| Address {
                vdev: VdevId(0),
                offset: VdevOffset(n * u64::from(self.segment)),
            })
            .collect();
        Ring {
            pool: self.pool,
            segments,
            segment_size: self.segment,
            sector: 4096,
        }
    }
    fn disk(&self, vdev: VdevId) -> Result<&Disk> {
        self.disks.get(vdev.0 as usize).ok_or(Error::Device)
    }
    async fn read_at(&self, at: Address, bytes: usize) -> Result<IoBuf> {
        let disk = self.disk(at.vdev)?;
        if at.offset.0 + bytes as u64 > disk.info().size - LABEL {
            return Err(Error::Device);
        }
        let buf = self.buffers.alloc(bytes).await;
        let (r, buf) = disk.read(buf, at.offset.0 + LABEL).await;
        r.map_err(|_| Error::Device)?;
        Ok(buf)
    }
    pub async fn read(&self, ptr: &BlockPtr) -> Result<IoBuf> {
        let buf = self
            .read_at(
                ptr.address(),
                (ptr.physical_size as usize).next_multiple_of(4096),
            )
            .await?;
        ptr.verify(&buf[..ptr.physical_size as usize])
            .map_err(|defect| Error::Corrupt {
                at: ptr.address(),
                defect,
            })?;
        Ok(buf)
    }
    pub async fn read_run(&self, ptrs: &[BlockPtr]) -> Result<IoBuf> {
        let bytes: usize = ptrs.iter().map(|p| p.physical_size as usize).sum();
        let buf = self
            .read_at(ptrs[0].address(), bytes.next_multiple_of(4096))
            .await?;
        let mut done = 0;
        for ptr in ptrs {
            let end = done + ptr.physical_size as usize;
            ptr.verify(&buf[done..end])
                .map_err(|defect| Error::Corrupt {
                    at: ptr.address(),
                    defect,
                })?;
            done = end;
        }
        Ok(buf)
    }
    pub async fn write(&self, at: Address, buf: IoBuf) -> Result<()> {
        let (r, _) = self.disk(at.vdev)?.write(buf, at.offset.0 + LABEL).await;
        r.map_err(|_| Error::Device)
    }
    pub async fn flush(&self) -> Result<Flushed> {
        let mut last = None;
        for d in &self.disks {
            last = Some(d.flush().await.map_err(|_| Error::Device)?);
        }
        last.ok_or(Error::Device)
    }
    pub async fn write_uberblock(&self, u: &Uberblock) -> Result<()> {
        let at = u.sequence % SLOTS * 4096;
        for d in &self.disks {
            let mut buf = self.buffers.alloc(4096).await;
            buf.copy_from_slice(&u.encode(VdevOffset(at)));
            d.write(buf, at).await.0.map_err(|_| Error::Device)?;
        }
        Ok(())
    }
    pub async fn newest(&self) -> Option<Uberblock> {
        let mut found: Option<Uberblock> = None;
        for d in &self.disks {
            for slot in 0..SLOTS {
                let buf = self.buffers.alloc(4096).await;
                let (r, buf) = d.read(buf, slot * 4096).await;
                if r.is_err() {
                    continue;
                }
                let bytes: &[u8; 4096] = buf[..].try_into().expect("4096");
                if let Ok(u) = Uberblock::decode(bytes, VdevOffset(slot * 4096)) {
                    if found.is_none_or(|f| u.is_newer_than(&f)) {
                        found = Some(u);
                    }
                }
            }
        }
        found
    }
}
impl Store for Vdevs {
    fn sides(&self) -> usize {
        1
    }
    async fn read(&self, _side: usize, at: Address, out: &mut [u8]) -> Result<()> {
        let buf = self.read_at(at, out.len()).await?;
        out.copy_from_slice(&buf);
        Ok(())
    }
    async fn write(&self, at: Address, bytes: &[u8]) -> Result<()> {
        let mut buf = self.buffers.alloc(bytes.len()).await;
        buf.copy_from_slice(bytes);
        Vdevs::write(self, at, buf).await
    }
    async fn flush(&self) -> Result<()> {
        let _f = Vdevs::flush(self).await?;
        Ok(())
    }
}
