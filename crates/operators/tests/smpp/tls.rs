use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use ringtrue_operators::smpp::{SmppConfig, Tls};
use ringtrue_smpp::pdu::CommandStatus;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use crate::{
    World,
    centre::{Centre, admit, sms},
};

fn certificate() -> (CertificateDer<'static>, TlsAcceptor) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["smsc.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![cert.der().clone()], key).unwrap();
    (cert.der().clone(), TlsAcceptor::from(Arc::new(server)))
}

fn trusting(certificate: CertificateDer<'static>, name: &'static str) -> Tls {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Tls { config: Arc::new(config), server_name: name.try_into().unwrap() }
}

#[tokio::test(start_paused = true)]
async fn messages_come_over_tls() {
    let world = World::new();
    let centre = Centre::start().await;
    let (certificate, acceptor) = certificate();
    let tls = Some(trusting(certificate, "smsc.test"));
    let connector = world.start(SmppConfig { tls, ..World::config(centre.port()) });
    let bound = admit(acceptor.accept(centre.connection().await).await.unwrap()).await;
    assert_eq!(bound.deliver(sms("VERIFY 4F7K2Q")).await, CommandStatus::OK);
    assert_eq!(world.inbox.texts(), ["VERIFY 4F7K2Q"]);
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_not_trusted_or_not_theirs_is_refused() {
    let (trusted, acceptor) = certificate();
    let (other, _) = certificate();
    for tls in [trusting(trusted, "other.test"), trusting(other, "smsc.test")] {
        let world = World::new();
        let centre = Centre::start().await;
        let connector = world.start(SmppConfig { tls: Some(tls), ..World::config(centre.port()) });
        assert!(acceptor.accept(centre.connection().await).await.is_err());
        let status = connector.wait_until(|status| status.last_error.is_some()).await;
        assert!(status.last_error.unwrap().what.starts_with("no TLS"));
    }
}
