//! Nonce and PKCE code verifier of an authorization request (RFC 7636).

use aws_lc_rs::digest::{SHA256, digest};
use ringtrue_engine::ports::Entropy;
use zeroize::Zeroizing;

use crate::jwt::encode_base64url;

/// First octet; distinguishes future formats.
const VERSION: u8 = 1;
const NONCE_BYTES: usize = 16;
const VERIFIER_BYTES: usize = 32;

pub struct PkceState {
    nonce: [u8; NONCE_BYTES],
    code_verifier: Zeroizing<[u8; VERIFIER_BYTES]>,
}

impl PkceState {
    pub fn new(entropy: &dyn Entropy) -> Self {
        PkceState { nonce: entropy.bytes(), code_verifier: Zeroizing::new(entropy.bytes()) }
    }

    pub fn nonce(&self) -> String {
        encode_base64url(self.nonce)
    }

    pub fn code_verifier(&self) -> Zeroizing<String> {
        Zeroizing::new(encode_base64url(*self.code_verifier))
    }

    pub fn code_challenge(&self) -> String {
        encode_base64url(digest(&SHA256, self.code_verifier().as_bytes()))
    }

    pub fn to_octets(&self) -> Vec<u8> {
        [&[VERSION][..], &self.nonce, &*self.code_verifier].concat()
    }

    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = octets.split_first()? else { return None };
        let (nonce, code_verifier) = rest.split_first_chunk()?;
        Some(PkceState { nonce: *nonce, code_verifier: Zeroizing::new(code_verifier.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CountingEntropy;

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
        }
    }

    #[test]
    fn encoding_round_trips() {
        let pkce = PkceState::new(&CountingEntropy);
        let octets = pkce.to_octets();
        let decoded = PkceState::from_octets(&octets).unwrap();
        assert_eq!((pkce.nonce(), pkce.code_verifier()), (decoded.nonce(), decoded.code_verifier()));
        assert_eq!(pkce.code_verifier().len(), 43);
        let longer = [&*octets, &[0]].concat();
        let other_version = [&[2], &octets[1..]].concat();
        for bad in [&[][..], &[1], &octets[..48], &longer, &other_version] {
            assert!(PkceState::from_octets(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn code_challenge_matches_rfc_7636() {
        let code_verifier = [
            116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212, 37, 77, 105, 214, 191,
            240, 91, 88, 5, 88, 83, 132, 141, 121,
        ];
        let pkce = PkceState { nonce: [0; NONCE_BYTES], code_verifier: Zeroizing::new(code_verifier) };
        assert_eq!(&*pkce.code_verifier(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(pkce.code_challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
