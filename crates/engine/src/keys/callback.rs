//! The key that callbacks are signed with.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    digest,
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::{KeyPair as RsaKeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_SHA256},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::tenancy::Mode;
use zeroize::Zeroizing;

use super::PublicKey;

/// Signs callbacks with RSA and SHA-256. Parsed once, cheap to clone.
///
/// A signature takes about 0.4 ms: it belongs on a thread that may block.
#[derive(Clone)]
pub struct CallbackSigner(Arc<Key>);

struct Key {
    pair: RsaKeyPair,
    public: PublicKey,
}

impl CallbackSigner {
    /// The key of live checks. `None`: not an RSA key in PKCS#8.
    pub fn from_pkcs8(der: &[u8]) -> Option<Self> {
        Self::for_mode(Mode::Live, der)
    }

    /// The key that signs for checks of this mode. `None`: not an RSA key in PKCS#8.
    pub fn for_mode(mode: Mode, der: &[u8]) -> Option<Self> {
        let pair = RsaKeyPair::from_pkcs8(der).ok()?;
        let public = public_half(&pair, mode);
        Some(CallbackSigner(Arc::new(Key { pair, public })))
    }

    /// A new key, in the form that [`CallbackSigner::from_pkcs8`] takes.
    ///
    /// # Panics
    /// Without randomness.
    #[expect(clippy::expect_used, reason = "generation fails only without randomness: nothing may go on")]
    pub fn generate() -> Zeroizing<Vec<u8>> {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("an RSA key is made");
        let der: Pkcs8V1Der<'_> = pair.as_der().expect("an RSA key has a PKCS#8 form");
        Zeroizing::new(der.as_ref().to_vec())
    }

    pub fn public(&self) -> &PublicKey {
        &self.0.public
    }

    /// PKCS#1 v1.5 over SHA-256.
    ///
    /// # Panics
    /// Without memory.
    #[expect(clippy::expect_used, reason = "a parsed key signs; the library fails only without memory")]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.0.pair.public_modulus_len()];
        self.0.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).expect("an RSA key signs");
        signature
    }
}

impl fmt::Debug for CallbackSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallbackSigner({})", self.0.public.kid)
    }
}

fn public_half(pair: &RsaKeyPair, mode: Mode) -> PublicKey {
    let public = pair.public_key();
    let n = BASE64_URL_SAFE_NO_PAD.encode(public.modulus().big_endian_without_leading_zero());
    let e = BASE64_URL_SAFE_NO_PAD.encode(public.exponent().big_endian_without_leading_zero());
    // RFC 7638: the required members in the order of their names, with no white space.
    let canonical = format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#);
    let kid = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
    PublicKey { kid, mode, n, e }
}
