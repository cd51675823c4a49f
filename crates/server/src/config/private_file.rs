//! Files that hold a secret: only their owner may be able to read them.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use zeroize::Zeroizing;

#[derive(Debug, thiserror::Error)]
pub(super) enum NotPrivate {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("can be read by others than its owner (mode {mode:04o})")]
    Exposed { mode: u32 },
}

/// Keys, passwords and tokens are a line long; whatever is much longer is none.
const MOST_BYTES: u64 = 1_024;

/// Reads a secret from a file, unless others could have read it too.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, NotPrivate> {
    let file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(NotPrivate::Exposed { mode });
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
