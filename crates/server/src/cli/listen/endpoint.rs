//! Where keys come from, and where callbacks are passed on to.

use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// Plain HTTP on this machine, or HTTPS anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Endpoint(Url);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum NotAnEndpoint {
    #[error("expected a URL such as http://127.0.0.1:8080/path")]
    Form,
    #[error("plain HTTP is for this machine only, such as http://127.0.0.1:8080; use https:// for others")]
    PlainAndRemote,
    #[error("expected plain HTTP on this machine, such as http://127.0.0.1:3000/callbacks")]
    NotLocal,
    #[error("a URL with a user or a password in it is not taken")]
    Login,
}

/// A connection of either kind.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        let url: Url = text.parse().map_err(|_| NotAnEndpoint::Form)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NotAnEndpoint::Login);
        }
        match url.scheme() {
            "https" => Ok(Endpoint(url)),
            "http" if is_local(&url) => Ok(Endpoint(url)),
            "http" => Err(NotAnEndpoint::PlainAndRemote),
            _ => Err(NotAnEndpoint::Form),
        }
    }
}

impl Endpoint {
    /// Takes plain HTTP on this machine only.
    pub(in crate::cli) fn local(text: &str) -> Result<Self, NotAnEndpoint> {
        match text.parse::<Endpoint>() {
            Ok(endpoint) if endpoint.0.scheme() == "http" => Ok(endpoint),
            Ok(_) | Err(NotAnEndpoint::PlainAndRemote) => Err(NotAnEndpoint::NotLocal),
            Err(other) => Err(other),
        }
    }

    /// The `host` header: with its port when that is not the default.
    pub(super) fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Path and query.
    pub(super) fn target(&self) -> String {
        let path = self.0.path();
        self.0.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
    }

    /// Whether it names more than a machine and a port.
    pub(super) fn has_target(&self) -> bool {
        self.target() != "/"
    }

    pub(super) async fn connect(&self) -> io::Result<Box<dyn Duplex>> {
        let port = self.0.port_or_known_default().unwrap_or(80);
        let stream = match self.0.host() {
            Some(Host::Ipv4(ip)) => TcpStream::connect((ip, port)).await?,
            Some(Host::Ipv6(ip)) => TcpStream::connect((ip, port)).await?,
            // Whatever a resolver says of it.
            Some(Host::Domain("localhost")) => {
                let ips = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
                TcpStream::connect(&ips.map(|ip| SocketAddr::new(ip, port))[..]).await?
            }
            Some(Host::Domain(name)) => TcpStream::connect((name, port)).await?,
            None => return Err(io::ErrorKind::InvalidInput.into()),
        };
        if self.0.scheme() == "http" { Ok(Box::new(stream)) } else { self.secure(stream).await }
    }

    async fn secure(&self, stream: TcpStream) -> io::Result<Box<dyn Duplex>> {
        let host = self.0.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots())
            .with_no_client_auth();
        Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }
}

/// The authorities that this machine trusts.
fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_stays_on_this_machine() {
        for (text, expected) in [
            ("http://127.0.0.1:8080/a", Ok(())),
            ("http://localhost", Ok(())),
            ("http://[::1]:1/", Ok(())),
            ("https://eu.api.example.com/.well-known/jwks.json", Ok(())),
            ("http://example.com", Err(NotAnEndpoint::PlainAndRemote)),
            ("http://10.0.0.1", Err(NotAnEndpoint::PlainAndRemote)),
            ("http://localhost.example.com", Err(NotAnEndpoint::PlainAndRemote)),
            ("http://u:p@127.0.0.1", Err(NotAnEndpoint::Login)),
            ("file:///etc/passwd", Err(NotAnEndpoint::Form)),
            ("127.0.0.1:8080", Err(NotAnEndpoint::Form)),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(drop), expected, "{text}");
        }
        assert_eq!(Endpoint::local("https://127.0.0.1/"), Err(NotAnEndpoint::NotLocal));
        assert_eq!(Endpoint::local("http://example.com/"), Err(NotAnEndpoint::NotLocal));
    }

    #[test]
    fn hosts_and_targets() {
        for (text, host, target) in [
            ("http://127.0.0.1:3000/a?b=c", "127.0.0.1:3000", "/a?b=c"),
            ("http://localhost", "localhost", "/"),
            ("http://[::1]:80", "[::1]", "/"),
            ("https://example.com:8443/x/", "example.com:8443", "/x/"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.host().as_str(), endpoint.target().as_str()), (host, target));
        }
    }
}
