//! Metadata of an authorization server (OpenID Connect Discovery, RFC 8414).

use serde::Deserialize;
use url::Url;

use super::error::InvalidResponse;

/// Endpoints of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    pub issuer: String,
    /// Authorization endpoint. Number Verification and sign-in to the console need it; SIM Swap does not.
    pub authorization: Option<Url>,
    pub token: Url,
    /// Backchannel authentication endpoint (CIBA).
    pub backchannel: Option<Url>,
    /// URL of the keys (JWKS) that sign ID tokens.
    pub jwks: Option<Url>,
    /// Whether the server sends `iss` in every authorization response (RFC 9207).
    pub supports_iss_parameter: bool,
}

#[derive(Deserialize)]
struct ProviderMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    backchannel_authentication_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Parses metadata, and checks its issuer if one is given. Metadata fetched over https must not contain http endpoints.
pub(crate) fn parse_metadata(json: &[u8], issuer: Option<&str>, is_https: bool) -> Result<Endpoints, InvalidResponse> {
    let metadata: ProviderMetadata = serde_json::from_slice(json).map_err(|_| InvalidResponse::Body)?;
    let is_allowed = |url: &Url| url.has_host() && (url.scheme() == "https" || url.scheme() == "http" && !is_https);
    let parse_url = |text: &str| Url::parse(text).ok().filter(is_allowed).ok_or(InvalidResponse::Body);
    if issuer.is_some_and(|issuer| issuer != metadata.issuer) {
        return Err(InvalidResponse::IssuerMismatch);
    }
    Ok(Endpoints {
        authorization: Some(parse_url(&metadata.authorization_endpoint)?),
        token: parse_url(&metadata.token_endpoint)?,
        backchannel: metadata.backchannel_authentication_endpoint.as_deref().map(parse_url).transpose()?,
        jwks: Some(parse_url(&metadata.jwks_uri)?),
        issuer: metadata.issuer,
        supports_iss_parameter: metadata.authorization_response_iss_parameter_supported,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_validated() {
        let valid = json!({
            "issuer": "https://op.example",
            "authorization_endpoint": "https://op.example/authorize",
            "token_endpoint": "https://op.example/token",
            "jwks_uri": "https://op.example/keys",
        });
        let parse =
            |json: &serde_json::Value, issuer, is_https| parse_metadata(json.to_string().as_bytes(), issuer, is_https);
        assert!(parse(&valid, None, true).is_ok_and(|endpoints| !endpoints.supports_iss_parameter));
        assert!(parse(&valid, Some("https://op.example"), true).is_ok());
        assert_eq!(parse(&valid, Some("https://op.example/"), true), Err(InvalidResponse::IssuerMismatch));
        for (member, value) in [
            ("issuer", json!(null)),
            ("issuer", json!(1)),
            ("authorization_endpoint", json!("/authorize")),
            ("token_endpoint", json!("ftp://op.example/token")),
            ("jwks_uri", json!("data:,{}")),
            ("jwks_uri", json!(null)),
            ("backchannel_authentication_endpoint", json!("/bc-authorize")),
            ("authorization_response_iss_parameter_supported", json!("yes")),
        ] {
            let mut other = valid.clone();
            other[member] = value;
            assert_eq!(parse(&other, None, false), Err(InvalidResponse::Body), "{other}");
        }
        for member in ["authorization_endpoint", "token_endpoint", "jwks_uri", "backchannel_authentication_endpoint"] {
            let mut other = valid.clone();
            other[member] = json!("http://op.example/");
            assert_eq!(parse(&other, None, true), Err(InvalidResponse::Body), "{other}");
            assert!(parse(&other, None, false).is_ok(), "{other}");
        }
    }
}
