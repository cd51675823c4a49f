use super::{CallbackUrl, MAX_CHARS, RedirectUrl, UrlError, UrlPolicy, allowing, lenient};

/// Asserts that callback and redirect URLs accept the text, and convert it to the expected canonical form.
#[track_caller]
fn assert_canonical(text: &str, expected: &str) {
    let policy = UrlPolicy { allow_http: true, ..UrlPolicy::default() };
    let callback = CallbackUrl::parse(text, &policy).unwrap_or_else(|error| panic!("{text}: {error}"));
    let redirect = RedirectUrl::parse(text, &policy).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(callback.as_str(), expected, "{text}");
    assert_eq!(redirect.as_str(), expected, "{text}");
    assert_eq!(CallbackUrl::from_stored(expected), Ok(callback));
    assert_eq!(RedirectUrl::from_stored(expected), Ok(redirect));
}

/// Asserts that callback and redirect URLs reject the text, even with the most permissive policy.
#[track_caller]
fn assert_rejected(text: &str, expected: UrlError) {
    let policy = UrlPolicy { allow_http: true, addresses: allowing(&["0.0.0.0/0", "::/0"]) };
    assert_eq!(CallbackUrl::parse(text, &policy), Err(expected), "{text}");
    assert_eq!(RedirectUrl::parse(text, &policy), Err(expected), "{text}");
}

#[test]
fn origin_is_canonicalised() {
    assert_canonical("https://example.com", "https://example.com/");
    assert_canonical("https://example.com/", "https://example.com/");
    assert_canonical("HTTPS://Example.COM/Path", "https://example.com/Path");
    assert_canonical("https://example.com:443/", "https://example.com/");
    assert_canonical("http://example.com:80/", "http://example.com/");
    assert_canonical("https://example.com:80/", "https://example.com:80/");
    assert_canonical("https://example.com:65535/", "https://example.com:65535/");
    assert_canonical("https://bücher.example/", "https://xn--bcher-kva.example/");
    assert_canonical("https://ｅxample.com/", "https://example.com/");
    assert_canonical("https://my_host-1.example/", "https://my_host-1.example/");
    assert_canonical("https://receiver/", "https://receiver/");
    assert_canonical("https://8.8.8.8/", "https://8.8.8.8/");
    assert_canonical("https://134744072/", "https://8.8.8.8/");
    assert_canonical("https://[2606:4700:0:0::1111]:8443/", "https://[2606:4700::1111]:8443/");
}

#[test]
fn path_and_query_are_unchanged() {
    for target in [
        "/a//b/",
        "/a%2Fb%2fc",
        "/caf%C3%A9",
        "/~user/-._!$&'()*+,;=:@",
        "/?",
        "/?a=1&b=2&b=3",
        "/?q=it's",
        "/?next=/a/../b",
        "/cb?url=https://other.example/?x",
        "/cb?id[]=1&id[]=2",
        "/a.b/..c/...",
    ] {
        let url = format!("https://example.com{target}");
        assert_canonical(&url, &url);
        let url = CallbackUrl::from_stored(&url).expect("a stored URL");
        assert_eq!(url.target(), target);
    }
    assert_canonical("https://example.com?a=1", "https://example.com/?a=1");
}

#[test]
fn malformed_urls_are_rejected() {
    use UrlError::*;
    for (text, expected) in [
        ("", NotAbsolute),
        ("callback", NotAbsolute),
        ("/callback", NotAbsolute),
        ("//example.com/", NotAbsolute),
        ("https:", NotAbsolute),
        ("https:example.com", NotAbsolute),
        ("https:/example.com", NotAbsolute),
        (r"https:/\example.com", NotAbsolute),
        (r"https:\\example.com", NotAbsolute),
        ("://example.com", NotAbsolute),
        ("ｈttps://example.com", NotAbsolute),
        ("ftp://example.com/", SchemeUnsupported),
        ("javascript:alert(1)", SchemeUnsupported),
        ("data:text/html,x", SchemeUnsupported),
        ("file:///etc/passwd", SchemeUnsupported),
        ("gopher://example.com/", SchemeUnsupported),
        ("example.com:8080/", SchemeUnsupported),
        ("https://", HostMissing),
        ("https:///example.com", HostMissing),
        ("https://?a=1", HostMissing),
        ("https://:443/", HostMissing),
        ("https://user@example.com/", UserInfo),
        ("https://user:secret@example.com/", UserInfo),
        ("https://@example.com/", UserInfo),
        ("https://example.com/#", Fragment),
        ("https://example.com/a#b", Fragment),
        ("https://example.com#@evil.example/", Fragment),
        (" https://example.com/", Blank),
        ("https://example.com/ ", Blank),
        ("https://example.com/a b", Blank),
        ("https://exam\tple.com/", Blank),
        ("https://example.com/\r\nX-Injected: 1", Blank),
        ("ht\ntps://example.com/", Blank),
        ("https://example.com/\0", Blank),
        ("https://example.com/\u{a0}", Blank),
        ("https://example.com/\u{85}", Blank),
        (r"https://example.com\@evil.example/", UserInfo),
        (r"https://example.com\path", HostInvalid),
        (r"https://example.com/a\b", NotEncoded),
        ("https://example.com:/", PortInvalid),
        ("https://example.com:0/", PortInvalid),
        ("https://example.com:0443/", PortInvalid),
        ("https://example.com:+443/", PortInvalid),
        ("https://example.com:65536/", PortInvalid),
        ("https://example.com:99999/", PortInvalid),
        ("https://example.com:443:443/", PortInvalid),
        ("https://example.com:port/", PortInvalid),
        ("https://[2606:4700::1111]:/", PortInvalid),
        ("https://example.com./", HostEndsInDot),
        ("https://localhost./", HostEndsInDot),
        ("https://127.0.0.1./", HostEndsInDot),
        ("https://example.com。/", HostEndsInDot),
        ("https://./", HostEndsInDot),
        ("https://a..example/", HostInvalid),
        ("https://.example/", HostInvalid),
        ("https://ex%61mple.com/", HostInvalid),
        ("https://{host}.example/", HostInvalid),
        ("https://a,b.example/", HostInvalid),
        ("https://xn--a.example/", HostInvalid),
        ("https://1.2.3.4.5/", HostInvalid),
        ("https://999.1.1.1/", HostInvalid),
        ("https://4294967296/", HostInvalid),
        ("https://::1/", PortInvalid),
        ("https://[::1/", PortInvalid),
        ("https://[::1]evil.example/", HostInvalid),
        ("https://[fe80::1%25eth0]/", HostInvalid),
        ("https://[fe80::1%eth0]/", HostInvalid),
        ("https://[]/", HostInvalid),
        ("https://example.com/café", NotEncoded),
        ("https://example.com/{check_id}", NotEncoded),
        ("https://example.com/?q=<script>", NotEncoded),
        ("https://example.com/?q=\"x\"", NotEncoded),
        ("https://example.com/%", NotEncoded),
        ("https://example.com/%4", NotEncoded),
        ("https://example.com/%zz", NotEncoded),
        ("https://example.com/\u{202e}", NotEncoded),
        ("https://example.com/.", DotSegment),
        ("https://example.com/a/../b", DotSegment),
        ("https://example.com/a/%2e%2E/b", DotSegment),
        ("https://example.com/a/.%2e?x", DotSegment),
    ] {
        assert_rejected(text, expected);
    }
}

#[test]
fn length_is_limited() {
    let origin = "https://example.com";
    let sized = |chars: usize| format!("{origin}/{}", "x".repeat(chars - origin.len() - 1));
    assert_canonical(&sized(MAX_CHARS), &sized(MAX_CHARS));
    assert_rejected(&sized(MAX_CHARS + 1), UrlError::TooLong);
    assert_rejected(&"x".repeat(10_000_000), UrlError::TooLong);
    // The slash that is added for an empty path counts towards the length.
    assert_rejected(&format!("{origin}?{}", "x".repeat(MAX_CHARS - origin.len() - 1)), UrlError::TooLong);

    let label = "a".repeat(63);
    assert_canonical(&format!("https://{label}.example/"), &format!("https://{label}.example/"));
    assert_rejected(&format!("https://{label}a.example/"), UrlError::HostInvalid);
    assert_rejected(&format!("https://{}.example/", [label.as_str(); 4].join(".")), UrlError::HostInvalid);
}

#[test]
fn callback_url_has_its_parts() {
    for (text, is_https, host, port, authority, target) in [
        ("https://Example.com/cb?x=1", true, "example.com", 443, "example.com", "/cb?x=1"),
        ("https://example.com:8443", true, "example.com", 8443, "example.com:8443", "/"),
        ("http://example.com:443/", false, "example.com", 443, "example.com:443", "/"),
        ("http://[2606:4700::1111]:8080/a", false, "[2606:4700::1111]", 8080, "[2606:4700::1111]:8080", "/a"),
    ] {
        let url = CallbackUrl::parse(text, &lenient()).expect("a valid URL");
        assert_eq!(url.is_https(), is_https, "{text}");
        assert_eq!(url.host().to_string(), host, "{text}");
        assert_eq!(url.port(), port, "{text}");
        assert_eq!(url.authority(), authority, "{text}");
        assert_eq!(url.target(), target, "{text}");
    }
}

#[test]
fn debug_output_masks_path_and_query() {
    let text = "https://example.com:8443/secret?token=secret";
    let callback = CallbackUrl::from_stored(text).expect("a valid URL");
    let redirect = RedirectUrl::from_stored(text).expect("a valid URL");
    assert_eq!(format!("{callback:?}"), "CallbackUrl(https://example.com)");
    assert_eq!(format!("{redirect:?}"), "RedirectUrl(https://example.com)");
}
