//! The machine: certificate files, addresses to listen on, open files.

use std::{
    fs, io,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use super::{Finding, bad, good, skipped};
use crate::{config::Config, listener::Tls};

pub(super) fn tls(config: &Config) -> Finding {
    const CHECK: &str = "TLS";
    match &config.http.tls {
        None => skipped(CHECK, "not set up: plain HTTP, for a proxy that does TLS"),
        Some(files) => match Tls::load(&files.certificate, &files.key) {
            Ok(_) => good(CHECK, format!("{} and its key make a pair", files.certificate.display())),
            Err(error) => bad(
                CHECK,
                error.to_string(),
                "`http.tls.certificate` is the chain, leaf first, and `http.tls.key` its private key, both as PEM.",
            ),
        },
    }
}

pub(super) fn addresses(config: &Config) -> Vec<Finding> {
    let mut findings = vec![address("http.listen", config.http.listen, config.http.tls.is_some())];
    findings.extend(config.metrics.listen.map(|listen| address("metrics.listen", listen, false)));
    findings
}

fn address(check: &'static str, address: SocketAddr, speaks_tls: bool) -> Finding {
    let Err(problem) = TcpListener::bind(address) else {
        return good(check, format!("{address} is free"));
    };
    match problem.kind() {
        io::ErrorKind::AddrInUse if answers_as_ringtrue(address) => {
            good(check, format!("a Ringtrue listens on {address} already"))
        }
        io::ErrorKind::AddrInUse if speaks_tls => skipped(
            check,
            format!("something listens on {address} already; behind TLS we do not ask whether it is ours"),
        ),
        io::ErrorKind::AddrInUse => {
            bad(check, format!("something else listens on {address}"), "Stop it, or choose another address.")
        }
        io::ErrorKind::PermissionDenied => bad(
            check,
            format!("{address}: {problem}"),
            "Ports below 1024 need the capability CAP_NET_BIND_SERVICE; or choose a higher one.",
        ),
        _ => bad(check, format!("{address}: {problem}"), "Choose an address that this machine has."),
    }
}

/// Asks for `/livez`, which both of our listeners answer with the version of the API.
fn answers_as_ringtrue(address: SocketAddr) -> bool {
    const PATIENCE: Duration = Duration::from_secs(2);
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(stream, "GET /livez HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut answer = vec![];
        stream.take(4_096).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).to_ascii_lowercase())
    };
    ask().is_ok_and(|answer| answer.contains("\r\nx-api-version: "))
}

/// What a server keeps open beside its connections: the database, its log, itself.
const BESIDES: usize = 64;

pub(super) fn open_files(config: &Config) -> Finding {
    const CHECK: &str = "open files";
    let Some(limit) = fs::read_to_string("/proc/self/limits").ok().as_deref().and_then(soft_limit) else {
        return skipped(CHECK, "this system does not say how many are allowed");
    };
    let options = config.store.options;
    let needed = config.http.max_connections + options.connections.max(options.readers) + BESIDES;
    if limit >= needed {
        good(CHECK, format!("{needed} are needed at most, and {limit} allowed"))
    } else {
        bad(
            CHECK,
            format!("{limit} are allowed, and `http.max_connections` may need {needed}"),
            format!(
                "Raise the limit (`ulimit -n {needed}`, or LimitNOFILE={needed} in a systemd unit), or lower the setting."
            ),
        )
    }
}

/// The soft limit of open files, as Linux shows it.
fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             1                    2                    processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit(limits), Some(1024));
        assert_eq!(soft_limit("Max open files  unlimited  unlimited  files"), Some(usize::MAX));
        assert_eq!(soft_limit("nothing"), None);
    }

    #[test]
    fn an_address_that_someone_else_uses_is_noticed() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = other.accept().unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            });
            let finding = address("http.listen", taken, false);
            let expected = format!("something else listens on {taken}");
            assert_eq!(finding, bad("http.listen", expected, "Stop it, or choose another address."));
        });
    }
}
