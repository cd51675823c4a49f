//! Where the command line keeps things for its user: files that nobody else can read.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{cli::failure::Failure, config::Environment};

/// A folder below `$XDG_CONFIG_HOME/ringtrue`, which is made when something is put into it.
#[derive(Clone, Debug)]
pub(super) struct Drawer {
    path: PathBuf,
}

impl Drawer {
    pub(super) fn open(environment: &Environment, name: &str) -> Result<Self, Failure> {
        // A relative path is to be ignored, the specification says.
        let absolute = |name: &str| {
            let path = environment.text(name)?.map(PathBuf::from);
            Ok::<_, Failure>(path.filter(|path| path.is_absolute()))
        };
        let home = match absolute("XDG_CONFIG_HOME")? {
            Some(home) => Some(home),
            None => absolute("HOME")?.map(|home| home.join(".config")),
        };
        let home = home.ok_or_else(|| {
            Failure::refused("there is no folder to keep profiles in", "Set HOME, or XDG_CONFIG_HOME to a folder.")
        })?;
        Ok(Drawer { path: home.join("ringtrue").join(name) })
    }

    /// `None`: there is no such file.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.path.join(name);
        let cannot = |problem: &io::Error| cannot("be read", &path, problem);
        let mode = match fs::metadata(&path) {
            Ok(metadata) => metadata.permissions().mode() & 0o7777,
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(problem) => return Err(cannot(&problem)),
        };
        if mode & 0o077 != 0 {
            return Err(Failure::refused(
                format!("{} can be read by others than its owner (mode {mode:04o})", path.display()),
                format!("Run `chmod 600 {}`, and think about a new secret.", path.display()),
            ));
        }
        fs::read(&path).map(Some).map_err(|problem| cannot(&problem))
    }

    pub(super) fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), Failure> {
        let content = serde_json::to_vec_pretty(content).map_err(|problem| Failure::Failed(problem.into()))?;
        self.write(name, &content)
    }

    /// Adds to a file that is there.
    pub(super) fn append(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let write = || {
            let mut file = OpenOptions::new().append(true).open(&path)?;
            file.write_all(content)?;
            file.sync_data()
        };
        write().map_err(|problem| cannot("be written", &path, &problem))
    }

    /// A lock that ends with the process. `None`: someone else has it.
    pub(super) fn lock(&self, name: &str) -> Result<Option<File>, Failure> {
        let path = self.path.join(name);
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)
        };
        let lock = open().map_err(|problem| cannot("be opened", &path, &problem))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(problem)) => Err(cannot("be locked", &path, &problem)),
        }
    }

    /// Whole, or not at all.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        // Several commands may write at a time: each has a draft of its own, and the last one counts.
        let draft = self.path.join(format!(".{name}.{}.draft", std::process::id()));
        let write = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            remove(&draft)?;
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|problem| cannot("be written", &path, &problem))
    }

    /// Whether it was there.
    pub(super) fn remove(&self, name: &str) -> Result<bool, Failure> {
        let path = self.path.join(name);
        remove(&path).map_err(|problem| cannot("be deleted", &path, &problem))
    }

    /// All files, by name.
    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        let read = || -> io::Result<Vec<String>> {
            let entries = match fs::read_dir(&self.path) {
                Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
                entries => entries?,
            };
            let name = |entry: fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
            let mut names: Vec<String> = entries.filter_map(|entry| name(entry.ok()?)).collect();
            names.retain(|name| !name.starts_with('.') && Path::new(name).extension() == Some(OsStr::new("json")));
            names.sort();
            Ok(names)
        };
        read().map_err(|problem| cannot("be read", &self.path, &problem))
    }
}

fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(problem) => Err(problem),
    }
}

fn cannot(be_done: &str, path: &Path, problem: &io::Error) -> Failure {
    Failure::refused(
        format!("{} cannot {be_done}: {problem}", path.display()),
        "Set XDG_CONFIG_HOME to a folder that you can write to.",
    )
}
