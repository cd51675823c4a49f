use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use ringtrue_operators::smpp::{BindDirection, InterfaceVersion, SmppConfig, SmppTls};
use ringtrue_sandbox::smsc::{DeliveryOutcome, FaultScript};
use ringtrue_smpp::pdu::{BindMode, CommandStatus, VERSION_3_4, VERSION_5_0};
use tokio::{io::AsyncReadExt, time::advance};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use crate::{
    Fixture, SECOND, Sandbox,
    peers::{ManualSmsc, accept_bind, sms},
    start_with_manual_smsc,
};

#[tokio::test(start_paused = true)]
async fn bind_request_carries_the_configuration() {
    for (direction, mode, interface_version, version) in [
        (BindDirection::Receiver, BindMode::Receiver, InterfaceVersion::V3_4, VERSION_3_4),
        (BindDirection::Transceiver, BindMode::Transceiver, InterfaceVersion::V5_0, VERSION_5_0),
    ] {
        let fixture = Fixture::new();
        let smsc = ManualSmsc::start().await;
        let mut config = SmppConfig { bind: direction, interface_version, ..Fixture::config(smsc.port()) };
        config.system_type = "VMA".to_owned();
        (config.address_range.ton, config.address_range.npi) = (1, 1);
        config.address_range.pattern = "^4477".to_owned();
        let _connector = fixture.start(config);
        let (bound_as, bind) = smsc.bind().await.bind_request;
        assert_eq!((bound_as, bind.interface_version), (mode, version));
        assert_eq!((&*bind.system_id, &*bind.password, &*bind.system_type), ("sandbox", "sandbox", "VMA"));
        assert_eq!((bind.addr_ton.0, bind.addr_npi.0, &*bind.address_range), (1, 1, "^4477"));
    }
}

#[tokio::test(start_paused = true)]
async fn lost_link_is_reconnected_and_unacknowledged_sms_is_resent() {
    let sandbox = Sandbox::start().await;
    let delivery = sandbox.send("hello", FaultScript::new().dropping_connections(2));
    for failures in 1..=2 {
        sandbox.smsc.observer().wait_until(|counts| counts.failed_attempts == failures && counts.binds == 0).await;
        sandbox.connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
        advance(2 * SECOND).await;
    }
    assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    // The connector delivers duplicates: deduplication is the task of the store.
    assert_eq!(sandbox.fixture.inbox.texts(), ["hello"; 3]);
    assert_eq!((sandbox.connector.status().binds_up, sandbox.smsc.observer().sent_sms()[0].attempts), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn delays_grow_until_a_link_was_stable() {
    let (_fixture, smsc, connector) = start_with_manual_smsc(|config| config).await;
    for max_delay in [1, 2, 4, 8] {
        let bound = smsc.bind().await;
        connector.wait_until(|status| status.binds_up == 1).await;
        bound.session.abort();
        connector.wait_until(|status| status.binds_up == 0).await;
        let connection = smsc.connection();
        tokio::pin!(connection);
        // Jitter shortens a delay by at most half.
        advance(max_delay * SECOND * 49 / 100).await;
        assert!(stays_pending(&mut connection).await);
        advance(max_delay * SECOND * 52 / 100).await;
    }
    let bound = smsc.bind().await;
    connector.wait_until(|status| status.binds_up == 1).await;
    advance(20 * SECOND).await;
    assert_eq!(bound.deliver(sms("alive")).await, CommandStatus::OK);
    advance(20 * SECOND).await;
    assert_eq!(bound.deliver(sms("alive")).await, CommandStatus::OK);
    advance(20 * SECOND).await;
    bound.session.abort();
    connector.wait_until(|status| status.binds_up == 0).await;
    advance(SECOND).await;
    smsc.bind().await;
}

/// Whether the future stays pending while other tasks run.
async fn stays_pending<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
    for _ in 0..100 {
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending()));
        if !polled.await {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

#[tokio::test(start_paused = true)]
async fn silent_smsc_is_disconnected() {
    let (_fixture, smsc, connector) = start_with_manual_smsc(|config| config).await;
    let mut stream = smsc.bind_by_hand().await;
    connector.wait_until(|status| status.binds_up == 1).await;
    advance(30 * SECOND).await;
    // The `enquire_link` gets no response.
    let mut pdu = [0; 16];
    stream.read_exact(&mut pdu).await.unwrap();
    assert_eq!(pdu[4..8], [0, 0, 0, 0x15]);
    advance(10 * SECOND).await;
    let status = connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
    assert!(status.last_error.unwrap().message.contains("enquire_link"));
}

#[tokio::test(start_paused = true)]
async fn unbind_by_the_smsc_is_followed_by_a_new_bind() {
    let (_fixture, smsc, connector) = start_with_manual_smsc(|config| config).await;
    smsc.bind().await.link.unbind().await;
    connector.wait_until(|status| status.binds_up == 0 && status.last_error.is_some()).await;
    advance(SECOND).await;
    assert_eq!(smsc.bind().await.deliver(sms("hello")).await, CommandStatus::OK);
}

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
        let (_fixture, smsc, connector) =
            start_with_manual_smsc(|config| SmppConfig { tls: Some(tls), ..config }).await;
        assert!(acceptor.accept(smsc.connection().await).await.is_err());
        let status = connector.wait_until(|status| status.last_error.is_some()).await;
        assert!(status.last_error.unwrap().message.starts_with("TLS handshake failed"));
    }
}
