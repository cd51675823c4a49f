//! Ports: the traits through which the engine uses its environment (clock, randomness, database, operators, HTTP), by
//! subject.
//!
//! Every method of a store port is one transaction, and its effect is durable when the method returns. Methods are
//! domain operations; there is no generic `update(row)`.

pub mod accounts;
pub mod activity;
pub mod audit;
pub mod callbacks;
pub mod certificates;
pub mod checks;
pub mod clock;
pub mod combined;
pub mod connectors;
pub mod control_plane;
pub mod entropy;
pub mod hashes;
pub mod idempotency;
pub mod keys;
pub mod leases;
pub mod lookups;
pub mod node;
pub mod operator_tokens;
pub mod privacy;
pub mod request_log;
pub mod row_mac;
pub mod sandbox;
pub mod search_limit;
pub mod sign_in;
pub mod silent;
pub mod sim_swap;
pub mod sms;
pub mod store;
pub mod tenants;
pub mod tokens;
pub mod transport;
pub mod verifications;

#[cfg(test)]
mod tests {
    use super::{
        accounts::LinkPurpose,
        keys::KeyPurpose,
        sms::SmsOutcome,
        transport::{TlsError, TransportError},
    };

    /// The names are stored in the database, and are values of metrics and command-line options.
    #[test]
    fn names_are_stable() {
        for (purpose, name) in [
            (KeyPurpose::Token, "token"),
            (KeyPurpose::Callback, "callback"),
            (KeyPurpose::SandboxCallback, "sandbox_callback"),
            (KeyPurpose::Seal, "seal"),
            (KeyPurpose::Link, "link"),
            (KeyPurpose::Hash, "hash"),
        ] {
            assert_eq!((purpose.into_str(), name.parse().ok()), (name, Some(purpose)));
        }
        for (purpose, name) in [(LinkPurpose::SetPassword, "set_password"), (LinkPurpose::SignIn, "sign_in")] {
            assert_eq!((purpose.into_str(), name.parse().ok()), (name, Some(purpose)));
        }
        assert!(["", "Token", "TOKEN", "token "].iter().all(|unknown| unknown.parse::<KeyPurpose>().is_err()));
        for (outcome, name) in [
            (SmsOutcome::Concluded, "concluded"),
            (SmsOutcome::TooLate, "too_late"),
            (SmsOutcome::Pending, "pending"),
            (SmsOutcome::Unmatched, "unmatched"),
            (SmsOutcome::Unusable, "unusable"),
        ] {
            assert_eq!(outcome.into_str(), name);
        }
        for (error, name) in [
            (TransportError::BlockedAddress, "blocked_address"),
            (TransportError::OwnAddressUnknown, "own_address_unknown"),
            (TransportError::Unresolved, "unresolved"),
            (TransportError::Connection, "connection"),
            (TlsError::CertificateExpired.into(), "certificate_expired"),
            (TlsError::CertificateNotYetValid.into(), "certificate_not_yet_valid"),
            (TlsError::CertificateUntrusted.into(), "certificate_untrusted"),
            (TlsError::CertificateWrongHost.into(), "certificate_wrong_host"),
            (TlsError::CertificateInvalid.into(), "certificate_invalid"),
            (TlsError::TlsVersion.into(), "tls_version"),
            (TlsError::NotTls.into(), "not_tls"),
            (TlsError::Handshake.into(), "tls"),
            (TransportError::Timeout, "timeout"),
            (TransportError::TooLarge, "too_large"),
            (TransportError::Protocol, "protocol"),
        ] {
            assert_eq!(error.into_str(), name);
        }
    }
}
