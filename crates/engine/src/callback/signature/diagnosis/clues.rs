//! Hosts and targets that may have been signed in place of those that arrived, and how the two differ.

use ringtrue_domain::web_url::CallbackUrl;

use crate::callback::signature::Request;

/// How a host differs from the one that was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostChange {
    PortDropped,
    PortAdded,
    PortReplaced,
    Case,
    Replaced,
}

/// How path and query differ from those that were signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetChange {
    QueryDropped,
    QueryAdded,
    QueryChanged,
    Slash,
    PrefixRemoved,
    PrefixAdded,
    Encoding,
    /// A whole URL in place of path and query.
    WholeUrl,
    Rewritten,
}

impl HostChange {
    pub fn as_str(self) -> &'static str {
        match self {
            HostChange::PortDropped => "host_port_dropped",
            HostChange::PortAdded => "host_port_added",
            HostChange::PortReplaced => "host_port_replaced",
            HostChange::Case => "host_case",
            HostChange::Replaced => "host_replaced",
        }
    }

    pub(super) fn story(self) -> &'static str {
        match self {
            HostChange::PortDropped => "The port is gone.",
            HostChange::PortAdded => "A port was added.",
            HostChange::PortReplaced => "The port is another one.",
            HostChange::Case => "The letters are of another case.",
            HostChange::Replaced => "A proxy has replaced it: let it pass the host on as it came.",
        }
    }

    pub(super) fn between(signed: &str, arrived: &str) -> Self {
        let (signed_name, arrived_name) = (without_port(signed), without_port(arrived));
        if signed.eq_ignore_ascii_case(arrived) {
            HostChange::Case
        } else if !signed_name.eq_ignore_ascii_case(arrived_name) {
            HostChange::Replaced
        } else if arrived == arrived_name {
            HostChange::PortDropped
        } else if signed == signed_name {
            HostChange::PortAdded
        } else {
            HostChange::PortReplaced
        }
    }
}

impl TargetChange {
    pub fn as_str(self) -> &'static str {
        match self {
            TargetChange::QueryDropped => "query_dropped",
            TargetChange::QueryAdded => "query_added",
            TargetChange::QueryChanged => "query_changed",
            TargetChange::Slash => "path_slash",
            TargetChange::PrefixRemoved => "path_prefix_removed",
            TargetChange::PrefixAdded => "path_prefix_added",
            TargetChange::Encoding => "path_encoding",
            TargetChange::WholeUrl => "path_whole_url",
            TargetChange::Rewritten => "path_rewritten",
        }
    }

    pub(super) fn story(self) -> &'static str {
        match self {
            TargetChange::QueryDropped => "The query is gone: it is signed too.",
            TargetChange::QueryAdded => "A query was added.",
            TargetChange::QueryChanged => "The query was changed, or put into another order.",
            TargetChange::Slash => "A slash at the end of the path was added or taken away.",
            TargetChange::PrefixRemoved => "The beginning of the path is gone: a proxy or a router strips it.",
            TargetChange::PrefixAdded => "Something was put before the path.",
            TargetChange::Encoding => "The path or query was decoded or encoded anew.",
            TargetChange::WholeUrl => "A whole URL is there: only path and query are signed.",
            TargetChange::Rewritten => "A proxy or a router has rewritten it.",
        }
    }

    pub(super) fn between(signed: &str, arrived: &str) -> Self {
        let split = |target: &'_ str| target.split_once('?').map(|(path, query)| (path.to_owned(), query.to_owned()));
        let apart = |target: &str| match split(target) {
            Some((path, query)) => (path, Some(query)),
            None => (target.to_owned(), None),
        };
        if arrived.contains("://") {
            return TargetChange::WholeUrl;
        }
        let ((signed_path, signed_query), (path, query)) = (apart(signed), apart(arrived));
        if signed_path == path {
            return match (signed_query, query) {
                (Some(_), None) => TargetChange::QueryDropped,
                (None, _) => TargetChange::QueryAdded,
                (Some(one), Some(other)) if decoded(&one) == decoded(&other) => TargetChange::Encoding,
                (Some(_), Some(_)) => TargetChange::QueryChanged,
            };
        }
        if signed_path.trim_end_matches('/') == path.trim_end_matches('/') {
            TargetChange::Slash
        } else if decoded(&signed_path) == decoded(&path) {
            TargetChange::Encoding
        } else if signed_path.ends_with(&path) {
            TargetChange::PrefixRemoved
        } else if path.ends_with(&signed_path) {
            TargetChange::PrefixAdded
        } else {
            TargetChange::Rewritten
        }
    }
}

/// Hosts that may have been signed, the likeliest first.
pub(super) fn hosts(request: &Request<'_>, seen: &str, known: &[String]) -> Vec<String> {
    let mut found = known.to_vec();
    found.extend(request.values("x-forwarded-host").map(str::to_owned));
    found.extend(request.values("x-original-host").map(str::to_owned));
    let ports: Vec<_> = request.values("x-forwarded-port").collect();
    let names = [&[seen.to_owned()][..], &found].concat();
    for name in &names {
        found.push(without_port(name).to_owned());
        found.extend(ports.iter().map(|port| format!("{}:{port}", without_port(name))));
    }
    found.push(seen.to_ascii_lowercase());
    found.retain(|host| host != seen && !host.is_empty());
    found
}

/// Targets that may have been signed, the likeliest first.
pub(super) fn targets(request: &Request<'_>, seen: &str, known: &[String]) -> Vec<String> {
    let mut found = known.to_vec();
    found.extend(
        ["x-original-uri", "x-forwarded-uri", "x-original-url"]
            .iter()
            .flat_map(|name| request.values(name))
            .map(str::to_owned),
    );
    found.extend(request.values("x-forwarded-prefix").map(|prefix| format!("{prefix}{seen}")));
    found.extend(place_of(seen).map(|(_, target)| target));
    let (path, query) = seen.split_once('?').map_or((seen, ""), |(path, _)| (path, &seen[path.len()..]));
    found.extend([path.to_owned(), format!("{path}?"), format!("{path}/{query}"), format!("{path}/")]);
    found.extend(path.strip_suffix('/').filter(|path| !path.is_empty()).map(|path| format!("{path}{query}")));
    found.retain(|target| target != seen);
    found
}

/// Host and target of a URL, as they are signed. `None`: not a URL.
pub fn place_of(url: &str) -> Option<(String, String)> {
    let url = CallbackUrl::from_stored(url).ok()?;
    Some((url.authority().to_owned(), url.target().to_owned()))
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name)
}

fn decoded(text: &str) -> Vec<u8> {
    let octets = text.as_bytes();
    let mut plain = Vec::with_capacity(octets.len());
    let mut at = 0;
    while let Some(&octet) = octets.get(at) {
        let hex = octets.get(at + 1..at + 3).filter(|_| octet == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        plain.push(escaped.unwrap_or(octet));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    plain
}
