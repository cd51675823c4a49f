use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use ringtrue_operators::smpp::{SmppConfig, SmppTls};
use ringtrue_smpp::pdu::CommandStatus;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use crate::{
    Fixture,
    manual_smsc::{ManualSmsc, accept_bind, sms},
};

fn certificate() -> (CertificateDer<'static>, TlsAcceptor) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["smsc.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![cert.der().clone()], key).unwrap();
    (cert.der().clone(), TlsAcceptor::from(Arc::new(server)))
}

fn tls_trusting(certificate: CertificateDer<'static>, name: &'static str) -> SmppTls {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    SmppTls { config: Arc::new(config), server_name: name.try_into().unwrap() }
}

#[tokio::test(start_paused = true)]
async fn messages_are_received_over_tls() {
    let fixture = Fixture::new();
    let smsc = ManualSmsc::start().await;
    let (certificate, acceptor) = certificate();
    let tls = Some(tls_trusting(certificate, "smsc.test"));
    let connector = fixture.start(SmppConfig { tls, ..Fixture::config(smsc.port()) });
    let bound = accept_bind(acceptor.accept(smsc.connection().await).await.unwrap()).await;
    assert_eq!(bound.deliver(sms("VERIFY 4F7K2Q")).await, CommandStatus::OK);
    assert_eq!(fixture.inbox.texts(), ["VERIFY 4F7K2Q"]);
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn untrusted_or_mismatched_certificate_is_rejected() {
    let (trusted, acceptor) = certificate();
    let (other, _) = certificate();
    for tls in [tls_trusting(trusted, "other.test"), tls_trusting(other, "smsc.test")] {
        let fixture = Fixture::new();
        let smsc = ManualSmsc::start().await;
        let connector = fixture.start(SmppConfig { tls: Some(tls), ..Fixture::config(smsc.port()) });
        assert!(acceptor.accept(smsc.connection().await).await.is_err());
        let status = connector.wait_until(|status| status.last_error.is_some()).await;
        assert!(status.last_error.unwrap().message.starts_with("TLS handshake failed"));
    }
}
