//! Reads the header of the PROXY protocol, version 2, in which TCP proxies send the client's address ahead of the
//! connection's data.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2. The text format of version 1 is not
//! supported: proxies that send it also support version 2.
//!
//! Trusted proxies must send a header. Its presence is never guessed from the data, so that clients cannot forge
//! addresses.

use std::{io, net::SocketAddr};

use ppp::v2::{Addresses, Header, PROTOCOL_PREFIX, ParseError, Protocol, Type};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Length of the fixed part: signature, version and command, family and protocol, and the length of the rest.
const PREAMBLE_BYTES: usize = 16;
/// Maximum length of a header. Proxies send a few hundred bytes at most.
const MAX_HEADER_BYTES: usize = 4096;
/// Version 2 with the command LOCAL: a connection of the proxy itself, such as a health check.
const LOCAL: u8 = 0x20;

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ProxyHeaderError {
    #[error("invalid PROXY header: {0}")]
    Invalid(#[from] ParseError),
    #[error("unsupported address family or transport in the PROXY header")]
    Family,
    #[error("the PROXY header exceeds {MAX_HEADER_BYTES} bytes")]
    TooLong,
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
    if !header.starts_with(PROTOCOL_PREFIX) {
        return Err(ProxyHeaderError::from(ParseError::Prefix).into());
    }
    let length = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if length > MAX_HEADER_BYTES {
        return Err(ProxyHeaderError::TooLong.into());
    }
    header.resize(PREAMBLE_BYTES + length, 0);
    stream.read_exact(&mut header[PREAMBLE_BYTES..]).await?;
    Ok(parse_source(&header)?)
}

/// Parses the client's address in a complete header. `None`: a connection of the proxy itself.
fn parse_source(bytes: &[u8]) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    // The specification says to ignore the rest of the header in this case.
    if bytes[PROTOCOL_PREFIX.len()] == LOCAL {
        return Ok(None);
    }
    let header = Header::try_from(bytes)?;
    let (ip, port) = match (header.protocol, header.addresses) {
        (Protocol::Stream, Addresses::IPv4(v4)) => (v4.source_address.into(), v4.source_port),
        (Protocol::Stream, Addresses::IPv6(v6)) => (v6.source_address.to_canonical(), v6.source_port),
        _ => return Err(ProxyHeaderError::Family),
    };
    let mut end = bytes.len() - header.tlv_bytes().len();
    for field in header.tlvs() {
        let field = field?;
        end += 3 + field.value.len();
        if field.kind == Type::CRC32C as u8 {
            verify_checksum(bytes, &field.value, end)?;
        }
    }
    Ok(Some(SocketAddr::new(ip, port)))
}

/// Verifies the checksum, whose field ends at `end`. It is computed over the header with zeros in that field.
fn verify_checksum(header: &[u8], checksum: &[u8], end: usize) -> Result<(), ProxyHeaderError> {
    let before = crc32c::crc32c(&header[..end - checksum.len()]);
    let zeroed = crc32c::crc32c_append(before, &[0; 4]);
    let actual = crc32c::crc32c_append(zeroed, &header[end..]);
    if checksum == actual.to_be_bytes() { Ok(()) } else { Err(ProxyHeaderError::Checksum) }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use crc32c::crc32c;
    use proptest::prelude::*;

    use super::*;

    const TCP4: [u8; 12] = [203, 0, 113, 9, 127, 0, 0, 1, 0x1f, 0x90, 0, 80];

    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [PROTOCOL_PREFIX, &[command, family], &length, body].concat()
    }

    /// Reads a header. Returns the result and the data that was not read.
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
            assert_eq!(rest, b"GET / HTTP/1.1", "bytes after the header are not consumed");
        }
    }

    #[tokio::test]
    async fn invalid_headers_are_rejected() {
        let mut long = header(0x21, 0x11, &TCP4);
        long[14..16].copy_from_slice(&4097_u16.to_be_bytes());
        for (bytes, problem) in [
            (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), ParseError::Prefix.into()),
            (b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n".to_vec(), ParseError::Prefix.into()),
            (header(0x11, 0x11, &TCP4), ParseError::Version(0x10).into()),
            (header(0x31, 0x11, &TCP4), ParseError::Version(0x30).into()),
            (header(0x22, 0x11, &TCP4), ParseError::Command(2).into()),
            (header(0x21, 0x00, &[]), ProxyHeaderError::Family),
            (header(0x21, 0x12, &TCP4), ProxyHeaderError::Family),
            (header(0x21, 0x31, &[0; 216]), ProxyHeaderError::Family),
            (header(0x21, 0x11, &TCP4[..11]), ParseError::InvalidAddresses(11, 12).into()),
            (header(0x21, 0x11, &[]), ParseError::InvalidAddresses(0, 12).into()),
            (header(0x21, 0x21, &TCP4), ParseError::InvalidAddresses(12, 36).into()),
            (header(0x21, 0x11, &[&TCP4[..], &[4]].concat()), ParseError::Leftovers(1).into()),
            (header(0x21, 0x11, &[&TCP4[..], &[4, 0, 2, 0]].concat()), ParseError::InvalidTLV(4, 2).into()),
            (header(0x21, 0x11, &[&TCP4[..], &[3, 0, 3, 1, 2, 3]].concat()), ProxyHeaderError::Checksum),
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

    #[tokio::test]
    async fn checksum_is_verified() {
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
            let _ = parse_source(&header(first, family, &body));
        }

        #[test]
        fn addresses_round_trip(bits in any::<u128>(), port in any::<u16>(), is_v4 in any::<bool>()) {
            let v6 = Ipv6Addr::from_bits(bits);
            let v4 = Ipv4Addr::from_bits(u32::try_from(bits >> 96).unwrap());
            let ports = [port.to_be_bytes(), [0, 80]].concat();
            let (bytes, address) = if is_v4 {
                (header(0x21, 0x11, &[&v4.octets()[..], &[0; 4], &ports].concat()), IpAddr::from(v4))
            } else {
                (header(0x21, 0x21, &[&v6.octets()[..], &[0; 16], &ports].concat()), IpAddr::from(v6).to_canonical())
            };
            prop_assert_eq!(parse_source(&bytes), Ok(Some(SocketAddr::new(address, port))));
        }
    }
}
