//! The volume as a [`BlockBackend`], as protocols see it.
//!
//! **Owns** the requests of that trait. **Called by** the protocols. **Invariant**: a
//! change takes its place in the overlap order when it is asked for, not when its reply is awaited.

use backend::{BlockBackend, Durable, Extent, Geometry, Lba, Reply, Run, StorageError, Usage};
use io::{IoBuf, Payload};

use super::errors::{reading, writing};
use super::{Change, Volume};
use io::sync::lock;

impl BlockBackend for Volume {
    fn geometry(&self) -> Geometry {
        self.geometry()
    }

    fn generation(&self) -> u64 {
        self.0.generation()
    }

    fn usage(&self) -> Reply<Usage> {
        let state = lock(&self.0.state);
        let provisioned = state.dataset.size;
        let used = state.layers.held().referenced.min(provisioned);
        Reply::now(Ok(Usage { provisioned, used }))
    }

    fn runs(&self, at: Extent) -> Reply<Vec<Run>> {
        match self.range(at) {
            Err(e) => Reply::now(Err(e)),
            Ok(bytes) => {
                let this = self.clone();
                let block_size = u64::from(self.geometry().block_size);
                Reply::later(async move {
                    let runs = this.runs(bytes).await.map_err(reading)?;
                    let run = |(bytes, mapped)| Run {
                        blocks: bytes / block_size,
                        mapped,
                    };
                    Ok(runs.into_iter().map(run).collect())
                })
            }
        }
    }

    fn read(&self, at: Extent) -> Reply<Payload> {
        match self.range(at) {
            Err(e) => Reply::now(Err(e)),
            Ok(bytes) => {
                let this = self.clone();
                Reply::later(async move { this.bytes().read(bytes).await.map_err(reading) })
            }
        }
    }

    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        match self.change(self.extent(at, &data)) {
            Err(e) => Reply::now(Err(e)),
            Ok(mut change) => {
                let this = self.clone();
                Reply::later(async move {
                    this.come(&mut change).await?;
                    let (start, len) = (change.bytes.start, data.len());
                    this.write(change, data).await.map_err(writing)?;
                    this.note_write(start, len);
                    Ok(())
                })
            }
        }
    }

    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        match self.change(self.extent(at, &data)) {
            Err(e) => Reply::now(Err(e)),
            Ok(mut change) => {
                let this = self.clone();
                Reply::later(async move {
                    this.come(&mut change).await?;
                    let (start, len) = (change.bytes.start, data.len());
                    let durable = this.write_through(change, data).await.map_err(writing)?;
                    this.note_write(start, len);
                    Ok(durable)
                })
            }
        }
    }

    fn flush(&self) -> Reply<Durable> {
        if self.0.shared.vdevs.is_read_only() {
            return Reply::now(Err(StorageError::ReadOnly));
        }
        let this = self.clone();
        Reply::later(async move { this.0.promise(true).await.map_err(writing) })
    }

    fn write_zeroes(&self, at: Extent, _deallocate: bool) -> Reply<()> {
        match self.change(at) {
            Err(e) => Reply::now(Err(e)),
            Ok(mut change) => {
                let this = self.clone();
                Reply::later(async move {
                    this.come(&mut change).await?;
                    let Change { bytes, turn } = change;
                    this.zero(bytes).await.map_err(writing)?;
                    drop(turn);
                    this.0.wait_if_always().await.map_err(writing)
                })
            }
        }
    }

    fn deallocate(&self, at: Extent) -> Reply<()> {
        self.write_zeroes(at, true)
    }

    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()> {
        match self.range(self.extent(at, &expected)) {
            Err(e) => Reply::now(Err(e)),
            Ok(bytes) => {
                let this = self.clone();
                Reply::later(async move { this.compare(bytes.start, &expected).await })
            }
        }
    }

    fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()> {
        match self.change(self.extent(at, &data)) {
            Err(e) => Reply::now(Err(e)),
            Ok(mut change) => {
                let this = self.clone();
                Reply::later(async move {
                    this.come(&mut change).await?;
                    let Change { bytes, turn } = change;
                    this.compare(bytes.start, &expected).await?;
                    let put = this.put(bytes.start, &data, false).await;
                    put.map_err(writing)?;
                    drop(turn);
                    this.0.wait_if_always().await.map_err(writing)?;
                    this.note_write(bytes.start, data.len());
                    Ok(())
                })
            }
        }
    }

    fn refresh(&self) -> Reply<Geometry> {
        Reply::now(Ok(self.geometry()))
    }

    fn resize(&self, _blocks: u64) -> Reply<Geometry> {
        Reply::now(Err(StorageError::Unsupported))
    }
}
