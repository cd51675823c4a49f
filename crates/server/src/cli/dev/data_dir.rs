//! Manages the data directory of `ringtrue dev`.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use ringtrue_engine::{keys::MasterKey, ports::entropy::Entropy};
use tempfile::NamedTempFile;

use super::demo_workspace::DemoWorkspace;
use crate::{cli::error::CliError, config::read_master_key};

const DATABASE_FILE: &str = "ringtrue.db";
const MASTER_KEY_FILE: &str = "master.key";
const LOCK_FILE: &str = "dev.lock";
/// File with the demo credentials. Written when the server is ready, so that scripts can wait for the file.
const READY_FILE: &str = "dev.json";
/// [`READY_FILE`] of the previous run. Kept until the new one is written, so that a failed start does not lose the
/// credentials.
const PREVIOUS_FILE: &str = "dev.previous.json";

/// Data directory with mode 0700. Only one `ringtrue dev` at a time can lock it.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    /// Holds the lock while open.
    _lock: File,
}

impl DataDir {
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        create_private_dir(path)?;
        let path = path.canonicalize().map_err(|error| io_error("open", path, &error))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(|error| io_error("open", &lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDir { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(CliError::failed(
                format!("another `ringtrue dev` is using {}", path.display()),
                "Stop it, or use another directory with --data DIR.",
            )),
            Err(TryLockError::Error(error)) => Err(io_error("lock", &lock_path, &error)),
        }
    }

    /// Returns the database path, the master key and the base URL of an existing data directory. `ringtrue dev` need
    /// not be running.
    pub(super) fn read_existing(path: &Path) -> Result<(PathBuf, MasterKey, Option<String>), CliError> {
        let database = path.join(DATABASE_FILE);
        if !exists(&database)? {
            return Err(CliError::failed(
                format!("{} is not a data directory of `ringtrue dev`", path.display()),
                "Use the directory given to `ringtrue dev --data DIR`.",
            ));
        }
        let database = database.canonicalize().map_err(|error| io_error("open", &database, &error))?;
        let base_url = [READY_FILE, PREVIOUS_FILE].into_iter().find_map(|name| {
            let demo: DemoWorkspace = serde_json::from_slice(&fs::read(path.join(name)).ok()?).ok()?;
            Some(demo.base_url)
        });
        Ok((database, read_master_key(&path.join(MASTER_KEY_FILE))?, base_url))
    }

    /// Returns the absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn ready_file(&self) -> PathBuf {
        self.path.join(READY_FILE)
    }

    pub(super) fn database_path(&self) -> PathBuf {
        self.path.join(DATABASE_FILE)
    }

    /// Reads the master key. Creates it on first use.
    pub(super) fn master_key(&self, entropy: &dyn Entropy) -> Result<MasterKey, CliError> {
        let path = self.path.join(MASTER_KEY_FILE);
        let is_missing = !exists(&path)?;
        if is_missing && exists(&self.database_path())? {
            return Err(CliError::failed(
                format!("{} is missing, but the database requires it", path.display()),
                format!("Restore it, or start over: rm -r {}", self.path.display()),
            ));
        }
        if is_missing {
            let key = MasterKey::generate(entropy);
            self.write(MASTER_KEY_FILE, key.as_bytes())?;
        }
        Ok(read_master_key(&path)?)
    }

    /// Renames and reads the ready file of the previous run, so that scripts do not mistake it for the ready file of
    /// this run.
    pub(super) fn take_previous_demo(&self) -> Result<Option<DemoWorkspace>, CliError> {
        let [ready, previous] = [READY_FILE, PREVIOUS_FILE].map(|name| self.path.join(name));
        if exists(&ready)? {
            fs::rename(&ready, &previous).map_err(|error| io_error("rename", &ready, &error))?;
        }
        match fs::read(&previous) {
            // A file in another format, such as that of another release, is ignored.
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &previous, &error)),
        }
    }

    pub(super) fn write_ready_file(&self, demo: &DemoWorkspace) -> Result<PathBuf, CliError> {
        let text = serde_json::to_vec_pretty(demo).map_err(|error| CliError::Other(error.into()))?;
        let path = self.write(READY_FILE, &text)?;
        let previous = self.path.join(PREVIOUS_FILE);
        match fs::remove_file(&previous) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("delete", &previous, &error)),
            _ => Ok(path),
        }
    }

    /// Writes a file with mode 0600 atomically.
    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, CliError> {
        let path = self.path.join(name);
        let write = || {
            let mut file = NamedTempFile::new_in(&self.path)?;
            file.write_all(content)?;
            file.as_file().sync_all()?;
            Ok(file.persist(&path)?)
        };
        write().map_err(|error: io::Error| io_error("write", &path, &error))?;
        Ok(path)
    }
}

/// Creates the directory with mode 0700. An existing directory is restricted to its owner if it is empty or contains
/// our lock file. Any other directory that is open to other users is rejected.
fn create_private_dir(path: &Path) -> Result<(), CliError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| io_error("create", path, &error))?;
    let inspect = || {
        let is_shared = fs::metadata(path)?.permissions().mode() & 0o077 != 0;
        let is_ours = path.join(LOCK_FILE).try_exists()? || fs::read_dir(path)?.next().is_none();
        Ok((is_shared, is_ours))
    };
    match inspect().map_err(|error: io::Error| io_error("read", path, &error))? {
        (false, _) => Ok(()),
        (true, true) => {
            fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(|error| io_error("restrict", path, &error))
        }
        (true, false) => Err(CliError::failed(
            format!("{} is accessible to other users and contains files of other programs", path.display()),
            "It will hold secrets: use another directory with --data DIR.",
        )),
    }
}

fn exists(path: &Path) -> Result<bool, CliError> {
    path.try_exists().map_err(|error| io_error("read", path, &error))
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::failed(
        format!("cannot {action} {}: {error}", path.display()),
        "Use a writable directory with --data DIR.",
    )
}
