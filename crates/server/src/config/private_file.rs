//! Secret files, which must be readable by their owner only.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use zeroize::Zeroizing;

#[derive(Debug, thiserror::Error)]
pub(super) enum SecretFileError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("is readable by users other than its owner (mode {mode:04o})")]
    Exposed { mode: u32 },
    #[error("is longer than {MAX_SECRET_BYTES} bytes")]
    TooLong,
}

/// The longest secrets are RSA keys: a key of 16,384 bits takes 12,800 bytes of PEM.
pub(super) const MAX_SECRET_BYTES: usize = 16_384;

/// Reads a secret from a file. Rejects files that other users can read.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, SecretFileError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if is_exposed(mode, metadata.uid(), metadata.gid()) {
        return Err(SecretFileError::Exposed { mode });
    }
    // Full capacity: a growing buffer would leave copies of the secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_SECRET_BYTES + 2));
    file.take(MAX_SECRET_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_SECRET_BYTES {
        return Err(SecretFileError::TooLong);
    }
    let text = str::from_utf8(&bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// systemd credentials have mode 0440 and owner root:root: the group bits are the mask of an access control list that
/// grants access to the service user only.
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
    fn secret_length_and_encoding_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read_content = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            read(&path).map(|text| text.len()).map_err(|error| error.to_string())
        };
        for (length, expected) in [
            (0, Ok(0)),
            (1_704, Ok(1_704)),
            (16_384, Ok(16_384)),
            (16_385, Err("is longer than 16384 bytes".to_owned())),
            (100_000, Err("is longer than 16384 bytes".to_owned())),
        ] {
            assert_eq!(read_content(&vec![b'a'; length]), expected, "{length} bytes");
        }
        assert_eq!(read_content(&[0xff]), Err("cannot be read: not UTF-8".to_owned()));
    }

    #[test]
    fn only_private_files_and_systemd_credentials_are_accepted() {
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
