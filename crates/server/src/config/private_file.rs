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
    #[error("holds more than {MOST_BYTES} bytes")]
    TooLong,
}

/// The longest secrets are RSA keys, of which those with 16,384 bits take up 12,800 bytes. Whatever is longer is none.
pub(super) const MOST_BYTES: usize = 16_384;

/// Reads a secret from a file, unless others could have read it too.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, NotPrivate> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if is_exposed(mode, metadata.uid(), metadata.gid()) {
        return Err(NotPrivate::Exposed { mode });
    }
    // With room for all of it: a buffer that grows leaves copies of the secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MOST_BYTES + 2));
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MOST_BYTES {
        return Err(NotPrivate::TooLong);
    }
    let text = str::from_utf8(&bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Credentials of systemd may look as if root's group could read them: these bits then show that an access control list
/// lets the service's user in. Root's group is root, so nobody else can.
fn is_exposed(mode: u32, user: u32, group: u32) -> bool {
    let is_credential = (mode & 0o777, user, group) == (0o440, 0, 0);
    mode & 0o077 != 0 && !is_credential
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    #[test]
    fn a_secret_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let told = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            read(&path).map(|text| text.len()).map_err(|problem| problem.to_string())
        };
        for (length, expected) in [
            (0, Ok(0)),
            (1_704, Ok(1_704)),
            (16_384, Ok(16_384)),
            (16_385, Err("holds more than 16384 bytes".to_owned())),
            (100_000, Err("holds more than 16384 bytes".to_owned())),
        ] {
            assert_eq!(told(&vec![b'a'; length]), expected, "{length} bytes");
        }
        assert_eq!(told(&[0xff]), Err("cannot be read: it is not text".to_owned()));
    }

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
