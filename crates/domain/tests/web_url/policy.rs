use url::Host;

use super::{AddressPolicy, CallbackUrl, RedirectUrl, UrlError, UrlPolicy, allowing, lenient};

#[test]
fn http_requires_permission() {
    let strict = UrlPolicy::default();
    assert_eq!(CallbackUrl::parse("http://example.com/", &strict), Err(UrlError::HttpNotAllowed));
    assert_eq!(RedirectUrl::parse("HTTP://example.com/", &strict), Err(UrlError::HttpNotAllowed));
    for (text, error, lenient_error) in [
        ("example.com/", UrlError::NotAbsoluteHttps, UrlError::NotAbsolute),
        ("ftp://example.com/", UrlError::SchemeNotHttps, UrlError::SchemeUnsupported),
    ] {
        assert_eq!(CallbackUrl::parse(text, &strict), Err(error));
        assert_eq!(RedirectUrl::parse(text, &strict), Err(error));
        assert_eq!(CallbackUrl::parse(text, &lenient()), Err(lenient_error));
        assert_eq!(RedirectUrl::parse(text, &lenient()), Err(lenient_error));
        let names_http = |error: UrlError| ["`http`", "`http://`"].iter().any(|http| error.to_string().contains(http));
        assert!(!names_http(error), "{error}");
        assert!(names_http(lenient_error), "{lenient_error}");
    }
    assert!(CallbackUrl::parse("http://example.com/", &lenient()).is_ok());
    assert!(RedirectUrl::parse("http://example.com/", &lenient()).is_ok());
}

#[test]
fn non_public_callback_hosts_are_rejected() {
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "api.localhost",
        "2130706433",
        "0177.0.0.1",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "１２７.０.０.１",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a00:1::]",
        "0.0.0.0",
        "0",
        "169.254.169.254",
        "100.64.0.1",
        "[fd00::]",
        "[fe80::1]",
        "10.0.0.1.nip.io",
        "app-169-254-169-254.sslip.io",
        "nip.io",
    ] {
        let url = format!("https://{host}/");
        assert_eq!(CallbackUrl::parse(&url, &UrlPolicy::default()), Err(UrlError::HostNotAllowed), "{url}");
        // The service never connects to a redirect URL, so its address is not checked.
        assert!(RedirectUrl::parse(&url, &UrlPolicy::default()).is_ok(), "{url}");
        assert!(CallbackUrl::from_stored(&url).is_ok(), "{url}");
    }
    for host in ["notlocalhost", "localhost.example", "mynip.io", "nip.io.example", "[2606:4700::1111]", "1.1.1.1"] {
        let url = format!("https://{host}/");
        assert!(CallbackUrl::parse(&url, &UrlPolicy::default()).is_ok(), "{url}");
    }
}

#[test]
fn configured_ranges_and_names_are_permitted() {
    for host in ["127.0.0.1", "0x7f000001", "[::1]", "[::ffff:127.0.0.1]", "localhost", "api.localhost"] {
        let url = format!("http://{host}:8080/");
        assert!(CallbackUrl::parse(&url, &lenient()).is_ok(), "{url}");
    }
    let refused = CallbackUrl::parse("http://10.0.0.1/", &lenient());
    assert_eq!(refused, Err(UrlError::HostNotAllowed));

    let addresses = AddressPolicy {
        allowed_hosts: vec!["Localhost".to_owned(), "10.0.0.1.nip.io".to_owned()],
        ..AddressPolicy::default()
    };
    let by_name = UrlPolicy { allow_http: false, addresses };
    assert!(CallbackUrl::parse("https://localhost/", &by_name).is_ok());
    assert!(CallbackUrl::parse("https://10.0.0.1.nip.io/", &by_name).is_ok());
    assert!(CallbackUrl::parse("https://10.0.0.2.nip.io/", &by_name).is_err());
    assert!(CallbackUrl::parse("https://api.localhost/", &by_name).is_err());
    assert!(CallbackUrl::parse("https://127.0.0.1/", &by_name).is_err());
}

#[test]
fn callbacks_to_own_host_names_are_rejected() {
    let mut policy = UrlPolicy::default();
    policy.addresses.own_hosts = vec![Host::parse("eu.ringtrue.example").expect("a host")];
    let url = "https://EU.ringtrue.example/v1/";
    assert_eq!(CallbackUrl::parse(url, &policy), Err(UrlError::HostNotAllowed));
    assert!(CallbackUrl::parse("https://hooks.eu.ringtrue.example/", &policy).is_ok());
    policy.addresses.allowed_hosts = vec!["eu.ringtrue.example".to_owned()];
    assert!(CallbackUrl::parse(url, &policy).is_ok());
}

#[test]
fn callbacks_to_own_addresses_are_rejected() {
    for (own, host, is_ours) in [
        ("8.8.8.8", "8.8.8.8", true),
        ("8.8.8.8", "134744072", true),
        ("8.8.8.8", "0x8.8.8.8", true),
        ("8.8.8.8", "[::ffff:8.8.8.8]", true),
        ("[::ffff:8.8.8.8]", "8.8.8.8", true),
        ("[2606:4700::1111]", "[2606:4700::1111]", true),
        ("[2606:4700::1111]", "[2606:4700:0:0:0:0:0:1111]", true),
        ("[2606:4700::1111]", "[2606:4700::0.0.17.17]", true),
        ("8.8.8.8", "8.8.4.4", false),
        ("[2606:4700::1111]", "[2606:4700::1112]", false),
        ("eu.ringtrue.example", "8.8.8.8", false),
    ] {
        let mut policy = UrlPolicy::default();
        policy.addresses.own_hosts = vec![Host::parse(own).expect("a host")];
        let url = format!("https://{host}/");
        assert_eq!(CallbackUrl::parse(&url, &policy).is_err(), is_ours, "{url} at {own}");
        // An allowed range permits the address even if it belongs to this service.
        policy.addresses.allowed_addresses = allowing(&["8.8.0.0/16", "2606:4700::/32"]).allowed_addresses;
        assert!(CallbackUrl::parse(&url, &policy).is_ok(), "{url} at {own}");
    }
}

#[test]
fn only_public_addresses_are_permitted() {
    let policy = AddressPolicy::default();
    let permits = |address: &str| policy.permits(address.parse().expect("an address"));
    for address in [
        // Addresses in the special IPv4 ranges, many of them the first or the last of a range.
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.255",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        // Addresses outside global unicast.
        "::",
        "::1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "100::1",
        "1fff:ffff::1",
        "4000::1",
        "5f00::1",
        "fc00::",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "ffff::1",
        // Special ranges within global unicast.
        "2001::1",
        "2001:0:4136:e378::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2002::1",
        "2002:a00:1::",
        "3fff::1",
        "3fff:fff:ffff::1",
    ] {
        assert!(!permits(address), "{address}");
    }
    for address in [
        "1.0.0.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "128.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2000::1",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2003::1",
        "2606:4700::1111",
        "2a00:1450::1",
        "3fff:1000::1",
    ] {
        assert!(permits(address), "{address}");
    }
}

#[test]
fn allowed_ranges_permit_only_their_addresses() {
    let policy = allowing(&["10.1.0.0/16", "fd00:1::/32", "64:ff9b::/96"]);
    let permits = |address: &str| policy.permits(address.parse().expect("an address"));
    for address in ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::1", "64:ff9b::808:808", "8.8.8.8"] {
        assert!(permits(address), "{address}");
    }
    for address in ["10.2.0.0", "::ffff:10.2.0.0", "::10.1.2.3", "fd00:2::1", "64:ff9b:1::1", "127.0.0.1"] {
        assert!(!permits(address), "{address}");
    }
}

#[test]
fn redirect_url_with_result_parameters_is_rejected() {
    let policy = UrlPolicy::default();
    for query in [
        "code=1",
        "a=b&error",
        "check_id=",
        "c%6Fde=1",
        "a&&reference_id=x",
        "error_description=a+b",
        "x=1&code=2&code=3",
    ] {
        let url = format!("https://app.example/done?{query}");
        assert_eq!(RedirectUrl::parse(&url, &policy), Err(UrlError::ResultParameter), "{url}");
        assert!(RedirectUrl::from_stored(&url).is_ok(), "stored: {url}");
        assert!(CallbackUrl::parse(&url, &policy).is_ok(), "{url}");
    }
    for query in ["", "Code=1", "codes=1", "a=code", "a=b%26code=1", "xcode", "state=code%3D1"] {
        assert!(RedirectUrl::parse(&format!("https://app.example/code=1?{query}"), &policy).is_ok(), "{query}");
    }
}

#[test]
fn allowed_loopback_range_does_not_permit_own_listener() {
    let own_listeners = vec!["127.0.0.1:8080".parse().unwrap()];
    let policy = |ranges: &[&str]| {
        let addresses = AddressPolicy { own_listeners: own_listeners.clone(), ..allowing(ranges) };
        UrlPolicy { allow_http: true, addresses }
    };
    let (range, named) = (policy(&["127.0.0.0/8", "::1/128"]), policy(&["127.0.0.1/32"]));
    for (url, policy, is_accepted) in [
        ("http://127.0.0.1:8080/", &range, false),
        ("http://0x7f000001:8080/", &range, false),
        ("http://[::ffff:127.0.0.1]:8080/", &range, false),
        ("http://localhost:8080/", &range, false),
        ("http://127.0.0.1:9099/", &range, true),
        ("http://localhost:9099/", &range, true),
        ("http://127.0.0.2:8080/", &range, true),
        ("http://127.0.0.1:8080/", &named, true),
    ] {
        assert_eq!(CallbackUrl::parse(url, policy).is_ok(), is_accepted, "{url}");
    }
}
