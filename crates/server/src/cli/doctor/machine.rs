//! Checks of the machine: certificate files, listen addresses, open file limit.

use std::{
    fs, io,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use super::{Finding, failed, passed, skipped};
use crate::{config::Config, listener::Tls};

pub(super) fn check_tls(config: &Config) -> Finding {
    const CHECK: &str = "TLS";
    match &config.http.tls {
        None => skipped(CHECK, "not configured: plain HTTP, for use behind a TLS proxy"),
        Some(files) => match Tls::load(&files.certificate, &files.key) {
            Ok(_) => passed(CHECK, format!("{} matches its private key", files.certificate.display())),
            Err(error) => failed(
                CHECK,
                error.to_string(),
                "Set `http.tls.certificate` to the chain (PEM, leaf first) and `http.tls.key` to its private key (PEM).",
            ),
        },
    }
}

pub(super) fn check_addresses(config: &Config) -> Vec<Finding> {
    let mut findings = vec![check_address("http.listen", config.http.listen, config.http.tls.is_some())];
    findings.extend(config.metrics.listen.map(|listen| check_address("metrics.listen", listen, false)));
    findings
}

fn check_address(check: &'static str, address: SocketAddr, uses_tls: bool) -> Finding {
    let Err(error) = TcpListener::bind(address) else {
        return passed(check, format!("{address} is free"));
    };
    match error.kind() {
        io::ErrorKind::AddrInUse if is_ringtrue(address) => {
            passed(check, format!("Ringtrue is already listening on {address}"))
        }
        io::ErrorKind::AddrInUse if uses_tls => {
            skipped(check, format!("{address} is in use; not probed, because it speaks TLS"))
        }
        io::ErrorKind::AddrInUse => {
            failed(check, format!("{address} is in use by another program"), "Stop it, or use another address.")
        }
        io::ErrorKind::PermissionDenied => failed(
            check,
            format!("{address}: {error}"),
            "Ports below 1024 require CAP_NET_BIND_SERVICE; grant it, or use a higher port.",
        ),
        _ => failed(check, format!("{address}: {error}"), "Use an address of this machine."),
    }
}

/// Requests `/livez`, to which both listeners respond with an `x-api-version` header.
fn is_ringtrue(address: SocketAddr) -> bool {
    const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
    let probe = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
        write!(stream, "GET /livez HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut response = vec![];
        stream.take(4_096).read_to_end(&mut response)?;
        Ok(String::from_utf8_lossy(&response).to_ascii_lowercase())
    };
    probe().is_ok_and(|response| response.contains("\r\nx-api-version: "))
}

/// File descriptors beyond connections: database, log, listeners.
const RESERVED_FILE_DESCRIPTORS: usize = 64;

pub(super) fn check_open_files(config: &Config) -> Finding {
    const CHECK: &str = "open files";
    let Some(limit) = fs::read_to_string("/proc/self/limits").ok().as_deref().and_then(parse_soft_limit) else {
        return skipped(CHECK, "cannot read the limit on this system");
    };
    let options = config.store.options;
    let needed = config.http.max_connections + options.connections.max(options.readers) + RESERVED_FILE_DESCRIPTORS;
    if limit >= needed {
        passed(CHECK, format!("at most {needed} needed, {limit} allowed"))
    } else {
        failed(
            CHECK,
            format!("{limit} allowed, but `http.max_connections` may need {needed}"),
            format!(
                "Raise the limit (`ulimit -n {needed}`, or LimitNOFILE={needed} in a systemd unit), or lower the setting."
            ),
        )
    }
}

/// Parses the soft limit from `/proc/self/limits`.
fn parse_soft_limit(limits: &str) -> Option<usize> {
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
    fn soft_limit_is_the_first_number() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             1                    2                    processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(parse_soft_limit(limits), Some(1024));
        assert_eq!(parse_soft_limit("Max open files  unlimited  unlimited  files"), Some(usize::MAX));
        assert_eq!(parse_soft_limit("nothing"), None);
    }

    #[test]
    fn address_in_use_by_another_program_is_reported() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = other.accept().unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            });
            let finding = check_address("http.listen", taken, false);
            let expected = format!("{taken} is in use by another program");
            assert_eq!(finding, failed("http.listen", expected, "Stop it, or use another address."));
        });
    }
}
