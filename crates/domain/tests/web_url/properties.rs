use proptest::prelude::*;
use proptest::sample::select;
use url::Url;

use super::{AddressPolicy, CallbackUrl, UrlPolicy};

/// Generates URL fragments in any order. The results are mostly invalid, and often nearly valid.
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

/// Asserts that an accepted URL round-trips, and has the same parts as in the WHATWG URL parser.
fn assert_parses_like_whatwg(text: &str) -> Result<(), TestCaseError> {
    let Ok(url) = CallbackUrl::from_stored(text) else {
        return Ok(());
    };
    let again = CallbackUrl::from_stored(url.as_str());
    prop_assert_eq!(again.as_ref(), Ok(&url));
    prop_assert!(url.as_str().bytes().all(|b| b.is_ascii_graphic()));

    for text in [text, url.as_str()] {
        let whatwg = Url::parse(text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(whatwg.host().map(|host| host.to_owned()), Some(url.host().clone()));
        prop_assert_eq!(whatwg.port_or_known_default(), Some(url.port()));
        prop_assert_eq!(whatwg.scheme() == "https", url.is_https());
        // The WHATWG parser encodes apostrophes in queries. RFC 3986 does not require it.
        let target = whatwg[url::Position::BeforePath..].replace("%27", "'");
        prop_assert_eq!(target, url.target().replace("%27", "'"));
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_parses_consistently(text in any::<String>()) {
        assert_parses_like_whatwg(&text)?;
    }

    #[test]
    fn any_fragments_parse_consistently(text in any_fragments()) {
        assert_parses_like_whatwg(&text)?;
    }

    #[test]
    fn any_host_parses_consistently(host in any::<String>()) {
        assert_parses_like_whatwg(&format!("https://{host}/"))?;
    }

    #[test]
    fn any_target_parses_consistently(target in "[!-~]{0,60}") {
        assert_parses_like_whatwg(&format!("https://example.com/{target}"))?;
    }

    #[test]
    fn strict_policy_rejects_special_addresses(bits in any::<u32>()) {
        let address = std::net::Ipv4Addr::from(bits);
        let parsed = CallbackUrl::parse(&format!("https://{bits}/"), &UrlPolicy::default());
        prop_assert_eq!(parsed.is_ok(), AddressPolicy::default().permits(address.into()));
        let mapped = AddressPolicy::default().permits(address.to_ipv6_mapped().into());
        prop_assert!(!mapped);
    }
}
