//! The authorization code flow: request URL, response, and PKCE (RFC 6749, RFC 7636, RFC 9207).

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ringtrue_engine::ports::entropy::Entropy;
use url::{Position, Url, form_urlencoded::Serializer};
use zeroize::Zeroizing;

use super::{
    error::{InvalidResponse, OAuthCause, OAuthError, Stage, find_error_name},
    metadata::Endpoints,
};

/// Maximum length of an authorization code.
const MAX_CODE_BYTES: usize = 4 * 1_024;

/// Validates the authorization response and returns the code.
pub(crate) fn parse_authorization_response<'a>(
    query: &'a [(String, String)],
    endpoints: &Endpoints,
) -> Result<&'a str, OAuthError> {
    let invalid_response = |reason| OAuthError::invalid_response(Stage::Redirect, reason);
    let single_value = |parameter: &str| {
        let mut found = query.iter().filter(|(name, _)| name == parameter).map(|(_, value)| value.as_str());
        let first = found.next();
        if found.next().is_some() { Err(invalid_response(InvalidResponse::RepeatedParameter)) } else { Ok(first) }
    };
    // The issuer of error responses is checked too: they must come from this server.
    match single_value("iss")? {
        Some(issuer) if issuer != endpoints.issuer => {
            return Err(invalid_response(InvalidResponse::ResponseIssuerMismatch));
        }
        None if endpoints.supports_iss_parameter => {
            return Err(invalid_response(InvalidResponse::ResponseIssuerMismatch));
        }
        _ => {}
    }
    if let Some(error) = single_value("error")? {
        return Err(match find_error_name(error) {
            Some(error) => OAuthError::new(Stage::Redirect, OAuthCause::Denied(error)),
            None => invalid_response(InvalidResponse::UnknownError),
        });
    }
    let is_valid_code = |code: &&str| {
        (1..=MAX_CODE_BYTES).contains(&code.len()) && code.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    single_value("code")?.filter(is_valid_code).ok_or(invalid_response(InvalidResponse::NoCode))
}

/// Appends parameters to the URL of an endpoint. Encodes spaces as `%20`, because not every server decodes a plus.
pub(crate) fn append_query(endpoint: &Url, parameters: &[(&str, String)]) -> String {
    let own = &endpoint[Position::BeforeQuery..Position::AfterQuery];
    let mut query = Serializer::for_suffix(own.to_owned(), 0);
    let query = query.extend_pairs(parameters).finish().replace('+', "%20");
    format!("{}?{query}", &endpoint[..Position::AfterPath])
}

/// First octet of a stored [`PkceState`]; distinguishes future formats.
const PKCE_STATE_VERSION: u8 = 1;
const NONCE_BYTES: usize = 16;
const VERIFIER_BYTES: usize = 32;

/// Nonce and PKCE code verifier of an authorization request.
pub(crate) struct PkceState {
    nonce: [u8; NONCE_BYTES],
    code_verifier: Zeroizing<[u8; VERIFIER_BYTES]>,
}

impl PkceState {
    pub fn new(entropy: &dyn Entropy) -> Self {
        PkceState { nonce: entropy.bytes(), code_verifier: Zeroizing::new(entropy.bytes()) }
    }

    pub fn nonce(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.nonce)
    }

    pub fn code_verifier(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(*self.code_verifier))
    }

    pub fn code_challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, self.code_verifier().as_bytes()))
    }

    pub fn to_octets(&self) -> Vec<u8> {
        [&[PKCE_STATE_VERSION][..], &self.nonce, &*self.code_verifier].concat()
    }

    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let (&PKCE_STATE_VERSION, rest) = octets.split_first()? else { return None };
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
