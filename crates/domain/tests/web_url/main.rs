//! Tests of callback and redirect URLs.

#![expect(clippy::expect_used, reason = "tests report failures by panics")]

mod policy;
mod properties;
mod shape;

use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl, MAX_CHARS, RedirectUrl, UrlError, UrlPolicy};

/// Returns the policy of `ringtrue dev`, which allows `http` and loopback addresses.
fn lenient() -> UrlPolicy {
    UrlPolicy { allow_http: true, addresses: allowing(&["127.0.0.0/8", "::1/128"]) }
}

fn allowing(ranges: &[&str]) -> AddressPolicy {
    let allowed_addresses = ranges.iter().map(|range| range.parse().expect("a range")).collect();
    AddressPolicy { allowed_addresses, ..AddressPolicy::default() }
}
