//! Private files of the API client commands.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{cli::error::CliError, config::Environment};

/// Directory below `$XDG_CONFIG_HOME/ringtrue`, created on the first write.
#[derive(Clone, Debug)]
pub(super) struct ConfigDir {
    path: PathBuf,
}

impl ConfigDir {
    pub(super) fn open(environment: &Environment, name: &str) -> Result<Self, CliError> {
        // The XDG specification requires relative paths to be ignored.
        let absolute = |name: &str| {
            let path = environment.var(name)?.map(PathBuf::from);
            Ok::<_, CliError>(path.filter(|path| path.is_absolute()))
        };
        let home = match absolute("XDG_CONFIG_HOME")? {
            Some(home) => Some(home),
            None => absolute("HOME")?.map(|home| home.join(".config")),
        };
        let home = home.ok_or_else(|| {
            CliError::with_hint("no configuration directory", "Set HOME or XDG_CONFIG_HOME to an absolute path.")
        })?;
        Ok(ConfigDir { path: home.join("ringtrue").join(name) })
    }

    /// `None`: the file does not exist. Rejects files that other users can read.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CliError> {
        let path = self.path.join(name);
        let read_error = |error: &io::Error| io_error("read", &path, error);
        let mode = match fs::metadata(&path) {
            Ok(metadata) => metadata.permissions().mode() & 0o7777,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(read_error(&error)),
        };
        if mode & 0o077 != 0 {
            return Err(CliError::with_hint(
                format!("{} is readable by users other than its owner (mode {mode:04o})", path.display()),
                format!("Run `chmod 600 {}`, and consider replacing the secret.", path.display()),
            ));
        }
        fs::read(&path).map(Some).map_err(|error| read_error(&error))
    }

    pub(super) fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), CliError> {
        let content = serde_json::to_vec_pretty(content).map_err(|error| CliError::Other(error.into()))?;
        self.write(name, &content)
    }

    /// Appends to an existing file and syncs it to disk.
    pub(super) fn append(&self, name: &str, content: &[u8]) -> Result<(), CliError> {
        let path = self.path.join(name);
        let write = || {
            let mut file = OpenOptions::new().append(true).open(&path)?;
            file.write_all(content)?;
            file.sync_data()
        };
        write().map_err(|error| io_error("write", &path, &error))
    }

    /// Takes a lock that is released with the process. `None`: another process holds it.
    pub(super) fn lock(&self, name: &str) -> Result<Option<File>, CliError> {
        let path = self.path.join(name);
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)
        };
        let lock = open().map_err(|error| io_error("open", &path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(io_error("lock", &path, &error)),
        }
    }

    /// Writes a file atomically.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), CliError> {
        let path = self.path.join(name);
        // Concurrent commands need separate drafts; the last rename wins.
        let draft = self.path.join(format!(".{name}.{}.draft", std::process::id()));
        let write = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            remove(&draft)?;
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|error| io_error("write", &path, &error))
    }

    /// Returns whether the file existed.
    pub(super) fn remove(&self, name: &str) -> Result<bool, CliError> {
        let path = self.path.join(name);
        remove(&path).map_err(|error| io_error("delete", &path, &error))
    }

    /// Lists JSON files, sorted by name.
    pub(super) fn json_files(&self) -> Result<Vec<String>, CliError> {
        let read = || -> io::Result<Vec<String>> {
            let entries = match fs::read_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
                entries => entries?,
            };
            let name = |entry: fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
            let mut names: Vec<String> = entries.filter_map(|entry| name(entry.ok()?)).collect();
            names.retain(|name| !name.starts_with('.') && Path::new(name).extension() == Some(OsStr::new("json")));
            names.sort();
            Ok(names)
        };
        read().map_err(|error| io_error("read", &self.path, &error))
    }
}

fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::with_hint(
        format!("cannot {action} {}: {error}", path.display()),
        "Set XDG_CONFIG_HOME to a writable directory.",
    )
}
