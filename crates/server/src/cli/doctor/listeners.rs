//! Checks certificates and listen addresses. An address is free, used by a running Ringtrue server, or used by another
//! program.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use ringtrue_client::is_ringtrue;
use ringtrue_domain::timestamp;
use ringtrue_operators::camara::WalletRequestSigner;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::Url;

use super::{Finding, failed, passed, skipped, warning};
use crate::{
    config::{Config, Connector, TlsFiles},
    leaf_certificate::{read_leaf, validity},
    listener::Tls,
};

const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Header that every response of a Ringtrue server has, by which the probe recognises it.
const SERVER_HEADER: &str = "x-api-version";
const MAX_RESPONSE_HEAD_BYTES: u64 = 8 * 1_024;

struct Listener<'a> {
    check: &'static str,
    address: SocketAddr,
    tls: Option<&'a TlsFiles>,
    proxy_protocol: bool,
}

pub(super) fn check_certificates(config: &Config, now: Timestamp) -> Vec<Finding> {
    let name = config.base_url.as_ref().and_then(|url| Url::parse(url.as_str()).ok());
    let name = name.and_then(|url| ServerName::try_from(url.host_str()?.to_owned()).ok());
    let public = match &config.http.tls {
        None => skipped("TLS", "not configured: plain HTTP, for use behind a TLS proxy"),
        Some(files) => check_certificate("TLS", files, name.as_ref(), now),
    };
    let ingress = config.ingress.as_ref().and_then(|ingress| ingress.tls.as_ref());
    let ingress = ingress.map(|files| check_certificate("ingress TLS", files, None, now));
    let operator_tokens = config.connectors.iter().filter_map(|section| match &section.connector {
        Connector::Camara(camara) => Some((section.name(), camara.config.operator_tokens.as_ref()?)),
        _ => None,
    });
    let operator_tokens = operator_tokens.map(|(name, tokens)| check_request_signer(name, &tokens.signer, now));
    [public].into_iter().chain(ingress).chain(operator_tokens).collect()
}

/// Checks the validity of the certificates that sign a connector's requests to phones. Loading the configuration has
/// compared them with their keys.
fn check_request_signer(connector: &str, signer: &WalletRequestSigner, now: Timestamp) -> Finding {
    const HINT: &str = "Replace it: phones may reject our requests. A new root must be registered by the operator.";
    let check = format!("operator tokens of {connector}");
    let validities = signer.certificates().iter().filter_map(validity);
    let Some((from, until)) = validities.reduce(|one, other| (one.0.max(other.0), one.1.min(other.1))) else {
        return failed(check, "a certificate is malformed", HINT);
    };
    let key = format!("connectors.{connector}.operator_tokens_certificate_file");
    match days_until_expiry(&key, (from, until), now) {
        Ok(days) => passed(check, format!("{key} is valid for {days} days")),
        Err(detail) => warning(check, detail, HINT),
    }
}

/// Returns the number of days for which a certificate is still valid, or why it is not valid.
fn days_until_expiry(certificate: &str, (from, until): (Timestamp, Timestamp), now: Timestamp) -> Result<i64, String> {
    if now >= until {
        return Err(format!("{certificate} expired at {}", timestamp::format(until)));
    }
    if now < from {
        return Err(format!("{certificate} is not valid before {}", timestamp::format(from)));
    }
    Ok((until.as_second() - now.as_second()) / 86_400)
}

/// Checks a certificate and its key. `name` is the host name for which the certificate must be valid.
fn check_certificate(check: &'static str, files: &TlsFiles, name: Option<&ServerName<'_>>, now: Timestamp) -> Finding {
    const FILES_HINT: &str =
        "Set `certificate` to the chain (PEM, leaf first) and `key` to its private key (PEM), and check both files.";
    const RENEW_HINT: &str = "Renew the certificate, and send SIGHUP to running servers.";
    if let Err(error) = Tls::load(&files.certificate, &files.key) {
        return failed(check, error.to_string(), FILES_HINT);
    }
    let path = files.certificate.display();
    let Some((leaf, from, until)) = read_leaf(&files.certificate).and_then(|leaf| {
        let (from, until) = validity(&leaf)?;
        Some((leaf, from, until))
    }) else {
        return failed(check, format!("{path} contains a malformed certificate"), FILES_HINT);
    };
    let days = match days_until_expiry(&path.to_string(), (from, until), now) {
        Ok(days) => days,
        Err(detail) if now < from => return failed(check, detail, "Check this machine's clock, or wait."),
        Err(detail) => return failed(check, detail, RENEW_HINT),
    };
    let is_valid_for = |name: &&ServerName<'_>| {
        ParsedCertificate::try_from(&leaf).and_then(|leaf| verify_server_name(&leaf, name)).is_ok()
    };
    if let Some(name) = name.filter(|name| !is_valid_for(name)) {
        let hint = "Clients reject it: use a certificate for `base_url`'s host, or correct `base_url`.";
        return failed(check, format!("{path} is not valid for {}", name.to_str()), hint);
    }
    if let Some(mode) = fs::metadata(&files.key).ok().map(|metadata| metadata.permissions().mode() & 0o7777)
        && mode & 0o007 != 0
    {
        let key = files.key.display();
        let detail = format!("every user of this machine can open {key} (mode {mode:04o})");
        return failed(check, detail, format!("Run `chmod o= {key}`, and consider replacing the key."));
    }
    passed(check, format!("{path} matches its private key, and is valid for {days} days"))
}

pub(super) async fn check_listeners(config: &Config) -> Vec<Finding> {
    let plain = |check, address| Listener { check, address, tls: None, proxy_protocol: false };
    let http = Listener {
        tls: config.http.tls.as_ref(),
        proxy_protocol: config.http.proxy_protocol,
        ..plain("http.listen", config.http.listen)
    };
    let ingress = config.ingress.as_ref().map(|ingress| Listener {
        tls: ingress.tls.as_ref(),
        proxy_protocol: ingress.proxy_protocol,
        ..plain("ingress.listen", ingress.listen)
    });
    let enrichment = config.header_enrichment.as_ref();
    let enrichment = enrichment.map(|enrichment| plain("header_enrichment.listen", enrichment.listen));
    let metrics = config.metrics.listen.map(|listen| plain("metrics.listen", listen));
    let mut findings = vec![];
    for listener in [Some(http), ingress, enrichment, metrics].into_iter().flatten() {
        findings.push(check_listener(&listener).await);
    }
    findings
}

async fn check_listener(listener: &Listener<'_>) -> Finding {
    let Listener { check, address, .. } = *listener;
    let Err(error) = TcpListener::bind(address) else {
        return passed(check, format!("{address} is free"));
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => check_program_at_address(listener).await,
        io::ErrorKind::PermissionDenied => failed(
            check,
            format!("{address}: {error}"),
            "Ports below 1024 require CAP_NET_BIND_SERVICE; grant it, or use a higher port.",
        ),
        _ => failed(check, format!("{address}: {error}"), "Use one of this machine's addresses."),
    }
}

/// Checks whether the program that uses the address is a Ringtrue server with the configured certificate.
async fn check_program_at_address(&Listener { check, address, tls, proxy_protocol }: &Listener<'_>) -> Finding {
    let other = || failed(check, format!("{address} is in use by another program"), "Stop it, or use another address.");
    let running = format!("Ringtrue is already listening on {address}");
    if proxy_protocol {
        return skipped(check, format!("{address} is in use; not probed, because it expects the PROXY protocol"));
    }
    let Some(files) = tls else {
        return if is_ringtrue(address).await { passed(check, running) } else { other() };
    };
    match timeout(PROBE_TIMEOUT, probe_tls(address)).await {
        Ok(Ok(leaf)) if leaf.is_some() && leaf == read_leaf(&files.certificate) => {
            passed(check, format!("{running}, with the certificate of the file"))
        }
        Ok(Ok(_)) => failed(
            check,
            format!("{running}, with another certificate than {}", files.certificate.display()),
            "Send SIGHUP to the server: it then uses the new certificate.",
        ),
        Ok(Err(_)) | Err(_) => other(),
    }
}

/// Returns the certificate of the server at the address. Fails if the server is not Ringtrue.
async fn probe_tls(address: SocketAddr) -> io::Result<Option<CertificateDer<'static>>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(address.ip().into(), stream).await?;
    let leaf =
        stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(|leaf| leaf.clone().into_owned());
    let request = format!("GET /livez HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = vec![];
    // The error is ignored: a server may close the connection without a TLS close_notify after a complete response.
    let _ = stream.take(MAX_RESPONSE_HEAD_BYTES).read_to_end(&mut head).await;
    if String::from_utf8_lossy(&head).to_ascii_lowercase().contains(SERVER_HEADER) {
        Ok(leaf)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Certificate verifier that accepts every certificate. The probe sends nothing confidential, and compares the
/// certificate with the file afterwards.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn address_in_use_by_another_program_is_reported() {
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = other.local_addr().unwrap();
        let respond = async {
            let (mut stream, _) = other.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        };
        let listener = Listener { check: "http.listen", address: taken, tls: None, proxy_protocol: false };
        let (finding, ()) = tokio::join!(check_listener(&listener), respond);
        let expected = format!("{taken} is in use by another program");
        assert_eq!(finding, failed("http.listen", expected, "Stop it, or use another address."));
    }

    #[test]
    fn certificates_outside_their_validity_and_for_other_names_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles { certificate: folder.path().join("chain.pem"), key: folder.path().join("key.pem") };
        let mut parameters = rcgen::CertificateParams::new(["eu.api.example.com".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 2, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(&files.certificate, parameters.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        let path = files.certificate.display().to_string();

        let name = ServerName::try_from("eu.api.example.com").unwrap();
        let other = ServerName::try_from("us.api.example.com").unwrap();
        let run = |name, at: &str| check_certificate("TLS", &files, Some(name), at.parse().unwrap()).verdict;
        for (name, at, expected) in [
            (&name, "2026-02-01T00:00:00Z", format!("{path} expired at 2026-02-01T00:00:00.000Z")),
            (&name, "2025-12-31T23:59:59Z", format!("{path} is not valid before 2026-01-01T00:00:00.000Z")),
            (&other, "2026-01-15T00:00:00Z", format!("{path} is not valid for us.api.example.com")),
        ] {
            assert!(
                matches!(run(name, at), super::super::Verdict::Failed { detail, .. } if detail == expected),
                "{at}"
            );
        }
        let valid = format!("{path} matches its private key, and is valid for 17 days");
        assert_eq!(run(&name, "2026-01-15T00:00:00Z"), super::super::Verdict::Passed(valid));
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
        let exposed = run(&name, "2026-01-15T00:00:00Z");
        assert!(matches!(exposed, super::super::Verdict::Failed { detail, .. } if detail.contains("mode 0644")));
    }

    #[test]
    fn expired_certificates_of_requests_are_warnings() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = |years: [i32; 2], is_ca| {
            let mut params = rcgen::CertificateParams::default();
            [params.not_before, params.not_after] = years.map(|year| rcgen::date_time_ymd(year, 1, 1));
            params.is_ca = is_ca;
            params
        };
        let root = certificate([2020, 2030], rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
        let leaf = certificate([2026, 2040], rcgen::IsCa::NoCa);
        let leaf = leaf.signed_by(&key, &rcgen::Issuer::from_params(&root, &key)).unwrap();
        let pem = leaf.pem() + &root.self_signed(&key).unwrap().pem();
        let signer = WalletRequestSigner::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        let run = |at: &str| check_request_signer("three", &signer, at.parse().unwrap()).verdict;
        let setting = "connectors.three.operator_tokens_certificate_file";
        for (at, expected) in [
            ("2025-12-31T23:59:59Z", format!("{setting} is not valid before 2026-01-01T00:00:00.000Z")),
            ("2030-01-01T00:00:00Z", format!("{setting} expired at 2030-01-01T00:00:00.000Z")),
        ] {
            assert!(matches!(run(at), super::super::Verdict::Warning { detail, .. } if detail == expected), "{at}");
        }
        let valid = format!("{setting} is valid for 1 days");
        assert_eq!(run("2029-12-31T00:00:00Z"), super::super::Verdict::Passed(valid));
    }
}
