//! URLs that may be opened without leaking secrets: plain HTTP on this machine, or HTTPS.

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct SecureUrl(Url);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum InvalidSecureUrl {
    #[error("expected a URL such as http://127.0.0.1:8080/path")]
    Malformed,
    #[error("plain HTTP is allowed for this machine only, such as http://127.0.0.1:8080; use https:// for other hosts")]
    RemotePlainHttp,
    #[error("expected plain HTTP on this machine, such as http://127.0.0.1:3000/callbacks")]
    NotLocal,
    #[error("the URL must not contain a user name or password")]
    UserInfo,
}

/// Plain or TLS connection.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl FromStr for SecureUrl {
    type Err = InvalidSecureUrl;

    fn from_str(text: &str) -> Result<Self, InvalidSecureUrl> {
        let url: Url = text.parse().map_err(|_| InvalidSecureUrl::Malformed)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidSecureUrl::UserInfo);
        }
        match url.scheme() {
            "https" => Ok(SecureUrl(url)),
            "http" if is_local(&url) => Ok(SecureUrl(url)),
            "http" => Err(InvalidSecureUrl::RemotePlainHttp),
            _ => Err(InvalidSecureUrl::Malformed),
        }
    }
}

impl SecureUrl {
    /// Accepts plain HTTP on this machine only.
    pub(in crate::cli) fn parse_local(text: &str) -> Result<Self, InvalidSecureUrl> {
        match text.parse::<SecureUrl>() {
            Ok(parsed) if parsed.0.scheme() == "http" => Ok(parsed),
            Ok(_) | Err(InvalidSecureUrl::RemotePlainHttp) => Err(InvalidSecureUrl::NotLocal),
            Err(other) => Err(other),
        }
    }

    /// Value of the `host` header, with the port unless it is the default one.
    pub(super) fn host_header(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    pub(super) fn request_target(&self) -> String {
        let path = self.0.path();
        self.0.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
    }

    pub(super) fn has_path(&self) -> bool {
        self.request_target() != "/"
    }

    pub(super) async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let port = self.0.port_or_known_default().unwrap_or(80);
        let stream = match self.0.host() {
            Some(Host::Ipv4(ip)) => TcpStream::connect((ip, port)).await?,
            Some(Host::Ipv6(ip)) => TcpStream::connect((ip, port)).await?,
            // Not resolved: a resolver could return a remote address.
            Some(Host::Domain("localhost")) => {
                let ips = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
                TcpStream::connect(&ips.map(|ip| SocketAddr::new(ip, port))[..]).await?
            }
            Some(Host::Domain(name)) => TcpStream::connect((name, port)).await?,
            None => return Err(io::ErrorKind::InvalidInput.into()),
        };
        if self.0.scheme() == "http" { Ok(Box::new(stream)) } else { self.connect_tls(stream).await }
    }

    async fn connect_tls(&self, stream: TcpStream) -> io::Result<Box<dyn Connection>> {
        let host = self.0.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(system_roots())
            .with_no_client_auth();
        Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }
}

fn system_roots() -> RootCertStore {
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

impl fmt::Display for SecureUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_rejected_for_remote_hosts() {
        for (text, expected) in [
            ("http://127.0.0.1:8080/a", Ok(())),
            ("http://localhost", Ok(())),
            ("http://[::1]:1/", Ok(())),
            ("https://eu.api.example.com/.well-known/jwks.json", Ok(())),
            ("http://example.com", Err(InvalidSecureUrl::RemotePlainHttp)),
            ("http://10.0.0.1", Err(InvalidSecureUrl::RemotePlainHttp)),
            ("http://localhost.example.com", Err(InvalidSecureUrl::RemotePlainHttp)),
            ("http://u:p@127.0.0.1", Err(InvalidSecureUrl::UserInfo)),
            ("file:///etc/passwd", Err(InvalidSecureUrl::Malformed)),
            ("127.0.0.1:8080", Err(InvalidSecureUrl::Malformed)),
        ] {
            assert_eq!(text.parse::<SecureUrl>().map(drop), expected, "{text}");
        }
        assert_eq!(SecureUrl::parse_local("https://127.0.0.1/"), Err(InvalidSecureUrl::NotLocal));
        assert_eq!(SecureUrl::parse_local("http://example.com/"), Err(InvalidSecureUrl::NotLocal));
    }

    #[test]
    fn host_header_and_request_target_are_derived() {
        for (text, host, target) in [
            ("http://127.0.0.1:3000/a?b=c", "127.0.0.1:3000", "/a?b=c"),
            ("http://localhost", "localhost", "/"),
            ("http://[::1]:80", "[::1]", "/"),
            ("https://example.com:8443/x/", "example.com:8443", "/x/"),
        ] {
            let parsed: SecureUrl = text.parse().unwrap();
            assert_eq!((parsed.host_header().as_str(), parsed.request_target().as_str()), (host, target));
        }
    }
}
