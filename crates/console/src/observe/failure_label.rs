//! How pages name the failure of a callback or of a request to an operator.

/// Returns a label for a failure, whose name is in snake case.
pub fn failure_label(name: &str) -> String {
    match name {
        "blocked_address" => "address not allowed".to_owned(),
        "own_address_unknown" => "own host name not found".to_owned(),
        "unresolved" => "host name not found".to_owned(),
        "connection" => "connection failed".to_owned(),
        "certificate_untrusted" => "certificate self-signed or from an unknown issuer".to_owned(),
        "certificate_wrong_host" => "certificate for another host".to_owned(),
        "tls_version" => "TLS 1.2 or 1.3 not supported".to_owned(),
        "not_tls" => "receiver does not use TLS".to_owned(),
        "tls" => "TLS handshake failed".to_owned(),
        other => other.replace('_', " "),
    }
}
