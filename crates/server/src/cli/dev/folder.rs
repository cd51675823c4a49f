//! The folder of `ringtrue dev`.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use ringtrue_engine::{keys::MasterKey, ports::Entropy};

use super::{Demo, Failure};
use crate::config::read_master_key;

const DATABASE: &str = "ringtrue.db";
const MASTER_KEY: &str = "master.key";
const LOCK: &str = "dev.lock";
/// For scripts: there once the server is ready.
const READY: &str = "dev.json";
/// What [`READY`] was before this start. Kept until there is a new one, so that a start that fails forgets nothing.
const PREVIOUS: &str = "dev.previous.json";

/// A folder that only its owner can enter, and that one `dev` uses at a time.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        make_private(path)?;
        let path = path.canonicalize().map_err(|problem| cannot("be opened", path, &problem))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(|problem| cannot("be opened", &lock_path, &problem))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Failure::refused(
                format!("another `ringtrue dev` uses {}", path.display()),
                "Stop it, or choose another folder with --data DIR.",
            )),
            Err(TryLockError::Error(problem)) => Err(cannot("be locked", &lock_path, &problem)),
        }
    }

    /// Finds the database, the master key and the base URL in the folder of a `ringtrue dev`, whether or not it runs.
    pub(super) fn find(path: &Path) -> Result<(PathBuf, MasterKey, Option<String>), Failure> {
        let database = path.join(DATABASE);
        if !exists(&database)? {
            return Err(Failure::refused(
                format!("{} is not a data folder of `ringtrue dev`", path.display()),
                "Name the folder that `ringtrue dev --data DIR` uses.",
            ));
        }
        let database = database.canonicalize().map_err(|problem| cannot("be opened", &database, &problem))?;
        let base_url = [READY, PREVIOUS].into_iter().find_map(|name| {
            let demo: Demo = serde_json::from_slice(&fs::read(path.join(name)).ok()?).ok()?;
            Some(demo.base_url)
        });
        Ok((database, read_master_key(&path.join(MASTER_KEY))?, base_url))
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The folder's own master key, made at its first use.
    pub(super) fn master_key(&self, entropy: &dyn Entropy) -> Result<MasterKey, Failure> {
        let path = self.path.join(MASTER_KEY);
        let is_missing = !exists(&path)?;
        if is_missing && exists(&self.database())? {
            return Err(Failure::refused(
                format!("{} is missing, and nothing else opens the database beside it", path.display()),
                format!("Put it back, or begin anew: rm -r {}", self.path.display()),
            ));
        }
        if is_missing {
            let key = MasterKey::generate(entropy);
            self.write(MASTER_KEY, key.as_bytes())?;
        }
        Ok(read_master_key(&path)?)
    }

    /// What an earlier run published. From now on nobody can take it for a sign that this one is ready.
    pub(super) fn take_previous(&self) -> Result<Option<Demo>, Failure> {
        let [ready, previous] = [READY, PREVIOUS].map(|name| self.path.join(name));
        if exists(&ready)? {
            fs::rename(&ready, &previous).map_err(|problem| cannot("be renamed", &ready, &problem))?;
        }
        match fs::read(&previous) {
            // A file that we did not write is as good as none.
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(problem) => Err(cannot("be read", &previous, &problem)),
        }
    }

    /// Says to scripts that the server is ready, and with which credentials.
    pub(super) fn publish(&self, demo: &Demo) -> Result<PathBuf, Failure> {
        let text = serde_json::to_vec_pretty(demo).map_err(|problem| Failure::Failed(problem.into()))?;
        let path = self.write(READY, &text)?;
        let previous = self.path.join(PREVIOUS);
        match fs::remove_file(&previous) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => Err(cannot("be deleted", &previous, &problem)),
            _ => Ok(path),
        }
    }

    /// Writes a file that only its owner can read: whole, or not at all.
    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        let draft = self.path.join(format!(".{name}.draft"));
        let write = || {
            // A draft that a crash left behind may have other permissions.
            match fs::remove_file(&draft) {
                Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
                _ => {}
            }
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|problem| cannot("be written", &path, &problem))?;
        Ok(path)
    }
}

/// Makes the folder, or closes an empty one or one of ours to others. Anything else is not ours to close.
fn make_private(path: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|problem| cannot("be made", path, &problem))?;
    let read = || {
        let is_open = fs::metadata(path)?.permissions().mode() & 0o077 != 0;
        let is_ours = path.join(LOCK).try_exists()? || fs::read_dir(path)?.next().is_none();
        Ok((is_open, is_ours))
    };
    match read().map_err(|problem: io::Error| cannot("be read", path, &problem))? {
        (false, _) => Ok(()),
        (true, true) => fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(|problem| cannot("be closed to others", path, &problem)),
        (true, false) => Err(Failure::refused(
            format!("{} is open to others, and holds files that are not ours", path.display()),
            "Choose another folder with --data DIR: it will hold secrets.",
        )),
    }
}

fn exists(path: &Path) -> Result<bool, Failure> {
    path.try_exists().map_err(|problem| cannot("be read", path, &problem))
}

fn cannot(be_done: &str, path: &Path, problem: &io::Error) -> Failure {
    Failure::refused(
        format!("{} cannot {be_done}: {problem}", path.display()),
        "Choose a folder that you can write to with --data DIR.",
    )
}
