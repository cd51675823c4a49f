//! Files that hold a secret: only their owner may be able to read them.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
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
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if is_exposed(mode, metadata.uid(), metadata.gid()) {
        return Err(NotPrivate::Exposed { mode });
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Credentials of systemd may look as if root's group could read them: these bits then show that an access control list
/// lets the service's user in. Root's group is root, so nobody else can.
fn is_exposed(mode: u32, user: u32, group: u32) -> bool {
    let is_credential = (mode & 0o777, user, group) == (0o440, 0, 0);
    mode & 0o077 != 0 && !is_credential
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_may_read_a_secret_or_whom_systemd_lets_in() {
        for (mode, user, group, expected) in [
            (0o600, 1000, 1000, false),
            (0o400, 0, 0, false),
            (0o440, 0, 0, false),
            (0o440, 1000, 1000, true),
            (0o440, 0, 1000, true),
            (0o440, 1000, 0, true),
            (0o640, 0, 0, true),
            (0o460, 0, 0, true),
            (0o444, 0, 0, true),
            (0o604, 1000, 1000, true),
        ] {
            assert_eq!(is_exposed(mode, user, group), expected, "{mode:o} of {user}:{group}");
        }
    }
}
