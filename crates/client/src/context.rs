//! What a command needs to run: its environment variables, its output, and its private files.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use tempfile::NamedTempFile;

use crate::{error::CommandError, printer::Printer};

pub const PROFILE_VARIABLE: &str = "RINGTRUE_PROFILE";
pub const CLIENT_SECRET_VARIABLE: &str = "RINGTRUE_CLIENT_SECRET";

#[derive(Clone, Debug)]
pub struct ClientContext {
    pub environment: ClientEnvironment,
    pub printer: Printer,
}

/// Environment variables that the commands use.
#[derive(Clone, Default, derive_more::Debug)]
pub struct ClientEnvironment {
    pub home: Option<String>,
    pub xdg_config_home: Option<String>,
    /// Value of [`PROFILE_VARIABLE`].
    pub profile: Option<String>,
    /// Value of [`CLIENT_SECRET_VARIABLE`].
    #[debug(skip)]
    pub client_secret: Option<String>,
}

/// A directory below `$XDG_CONFIG_HOME/ringtrue`. It is created on the first write.
#[derive(Clone, Debug)]
pub(crate) struct ConfigDir {
    path: PathBuf,
}

impl ConfigDir {
    pub(crate) fn open(context: &ClientContext, name: &str) -> Result<Self, CommandError> {
        let ClientEnvironment { home, xdg_config_home, .. } = &context.environment;
        // The XDG specification requires relative paths to be ignored.
        let absolute = |path: &Option<String>| path.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute(xdg_config_home).or_else(|| absolute(home).map(|home| home.join(".config")));
        let home = home.ok_or_else(|| {
            CommandError::failed("no configuration directory", "Set HOME or XDG_CONFIG_HOME to an absolute path.")
        })?;
        Ok(ConfigDir { path: home.join("ringtrue").join(name) })
    }

    /// Reads a file. `None`: the file does not exist. Fails if other users can read the file.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CommandError> {
        let path = self.path.join(name);
        let read_error = |error: &io::Error| io_error("read", &path, error);
        let mode = match fs::metadata(&path) {
            Ok(metadata) => metadata.permissions().mode() & 0o7777,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(read_error(&error)),
        };
        if mode & 0o077 != 0 {
            return Err(CommandError::failed(
                format!("{} is readable by users other than its owner (mode {mode:04o})", path.display()),
                format!("Run `chmod 600 {}`, and consider replacing the secret.", path.display()),
            ));
        }
        fs::read(&path).map(Some).map_err(|error| read_error(&error))
    }

    /// Reads a JSON file. `None`: the file does not exist, or has another format.
    pub(crate) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, CommandError> {
        Ok(self.read(name)?.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    pub(crate) fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), CommandError> {
        let content = serde_json::to_vec_pretty(content).map_err(CommandError::other)?;
        self.write(name, &content)
    }

    /// Appends to an existing file and syncs it to disk.
    pub(crate) fn append(&self, name: &str, content: &[u8]) -> Result<(), CommandError> {
        let path = self.path.join(name);
        let write = || {
            let mut file = OpenOptions::new().append(true).open(&path)?;
            file.write_all(content)?;
            file.sync_data()
        };
        write().map_err(|error| io_error("write", &path, &error))
    }

    /// Takes a lock, which is released when the file is dropped or the process ends. `None`: another process holds the
    /// lock.
    pub(crate) fn lock(&self, name: &str) -> Result<Option<File>, CommandError> {
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

    /// Writes a file atomically, readable by its owner only.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), CommandError> {
        let path = self.path.join(name);
        let write = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            // A temporary file has the mode 0600.
            let mut file = NamedTempFile::new_in(&self.path)?;
            file.write_all(content)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error: io::Error| io_error("write", &path, &error))
    }

    /// Removes a file. Returns whether it existed.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, CommandError> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("delete", &path, &error)),
        }
    }

    /// Lists the JSON files in the directory, sorted by name.
    pub(crate) fn json_files(&self) -> Result<Vec<String>, CommandError> {
        let mut names = self.files()?;
        names.retain(|name| Path::new(name).extension() == Some(OsStr::new("json")));
        Ok(names)
    }

    /// Lists the files in the directory, sorted by name. Hidden files are left out.
    pub(crate) fn files(&self) -> Result<Vec<String>, CommandError> {
        let read = || -> io::Result<Vec<String>> {
            let entries = match fs::read_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
                entries => entries?,
            };
            let name = |entry: fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
            let mut names: Vec<String> = entries.filter_map(|entry| name(entry.ok()?)).collect();
            names.retain(|name| !name.starts_with('.'));
            names.sort();
            Ok(names)
        };
        read().map_err(|error| io_error("read", &self.path, &error))
    }
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> CommandError {
    CommandError::failed(
        format!("cannot {action} {}: {error}", path.display()),
        "Set XDG_CONFIG_HOME to a writable directory.",
    )
}
