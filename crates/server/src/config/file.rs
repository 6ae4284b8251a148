//! The configuration file: read at the start, replaced as a whole by live changes.
//!
//! **Invariants**: the text in memory equals the file when it was last read or written; a change is refused if
//! another program has written the file since, and takes effect only after it is on stable storage.

use super::{Config, Edit};
use crate::limits::CONFIG_LEN_MAX;
use crate::{Error, Result, durable};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml_edit::DocumentMut;

/// A configuration and its file.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
    text: Arc<str>,
    config: Arc<Config>,
    /// The text in parts, as an edit left it, so that the next edit need not parse it.
    document: Option<Arc<DocumentMut>>,
    stored: bool,
    control: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads and checks `path`. Blocks. Errors: `Config`, `File` if it cannot be read.
    pub fn load(path: &Path) -> Result<ConfigFile> {
        let failed = |source| Error::File {
            what: "read the configuration",
            path: path.to_path_buf(),
            source,
        };
        // A symbolic link stays one: its destination is replaced.
        let path = std::fs::canonicalize(path).map_err(failed)?;
        let length = std::fs::metadata(&path).map_err(failed)?.len();
        if length > CONFIG_LEN_MAX {
            return Err(failed(std::io::Error::other(format!(
                "it is larger than {CONFIG_LEN_MAX} bytes"
            ))));
        }
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        let config = Config::parse(&text, &path)?;
        Ok(ConfigFile {
            path,
            text: text.into(),
            config: Arc::new(config),
            document: None,
            stored: true,
            control: None,
        })
    }

    /// A configuration only in memory, for simulations; its server stores nothing.
    pub fn unsaved(text: &str) -> Result<ConfigFile> {
        let path = PathBuf::from("wirepool.toml");
        let config = Config::parse(text, &path)?;
        Ok(ConfigFile {
            path,
            text: text.into(),
            config: Arc::new(config),
            document: None,
            stored: false,
            control: None,
        })
    }

    /// Whether it has a file.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Sets another control socket for this run.
    pub fn set_control(&mut self, path: PathBuf) {
        self.control = Some(path);
    }

    /// The control socket of this run.
    #[must_use]
    pub fn control(&self) -> &Path {
        self.control
            .as_deref()
            .unwrap_or(&self.config.server.control)
    }

    /// The operator's way to another control socket. The file's setting has no effect while the command line or the environment names
    /// a socket.
    pub(crate) fn control_change(&self) -> &'static str {
        match self.control {
            Some(_) => {
                "name another path with --control or WIREPOOL_CONTROL, which override [server] control of the configuration"
            }
            None => "set [server] control of this one to another path",
        }
    }

    /// The text.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The file with `edits`, not written yet. Errors: `Config` if the result would be invalid.
    pub fn edited(&self, edits: &[&dyn Edit]) -> Result<ConfigFile> {
        let unreadable = |e: toml_edit::TomlError| Error::File {
            what: "edit the configuration",
            path: self.path.clone(),
            source: std::io::Error::other(e),
        };
        let mut document = match &self.document {
            Some(parsed) => DocumentMut::clone(parsed),
            None => self.text.parse().map_err(unreadable)?,
        };
        for e in edits {
            e.apply(&mut document);
        }
        let text = document.to_string();
        let config = Config::parse(&text, &self.path)?;
        Ok(ConfigFile {
            text: text.into(),
            config: Arc::new(config),
            document: Some(Arc::new(document)),
            ..self.clone()
        })
    }

    /// Replaces the file that held `before` with this one, durably. Blocks. Errors: `File` if it cannot be written,
    /// `Edited` if another program has written it since.
    pub fn store(&self, before: &ConfigFile) -> Result<()> {
        if !self.stored {
            return Ok(());
        }
        let failed = |source| Error::File {
            what: "write the configuration",
            path: self.path.clone(),
            source,
        };
        match std::fs::read(&self.path) {
            Ok(now) if now != before.text.as_bytes() => {
                return Err(Error::Edited(self.path.clone()));
            }
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        durable::replace(&self.path, self.text.as_bytes()).map_err(failed)
    }
}
