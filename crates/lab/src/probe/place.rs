//! The target of `wirepool ioping`: a path, an address, or a scratch file in a directory.
//!
//! **Owns** the scratch file. **Invariants**: a scratch file is new when it is created, and has no name any more when the first
//! request is sent, so that nothing is left behind; only a scratch file is ever written.

use crate::engine::{Setup, precondition};
use crate::targets::file::FileTarget;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::{Error, Result};
use io::disk::OpenOptions;
use std::fs;
use std::path::{Path, PathBuf};

/// A target that is open.
pub(super) struct Place {
    /// Its name.
    pub(super) name: String,
    /// The target.
    pub(super) target: AnyTarget,
    /// Whether it is a file of our own.
    pub(super) is_scratch: bool,
}

/// Options for opening a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Use the page cache of this machine.
    pub(super) cached: bool,
    /// Bytes of a scratch file.
    pub(super) scratch: u64,
    /// Whether it will be written.
    pub(super) write: bool,
}

/// Opens the target of this name.
///
/// # Errors
/// `Usage` for an unknown form, and for writes to anything but a directory; `Target` if it cannot be opened; `File` if a scratch file
/// cannot be created.
pub(super) async fn open(name: &str, how: How) -> Result<Place> {
    let path = name.strip_prefix("file:").unwrap_or(name);
    if Path::new(path).is_dir() {
        return scratch(Path::new(path), how).await;
    }
    if how.write {
        return Err(Error::usage(
            format!("writes to {name:?}"),
            "expected a directory: only a scratch file is written, never existing data",
        ));
    }
    let address = match name.parse::<Address>() {
        Ok(address) => address,
        // A name without a directory is no address of the lab.
        Err(_) if Path::new(name).exists() => Address::File {
            path: name.into(),
            buffered: false,
            shared: false,
        },
        Err(e) => return Err(e),
    };
    // Reads beside a server or a mounted file system disturb neither.
    let address = match address {
        Address::File { path, buffered, .. } => Address::File {
            path,
            buffered: buffered || how.cached,
            shared: true,
        },
        remote => remote,
    };
    let target = AnyTarget::open(&address, OpenAs::default()).await?;
    Ok(Place {
        name: name.to_owned(),
        target,
        is_scratch: false,
    })
}

/// Creates a file of random contents in `dir`, and removes its name.
async fn scratch(dir: &Path, how: How) -> Result<Place> {
    let path = dir.join(format!(".wirepool-ioping-{:016x}", io::rng::u64()));
    let created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path);
    created.map_err(Error::file(&path))?;
    let named = Named(path);
    let options = OpenOptions {
        read_only: false,
        create_size: Some(how.scratch),
        buffered: how.cached,
        shared: false,
    };
    let file = FileTarget::open(&named.0, options).await?;
    drop(named);
    let target = AnyTarget::File(file);
    let setup = Setup {
        inline: true,
        ..Setup::default()
    };
    precondition::fill(&target, None, io::rng::u64(), &setup).await?;
    Ok(Place {
        name: dir.display().to_string(),
        target,
        is_scratch: true,
    })
}

/// A file that is removed with this value.
struct Named(PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        // A file system that does not let an open file go keeps it; the next attempt would fail as well.
        let _ = fs::remove_file(&self.0);
    }
}
