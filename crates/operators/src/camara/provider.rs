//! The operator's authorisation server, as it describes itself (OpenID Connect Discovery).

use std::sync::Arc;

use serde::Deserialize;
use url::Url;

use super::{
    asking::{Asking, Document},
    config::{Endpoints, Provider},
    faults::{Fault, Nonsense, Stage},
};

/// Where the endpoints are known from.
pub enum Server {
    Known(Arc<Endpoints>),
    Described(Box<Description>),
}

pub struct Description {
    url: Url,
    document: Document<Endpoints>,
}

impl Server {
    /// `None`: nothing can be asked there.
    pub fn new(provider: &Provider) -> Option<Self> {
        let (url, issuer) = match provider {
            Provider::Endpoints(endpoints) => return Some(Server::Known(Arc::new(Endpoints::clone(endpoints)))),
            Provider::Discovery { url, issuer } => (url.clone(), issuer.clone()),
            Provider::Issuer(issuer) => {
                let well_known = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
                (Url::parse(&well_known).ok()?, Some(issuer.clone()))
            }
        };
        let is_safe = url.scheme() == "https";
        let parse = move |json: &[u8]| parse(json, issuer.as_deref(), is_safe);
        let document = Document::new(Stage::Discovery, parse);
        Some(Server::Described(Box::new(Description { url, document })))
    }

    pub async fn endpoints(&self, asking: &Asking) -> Result<Arc<Endpoints>, Fault> {
        match self {
            Server::Known(endpoints) => Ok(Arc::clone(endpoints)),
            Server::Described(description) => description.document.get(asking, &description.url).await,
        }
    }
}

#[derive(Deserialize)]
struct Described {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    backchannel_authentication_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// A server that was found safely leads to nowhere unsafe.
fn parse(json: &[u8], issuer: Option<&str>, is_safe: bool) -> Result<Endpoints, Nonsense> {
    let described: Described = serde_json::from_slice(json).map_err(|_| Nonsense::Body)?;
    let may_be_opened = |url: &Url| url.has_host() && (url.scheme() == "https" || url.scheme() == "http" && !is_safe);
    let open = |text: &str| Url::parse(text).ok().filter(may_be_opened).ok_or(Nonsense::Body);
    if issuer.is_some_and(|issuer| issuer != described.issuer) {
        return Err(Nonsense::OtherIssuer);
    }
    Ok(Endpoints {
        authorization: Some(open(&described.authorization_endpoint)?),
        token: open(&described.token_endpoint)?,
        backchannel: described.backchannel_authentication_endpoint.as_deref().map(open).transpose()?,
        keys: Some(open(&described.jwks_uri)?),
        issuer: described.issuer,
        names_itself: described.authorization_response_iss_parameter_supported,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_is_whole_and_safe() {
        let whole = json!({
            "issuer": "https://op.example",
            "authorization_endpoint": "https://op.example/authorize",
            "token_endpoint": "https://op.example/token",
            "jwks_uri": "https://op.example/keys",
        });
        let read = |json: &serde_json::Value, issuer, is_safe| parse(json.to_string().as_bytes(), issuer, is_safe);
        assert!(read(&whole, None, true).is_ok_and(|endpoints| !endpoints.names_itself));
        assert!(read(&whole, Some("https://op.example"), true).is_ok());
        assert_eq!(read(&whole, Some("https://op.example/"), true), Err(Nonsense::OtherIssuer));
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
            let mut other = whole.clone();
            other[member] = value;
            assert_eq!(read(&other, None, false), Err(Nonsense::Body), "{other}");
        }
        for member in ["authorization_endpoint", "token_endpoint", "jwks_uri", "backchannel_authentication_endpoint"] {
            let mut other = whole.clone();
            other[member] = json!("http://op.example/");
            assert_eq!(read(&other, None, true), Err(Nonsense::Body), "{other}");
            assert!(read(&other, None, false).is_ok(), "{other}");
        }
    }
}
