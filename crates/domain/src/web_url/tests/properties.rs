use proptest::prelude::*;
use proptest::sample::select;
use url::Url;

use super::{AddressPolicy, CallbackUrl, UrlPolicy};

/// Pieces of URLs in any order: mostly wrong, often nearly right.
fn any_fragments() -> impl Strategy<Value = String> {
    let fragments = vec![
        "https",
        "http",
        "ftp",
        ":",
        "//",
        "/",
        "\\",
        "?",
        "#",
        "@",
        "%",
        "%2e",
        "%41",
        ".",
        "..",
        "example.com",
        "bücher.example",
        "xn--",
        "127.0.0.1",
        "0x7f",
        "[::1]",
        "[",
        "]",
        ":443",
        ":0",
        "&a=b",
        "'",
        " ",
        "\t",
        "é",
        "。",
        "\u{ad}",
        "https://example.com/",
        "https://example.com:8443",
        "https://example.com?",
    ];
    prop::collection::vec(select(fragments), 0..8).prop_map(|fragments| fragments.concat())
}

/// What is taken is stable, and means to us what it means to a parser that follows the standard of browsers.
fn behaves(text: &str) -> Result<(), TestCaseError> {
    let Ok(url) = CallbackUrl::from_stored(text) else {
        return Ok(());
    };
    let again = CallbackUrl::from_stored(url.as_str());
    prop_assert_eq!(again.as_ref(), Ok(&url));
    prop_assert!(url.as_str().bytes().all(|b| b.is_ascii_graphic()));

    for text in [text, url.as_str()] {
        let standard = Url::parse(text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(standard.host().map(|host| host.to_owned()), Some(url.host().clone()));
        prop_assert_eq!(standard.port_or_known_default(), Some(url.port()));
        prop_assert_eq!(standard.scheme() == "https", url.is_https());
        // The standard encodes apostrophes in queries; the RFC need not.
        let target = standard[url::Position::BeforePath..].replace("%27", "'");
        prop_assert_eq!(target, url.target().replace("%27", "'"));
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(text in any::<String>()) {
        behaves(&text)?;
    }

    #[test]
    fn any_fragments_are_taken_or_refused(text in any_fragments()) {
        behaves(&text)?;
    }

    #[test]
    fn any_host_is_taken_or_refused(host in any::<String>()) {
        behaves(&format!("https://{host}/"))?;
    }

    #[test]
    fn any_target_is_taken_or_refused(target in "[!-~]{0,60}") {
        behaves(&format!("https://example.com/{target}"))?;
    }

    #[test]
    fn a_strict_policy_takes_no_special_address(bits in any::<u32>()) {
        let address = std::net::Ipv4Addr::from(bits);
        let taken = CallbackUrl::parse(&format!("https://{bits}/"), &UrlPolicy::default());
        prop_assert_eq!(taken.is_ok(), AddressPolicy::default().permits(address.into()));
        let mapped = AddressPolicy::default().permits(address.to_ipv6_mapped().into());
        prop_assert!(!mapped);
    }
}
