//! Origins of a project's own apps and sites, as phones' wallets name them.

use crate::web_url::{UrlError, UrlPolicy, WebOrigin};

/// Prefix of an Android app's origin. The SHA-256 digest of the certificate that signs the app follows, as base64url.
const ANDROID_PREFIX: &str = "android:apk-key-hash:";
/// Length of a SHA-256 digest in base64url without padding.
const DIGEST_CHARS: usize = 43;

/// Origin at which a phone's wallet may be asked for an operator token: of a website, or of an Android app.
///
/// A wallet states in its answer who asked. Answers that somebody else asked for are refused, because a fraudulent site
/// could otherwise pass on a request and verify its visitors' numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppOrigin(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAppOrigin {
    #[error(
        "`{ANDROID_PREFIX}` is followed by the SHA-256 digest of the app's signing certificate: 43 characters of base64url"
    )]
    AndroidDigest,
    #[error(transparent)]
    Web(#[from] UrlError),
}

impl AppOrigin {
    /// Maximum number of origins in a project.
    pub const MAX_ORIGINS: usize = 20;

    pub fn parse(text: &str, policy: &UrlPolicy) -> Result<Self, InvalidAppOrigin> {
        match Self::parse_android(text) {
            Some(parsed) => parsed,
            None => Ok(AppOrigin(WebOrigin::parse(text, policy)?.as_str().to_owned())),
        }
    }

    /// Parses a stored origin without applying the policy, which may have changed since.
    pub fn from_stored(text: &str) -> Result<Self, InvalidAppOrigin> {
        match Self::parse_android(text) {
            Some(parsed) => parsed,
            None => Ok(AppOrigin(WebOrigin::from_stored(text)?.as_str().to_owned())),
        }
    }

    /// Returns `None` if the text is not the origin of an Android app.
    fn parse_android(text: &str) -> Option<Result<Self, InvalidAppOrigin>> {
        let digest = text.strip_prefix(ANDROID_PREFIX)?;
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_valid = digest.len() == DIGEST_CHARS && digest.bytes().all(is_base64url);
        Some(if is_valid { Ok(AppOrigin(text.to_owned())) } else { Err(InvalidAppOrigin::AndroidDigest) })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_of_sites_and_android_apps_are_accepted() {
        let digest = "t0uHBVLpzRPqDJqYFSZ6IYxOPzWvPrsOKYO0hvFT_wk";
        let android = format!("{ANDROID_PREFIX}{digest}");
        for (text, expected) in [
            ("https://app.example", Some("https://app.example")),
            ("https://app.example/", Some("https://app.example")),
            (android.as_str(), Some(android.as_str())),
            ("https://app.example/path", None),
            ("http://app.example", None),
            ("android:apk-key-hash:short", None),
            (&format!("{android}="), None),
            ("ios:app", None),
            ("", None),
        ] {
            let parsed = AppOrigin::parse(text, &UrlPolicy::default());
            assert_eq!(parsed.as_ref().ok().map(AppOrigin::as_str), expected, "{text}");
            if let Ok(origin) = parsed {
                assert_eq!(AppOrigin::from_stored(origin.as_str()), Ok(origin));
            }
        }
    }
}
