//! What is remembered while a device is away: enough to know its answer, and nobody else's, when it is back.

use aws_lc_rs::digest::{SHA256, digest};
use ringtrue_engine::ports::Entropy;
use zeroize::Zeroizing;

use crate::jwt::base64url;

/// The first octet, so that a later form can be told from this one.
const VERSION: u8 = 1;
const NONCE: usize = 16;
const VERIFIER: usize = 32;

pub struct Memory {
    nonce: [u8; NONCE],
    /// Proves to the operator that who redeems the code is who asked for it (RFC 7636).
    verifier: Zeroizing<[u8; VERIFIER]>,
}

impl Memory {
    pub fn new(entropy: &dyn Entropy) -> Self {
        Memory { nonce: entropy.bytes(), verifier: Zeroizing::new(entropy.bytes()) }
    }

    pub fn nonce(&self) -> String {
        base64url(self.nonce)
    }

    pub fn verifier(&self) -> Zeroizing<String> {
        Zeroizing::new(base64url(*self.verifier))
    }

    pub fn challenge(&self) -> String {
        base64url(digest(&SHA256, self.verifier().as_bytes()))
    }

    pub fn to_octets(&self) -> Vec<u8> {
        [&[VERSION][..], &self.nonce, &*self.verifier].concat()
    }

    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = octets.split_first()? else { return None };
        let (nonce, verifier) = rest.split_first_chunk()?;
        Some(Memory { nonce: *nonce, verifier: Zeroizing::new(verifier.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
        }
    }

    #[test]
    fn what_is_remembered_is_what_was_known() {
        let memory = Memory::new(&Counting);
        let octets = memory.to_octets();
        let back = Memory::from_octets(&octets).unwrap();
        assert_eq!((memory.nonce(), memory.verifier()), (back.nonce(), back.verifier()));
        assert_eq!(memory.verifier().len(), 43);
        let longer = [&*octets, &[0]].concat();
        let other_version = [&[2], &octets[1..]].concat();
        for bad in [&[][..], &[1], &octets[..48], &longer, &other_version] {
            assert!(Memory::from_octets(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn the_challenge_is_that_of_rfc_7636() {
        let verifier = [
            116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212, 37, 77, 105, 214, 191,
            240, 91, 88, 5, 88, 83, 132, 141, 121,
        ];
        let memory = Memory { nonce: [0; NONCE], verifier: Zeroizing::new(verifier) };
        assert_eq!(&*memory.verifier(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(memory.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
