//! Changes of host and request target: classification, and candidates for the signed values.

use ringtrue_domain::web_url::CallbackUrl;

use crate::callback::signature::CallbackRequest;

/// Difference between the signed and the received host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostChange {
    PortDropped,
    PortAdded,
    PortReplaced,
    Case,
    Replaced,
}

/// Difference between the signed and the received path and query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetChange {
    QueryDropped,
    QueryAdded,
    QueryChanged,
    TrailingSlash,
    PrefixRemoved,
    PrefixAdded,
    Encoding,
    /// An absolute URL instead of path and query.
    AbsoluteUrl,
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

    pub(super) fn description(self) -> &'static str {
        match self {
            HostChange::PortDropped => "The port is missing.",
            HostChange::PortAdded => "A port was added.",
            HostChange::PortReplaced => "The port is different.",
            HostChange::Case => "The letter case is different.",
            HostChange::Replaced => "A proxy replaced it: configure the proxy to forward the original host.",
        }
    }

    pub(super) fn classify(signed: &str, received: &str) -> Self {
        let (signed_name, arrived_name) = (without_port(signed), without_port(received));
        if signed.eq_ignore_ascii_case(received) {
            HostChange::Case
        } else if !signed_name.eq_ignore_ascii_case(arrived_name) {
            HostChange::Replaced
        } else if received == arrived_name {
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
            TargetChange::TrailingSlash => "path_slash",
            TargetChange::PrefixRemoved => "path_prefix_removed",
            TargetChange::PrefixAdded => "path_prefix_added",
            TargetChange::Encoding => "path_encoding",
            TargetChange::AbsoluteUrl => "path_whole_url",
            TargetChange::Rewritten => "path_rewritten",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            TargetChange::QueryDropped => "The query is missing: it is signed too.",
            TargetChange::QueryAdded => "A query was added.",
            TargetChange::QueryChanged => "The query was changed or reordered.",
            TargetChange::TrailingSlash => "A trailing slash was added or removed.",
            TargetChange::PrefixRemoved => "The start of the path is missing: a proxy or router strips it.",
            TargetChange::PrefixAdded => "A prefix was added to the path.",
            TargetChange::Encoding => "The path or query was decoded or re-encoded.",
            TargetChange::AbsoluteUrl => "It is an absolute URL: only path and query are signed.",
            TargetChange::Rewritten => "A proxy or router rewrote it.",
        }
    }

    pub(super) fn classify(signed: &str, received: &str) -> Self {
        let split = |target: &'_ str| target.split_once('?').map(|(path, query)| (path.to_owned(), query.to_owned()));
        let split_query = |target: &str| match split(target) {
            Some((path, query)) => (path, Some(query)),
            None => (target.to_owned(), None),
        };
        if received.contains("://") {
            return TargetChange::AbsoluteUrl;
        }
        let ((signed_path, signed_query), (path, query)) = (split_query(signed), split_query(received));
        if signed_path == path {
            return match (signed_query, query) {
                (Some(_), None) => TargetChange::QueryDropped,
                (None, _) => TargetChange::QueryAdded,
                (Some(one), Some(other)) if percent_decode(&one) == percent_decode(&other) => TargetChange::Encoding,
                (Some(_), Some(_)) => TargetChange::QueryChanged,
            };
        }
        if signed_path.trim_end_matches('/') == path.trim_end_matches('/') {
            TargetChange::TrailingSlash
        } else if percent_decode(&signed_path) == percent_decode(&path) {
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

/// Hosts that may have been signed, most likely first.
pub(super) fn candidate_hosts(request: &CallbackRequest<'_>, received: &str, known: &[String]) -> Vec<String> {
    let mut found = known.to_vec();
    found.extend(request.values("x-forwarded-host").map(str::to_owned));
    found.extend(request.values("x-original-host").map(str::to_owned));
    let ports: Vec<_> = request.values("x-forwarded-port").collect();
    let names = [&[received.to_owned()][..], &found].concat();
    for name in &names {
        found.push(without_port(name).to_owned());
        found.extend(ports.iter().map(|port| format!("{}:{port}", without_port(name))));
    }
    found.push(received.to_ascii_lowercase());
    found.retain(|host| host != received && !host.is_empty());
    found
}

/// Targets that may have been signed, most likely first.
pub(super) fn candidate_targets(request: &CallbackRequest<'_>, received: &str, known: &[String]) -> Vec<String> {
    let mut found = known.to_vec();
    found.extend(
        ["x-original-uri", "x-forwarded-uri", "x-original-url"]
            .iter()
            .flat_map(|name| request.values(name))
            .map(str::to_owned),
    );
    found.extend(request.values("x-forwarded-prefix").map(|prefix| format!("{prefix}{received}")));
    found.extend(host_and_target(received).map(|(_, target)| target));
    let (path, query) = received.split_once('?').map_or((received, ""), |(path, _)| (path, &received[path.len()..]));
    found.extend([path.to_owned(), format!("{path}?"), format!("{path}/{query}"), format!("{path}/")]);
    found.extend(path.strip_suffix('/').filter(|path| !path.is_empty()).map(|path| format!("{path}{query}")));
    found.retain(|target| target != received);
    found
}

/// Host and request target of a URL, as signed. `None`: invalid URL.
pub fn host_and_target(url: &str) -> Option<(String, String)> {
    let url = CallbackUrl::from_stored(url).ok()?;
    Some((url.authority().to_owned(), url.target().to_owned()))
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name)
}

fn percent_decode(text: &str) -> Vec<u8> {
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
