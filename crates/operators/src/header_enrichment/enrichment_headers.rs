//! Known enrichment headers of operators.

/// In lower case and sorted. Only the listener for enriched requests may trust them.
pub const ENRICHMENT_HEADERS: &[&str] = &[
    "bizao-msisdn",
    "msisdn",
    "user-identity-forward-msisdn",
    "x-fh-msisdn",
    "x-h3g-msisdn",
    "x-hts-clid",
    "x-jinny-cid",
    "x-mdn",
    "x-msisdn",
    "x-msp-msisdn",
    "x-network-info",
    "x-nokia-msisdn",
    "x-up-calling-line-id",
    "x-wap-3gpp-imsi",
    "x-wap-3gpp-rat-type",
    "x-wap-3gpp-sgsn-mcc-mnc",
    "x-wap-client-ip",
    "x-wap-msisdn",
    "x-wap-network-client-msisdn",
    "x-wte-msisdn",
];

/// Expects a lower-case name. The first-letter test makes most misses cheap.
pub fn is_enrichment_header(name: &str) -> bool {
    matches!(name.as_bytes(), [b'b' | b'm' | b'u' | b'x', ..]) && ENRICHMENT_HEADERS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_sorted_and_lower_case() {
        assert!(ENRICHMENT_HEADERS.is_sorted());
        for name in ENRICHMENT_HEADERS {
            assert!(is_enrichment_header(name), "{name}");
            assert_eq!(*name, name.to_ascii_lowercase());
        }
        for other in ["", "x", "x-forwarded-for", "x-request-id", "host", "authorization", "x-msisdn-"] {
            assert!(!is_enrichment_header(other), "{other}");
        }
    }
}
