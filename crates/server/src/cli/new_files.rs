//! New files of commands that prepare a deployment. Only their owner can read them, and no file is ever replaced.

use std::{
    fmt::Arguments,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

use super::error::CliError;

/// Creates a directory unless it exists, and returns its absolute path.
pub(super) fn create_dir(dir: &Path) -> Result<PathBuf, CliError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| io_error("create", dir, &error))?;
    dir.canonicalize().map_err(|error| io_error("open", dir, &error))
}

/// Returns the paths of files in a directory. Fails if one of them exists, before any of them is written.
pub(super) fn new_paths<const N: usize>(dir: &Path, names: [&str; N]) -> Result<[PathBuf; N], CliError> {
    let paths = names.map(|name| dir.join(name));
    for path in &paths {
        if path.try_exists().map_err(|error| io_error("read", path, &error))? {
            return Err(CliError::failed(
                format!("{} already exists", path.display()),
                "Nothing was changed. Edit the file, or use another directory.",
            ));
        }
    }
    Ok(paths)
}

/// Creates a file with mode 0600 and gives it to the owner of its directory. Root can thus prepare the files of a
/// service that runs as another user.
pub(super) fn write(path: &Path, content: Arguments<'_>) -> Result<(), CliError> {
    let write = || {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
        inherit_owner(&file, path.parent().unwrap_or(Path::new(".")))?;
        file.write_fmt(content)?;
        file.sync_all()
    };
    write().map_err(|error: io::Error| io_error("write", path, &error))
}

fn inherit_owner(file: &File, dir: &Path) -> io::Result<()> {
    let (dir, own) = (fs::metadata(dir)?, file.metadata()?);
    if (dir.uid(), dir.gid()) == (own.uid(), own.gid()) {
        return Ok(());
    }
    match fchown(file, Some(dir.uid()), Some(dir.gid())) {
        // Only root may change the owner of a file. If another user runs the command, the file stays theirs.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::failed(
        format!("cannot {action} {}: {error}", path.display()),
        "Use another directory, in which you can create files.",
    )
}
