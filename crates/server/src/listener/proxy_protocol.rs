//! PROXY protocol version 2: TCP proxies send the client address ahead of the connection's data.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2. The text format of version 1 is not
//! supported: proxies that send it also support version 2.
//!
//! Trusted proxies must send a header. Its presence is never guessed from the data, so that clients cannot forge
//! addresses.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and protocol, and the length of the rest.
const PREAMBLE_BYTES: usize = 16;
/// Proxies send a few hundred bytes at most.
const MAX_HEADER_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    #[error("the connection does not start with a PROXY protocol version 2 header")]
    Signature,
    #[error("unknown PROXY command")]
    Command,
    #[error("unsupported address family or transport in the PROXY header")]
    Family,
    #[error("the PROXY header exceeds {MAX_HEADER_BYTES} bytes")]
    TooLong,
    #[error("inconsistent length in the PROXY header")]
    Length,
    #[error("wrong checksum in the PROXY header")]
    Checksum,
}

impl From<ProxyHeaderError> for io::Error {
    fn from(problem: ProxyHeaderError) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, problem)
    }
}

/// Reads exactly one header. Returns the client address, or `None` for a connection of the proxy itself.
pub async fn read_header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; PREAMBLE_BYTES];
    stream.read_exact(&mut header).await?;
    let length = parse_length(&header)?;
    header.resize(PREAMBLE_BYTES + length, 0);
    stream.read_exact(&mut header[PREAMBLE_BYTES..]).await?;
    Ok(parse_source(&mut header)?)
}

/// Returns the length of the data after the preamble.
fn parse_length(preamble: &[u8]) -> Result<usize, ProxyHeaderError> {
    let version_is_two = preamble.starts_with(&SIGNATURE) && preamble[12] >> 4 == 2;
    if !version_is_two {
        return Err(ProxyHeaderError::Signature);
    }
    let length = usize::from(u16::from_be_bytes([preamble[14], preamble[15]]));
    if length > MAX_HEADER_BYTES { Err(ProxyHeaderError::TooLong) } else { Ok(length) }
}

/// Returns the client address of a complete header. Zeroes the checksum field.
fn parse_source(header: &mut [u8]) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    const LOCAL: u8 = 0;
    const PROXY: u8 = 1;
    match header[12] & 0x0f {
        // Health check of the proxy: the rest is ignored.
        LOCAL => return Ok(None),
        PROXY => {}
        _ => return Err(ProxyHeaderError::Command),
    }
    let (address, addresses_end) = parse_addresses(header[13], &header[PREAMBLE_BYTES..])?;
    if let Some(checksum) = find_checksum(header, PREAMBLE_BYTES + addresses_end)? {
        let mut expected = [0; 4];
        expected.copy_from_slice(&header[checksum..checksum + 4]);
        header[checksum..checksum + 4].fill(0);
        if crc32c(header) != u32::from_be_bytes(expected) {
            return Err(ProxyHeaderError::Checksum);
        }
    }
    Ok(Some(address))
}

/// Returns the source address and the length of the address block.
fn parse_addresses(family: u8, body: &[u8]) -> Result<(SocketAddr, usize), ProxyHeaderError> {
    const TCP_OVER_IPV4: u8 = 0x11;
    const TCP_OVER_IPV6: u8 = 0x21;
    // Source and destination addresses, then their ports.
    let (address, port_at, end): (IpAddr, usize, usize) = match family {
        TCP_OVER_IPV4 => (Ipv4Addr::from(*body.first_chunk::<4>().ok_or(ProxyHeaderError::Length)?).into(), 8, 12),
        TCP_OVER_IPV6 => (Ipv6Addr::from(*body.first_chunk::<16>().ok_or(ProxyHeaderError::Length)?).into(), 32, 36),
        _ => return Err(ProxyHeaderError::Family),
    };
    let ports = body.get(port_at..end).ok_or(ProxyHeaderError::Length)?;
    let port = u16::from_be_bytes([ports[0], ports[1]]);
    Ok((SocketAddr::new(address.to_canonical(), port), end))
}

/// Scans the type-length-value fields after the addresses and returns the position of the checksum.
fn find_checksum(header: &[u8], from: usize) -> Result<Option<usize>, ProxyHeaderError> {
    const CRC32C: u8 = 0x03;
    let (mut at, mut checksum) = (from, None);
    while at < header.len() {
        let [kind, high, low] = *header[at..].first_chunk::<3>().ok_or(ProxyHeaderError::Length)?;
        let (value, length) = (at + 3, usize::from(u16::from_be_bytes([high, low])));
        at = value + length;
        if at > header.len() || (kind == CRC32C && length != 4) {
            return Err(ProxyHeaderError::Length);
        }
        if kind == CRC32C {
            checksum = Some(value);
        }
    }
    Ok(checksum)
}

/// CRC-32C, computed bit by bit: few proxies send it, once per connection.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TCP4: [u8; 12] = [203, 0, 113, 9, 127, 0, 0, 1, 0x1f, 0x90, 0, 80];

    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, body].concat()
    }

    /// Returns the result and the unread data.
    async fn read_from(bytes: &[u8]) -> (io::Result<Option<SocketAddr>>, Vec<u8>) {
        let mut rest = bytes;
        let read = read_header(&mut rest).await;
        (read, rest.to_vec())
    }

    #[tokio::test]
    async fn header_contains_the_client_address() {
        let tcp6 = [&Ipv6Addr::from_bits(0x2001_0db8 << 96 | 1).octets()[..], &[0; 16], &[0, 5, 0, 80]].concat();
        let mapped = [&Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets()[..], &[0; 16], &[0, 5, 0, 80]].concat();
        let with_more = [&TCP4[..], &[0x04, 0, 2, 0, 0], &[0xea, 0, 1, 7]].concat();
        for (bytes, source) in [
            (header(0x21, 0x11, &TCP4), Some("203.0.113.9:8080")),
            (header(0x21, 0x11, &with_more), Some("203.0.113.9:8080")),
            (header(0x21, 0x21, &tcp6), Some("[2001:db8::1]:5")),
            (header(0x21, 0x21, &mapped), Some("192.0.2.1:5")),
            (header(0x20, 0x00, &[]), None),
            (header(0x20, 0x11, &TCP4), None),
            (header(0x20, 0xff, &[1, 2, 3]), None),
        ] {
            let (read, rest) = read_from(&[&bytes[..], b"GET / HTTP/1.1"].concat()).await;
            assert_eq!(read.unwrap(), source.map(|source| source.parse().unwrap()));
            assert_eq!(rest, b"GET / HTTP/1.1", "what follows is left alone");
        }
    }

    #[tokio::test]
    async fn invalid_headers_are_rejected() {
        let mut long = header(0x21, 0x11, &TCP4);
        long[14..16].copy_from_slice(&4097_u16.to_be_bytes());
        for (bytes, problem) in [
            (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), ProxyHeaderError::Signature),
            (b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n".to_vec(), ProxyHeaderError::Signature),
            (header(0x11, 0x11, &TCP4), ProxyHeaderError::Signature),
            (header(0x31, 0x11, &TCP4), ProxyHeaderError::Signature),
            (header(0x22, 0x11, &TCP4), ProxyHeaderError::Command),
            (header(0x21, 0x00, &[]), ProxyHeaderError::Family),
            (header(0x21, 0x12, &TCP4), ProxyHeaderError::Family),
            (header(0x21, 0x31, &[0; 216]), ProxyHeaderError::Family),
            (header(0x21, 0x11, &TCP4[..11]), ProxyHeaderError::Length),
            (header(0x21, 0x11, &[]), ProxyHeaderError::Length),
            (header(0x21, 0x21, &TCP4), ProxyHeaderError::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[4]].concat()), ProxyHeaderError::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[4, 0, 2, 0]].concat()), ProxyHeaderError::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[3, 0, 3, 1, 2, 3]].concat()), ProxyHeaderError::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[3, 0, 4, 1, 2, 3, 4]].concat()), ProxyHeaderError::Checksum),
            (long, ProxyHeaderError::TooLong),
        ] {
            let error = read_from(&bytes).await.0.unwrap_err();
            assert_eq!(error.to_string(), problem.to_string(), "{bytes:x?}");
        }
        let whole = header(0x21, 0x11, &TCP4);
        for end in 0..whole.len() {
            assert_eq!(read_from(&whole[..end]).await.0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// Uses the check value of the CRC-32C definition.
    #[tokio::test]
    async fn checksum_is_verified() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut bytes = header(0x21, 0x11, &[&TCP4[..], &[3, 0, 4, 0, 0, 0, 0], &[4, 0, 1, 0]].concat());
        let checksum = crc32c(&bytes).to_be_bytes();
        bytes[31..35].copy_from_slice(&checksum);
        assert_eq!(read_from(&bytes).await.0.unwrap(), Some("203.0.113.9:8080".parse().unwrap()));
        bytes[16] ^= 1;
        assert_eq!(read_from(&bytes).await.0.unwrap_err().to_string(), ProxyHeaderError::Checksum.to_string());
    }

    proptest! {
        #[test]
        fn arbitrary_headers_do_not_panic(
            first in any::<u8>(), family in prop_oneof![Just(0x11_u8), Just(0x21), any::<u8>()],
            body in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = header(first, family, &body);
            if parse_length(&bytes[..PREAMBLE_BYTES]).is_ok() {
                let _ = parse_source(&mut bytes);
            }
        }

        #[test]
        fn addresses_round_trip(bits in any::<u128>(), port in any::<u16>(), is_v4 in any::<bool>()) {
            let v6 = Ipv6Addr::from_bits(bits);
            let v4 = Ipv4Addr::from_bits(u32::try_from(bits >> 96).unwrap());
            let ports = [port.to_be_bytes(), [0, 80]].concat();
            let (mut bytes, address) = if is_v4 {
                (header(0x21, 0x11, &[&v4.octets()[..], &[0; 4], &ports].concat()), IpAddr::from(v4))
            } else {
                (header(0x21, 0x21, &[&v6.octets()[..], &[0; 16], &ports].concat()), IpAddr::from(v6).to_canonical())
            };
            prop_assert_eq!(parse_source(&mut bytes), Ok(Some(SocketAddr::new(address, port))));
        }
    }
}
