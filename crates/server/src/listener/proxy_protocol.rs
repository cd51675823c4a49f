//! The PROXY protocol, version 2: how a proxy that carries bytes says whose connection it carries.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2. Version 1, which is text, is not spoken:
//! every proxy that speaks it speaks version 2 too.
//!
//! Only proxies that are trusted are asked for a header, and then they must send one: whether there is one is never
//! guessed from what comes first, or anybody could be anyone.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, version and command, family and protocol, and the length of what follows.
const PREAMBLE: usize = 16;
/// Proxies send some hundred bytes at most.
const MOST: usize = 4096;

/// A header that is none, or none that says whom a proxy speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAHeader {
    #[error("the connection does not begin with a header of version 2")]
    Signature,
    #[error("the header has a command that is not known")]
    Command,
    #[error("the header is not about TCP over IPv4 or IPv6")]
    Family,
    #[error("the header is longer than {MOST} bytes")]
    TooLong,
    #[error("the header says less, or more, than its length")]
    Length,
    #[error("the header's checksum is wrong")]
    Checksum,
}

impl From<NotAHeader> for io::Error {
    fn from(problem: NotAHeader) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, problem)
    }
}

/// Reads a header and not a byte of what follows it. Whom the proxy speaks for; `None`: for itself.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; PREAMBLE];
    stream.read_exact(&mut header).await?;
    let length = length(&header)?;
    header.resize(PREAMBLE + length, 0);
    stream.read_exact(&mut header[PREAMBLE..]).await?;
    Ok(source(&mut header)?)
}

/// How much follows the preamble.
fn length(preamble: &[u8]) -> Result<usize, NotAHeader> {
    let version_is_two = preamble.starts_with(&SIGNATURE) && preamble[12] >> 4 == 2;
    if !version_is_two {
        return Err(NotAHeader::Signature);
    }
    let length = usize::from(u16::from_be_bytes([preamble[14], preamble[15]]));
    if length > MOST { Err(NotAHeader::TooLong) } else { Ok(length) }
}

/// Whom a whole header names. The checksum in it is overwritten, if there is one.
fn source(header: &mut [u8]) -> Result<Option<SocketAddr>, NotAHeader> {
    const LOCAL: u8 = 0;
    const PROXY: u8 = 1;
    match header[12] & 0x0f {
        // A health check of the proxy's own: whatever else it says does not count.
        LOCAL => return Ok(None),
        PROXY => {}
        _ => return Err(NotAHeader::Command),
    }
    let (address, addresses_end) = addresses(header[13], &header[PREAMBLE..])?;
    if let Some(checksum) = checksum_place(header, PREAMBLE + addresses_end)? {
        let mut said = [0; 4];
        said.copy_from_slice(&header[checksum..checksum + 4]);
        header[checksum..checksum + 4].fill(0);
        if crc32c(header) != u32::from_be_bytes(said) {
            return Err(NotAHeader::Checksum);
        }
    }
    Ok(Some(address))
}

/// The source, and how long the addresses are.
fn addresses(family: u8, body: &[u8]) -> Result<(SocketAddr, usize), NotAHeader> {
    const TCP_OVER_IPV4: u8 = 0x11;
    const TCP_OVER_IPV6: u8 = 0x21;
    // Source, destination, and the port of each.
    let (address, port_at, end): (IpAddr, usize, usize) = match family {
        TCP_OVER_IPV4 => (Ipv4Addr::from(*body.first_chunk::<4>().ok_or(NotAHeader::Length)?).into(), 8, 12),
        TCP_OVER_IPV6 => (Ipv6Addr::from(*body.first_chunk::<16>().ok_or(NotAHeader::Length)?).into(), 32, 36),
        _ => return Err(NotAHeader::Family),
    };
    let ports = body.get(port_at..end).ok_or(NotAHeader::Length)?;
    let port = u16::from_be_bytes([ports[0], ports[1]]);
    Ok((SocketAddr::new(address.to_canonical(), port), end))
}

/// Walks through what may follow the addresses: a type, a length and a value each. Where the checksum stands, if any.
fn checksum_place(header: &[u8], from: usize) -> Result<Option<usize>, NotAHeader> {
    const CRC32C: u8 = 0x03;
    let (mut at, mut checksum) = (from, None);
    while at < header.len() {
        let [kind, high, low] = *header[at..].first_chunk::<3>().ok_or(NotAHeader::Length)?;
        let (value, length) = (at + 3, usize::from(u16::from_be_bytes([high, low])));
        at = value + length;
        if at > header.len() || (kind == CRC32C && length != 4) {
            return Err(NotAHeader::Length);
        }
        if kind == CRC32C {
            checksum = Some(value);
        }
    }
    Ok(checksum)
}

/// Castagnoli's checksum, bit by bit: few proxies send one, once a connection.
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

    /// What is read, and what is left for whoever reads next.
    async fn taken(bytes: &[u8]) -> (io::Result<Option<SocketAddr>>, Vec<u8>) {
        let mut rest = bytes;
        let read = read(&mut rest).await;
        (read, rest.to_vec())
    }

    #[tokio::test]
    async fn a_header_names_whom_the_proxy_speaks_for() {
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
            let (read, rest) = taken(&[&bytes[..], b"GET / HTTP/1.1"].concat()).await;
            assert_eq!(read.unwrap(), source.map(|source| source.parse().unwrap()));
            assert_eq!(rest, b"GET / HTTP/1.1", "what follows is left alone");
        }
    }

    #[tokio::test]
    async fn anything_else_is_refused() {
        let mut long = header(0x21, 0x11, &TCP4);
        long[14..16].copy_from_slice(&4097_u16.to_be_bytes());
        for (bytes, problem) in [
            (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), NotAHeader::Signature),
            (b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n".to_vec(), NotAHeader::Signature),
            (header(0x11, 0x11, &TCP4), NotAHeader::Signature),
            (header(0x31, 0x11, &TCP4), NotAHeader::Signature),
            (header(0x22, 0x11, &TCP4), NotAHeader::Command),
            (header(0x21, 0x00, &[]), NotAHeader::Family),
            (header(0x21, 0x12, &TCP4), NotAHeader::Family),
            (header(0x21, 0x31, &[0; 216]), NotAHeader::Family),
            (header(0x21, 0x11, &TCP4[..11]), NotAHeader::Length),
            (header(0x21, 0x11, &[]), NotAHeader::Length),
            (header(0x21, 0x21, &TCP4), NotAHeader::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[4]].concat()), NotAHeader::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[4, 0, 2, 0]].concat()), NotAHeader::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[3, 0, 3, 1, 2, 3]].concat()), NotAHeader::Length),
            (header(0x21, 0x11, &[&TCP4[..], &[3, 0, 4, 1, 2, 3, 4]].concat()), NotAHeader::Checksum),
            (long, NotAHeader::TooLong),
        ] {
            let error = taken(&bytes).await.0.unwrap_err();
            assert_eq!(error.to_string(), problem.to_string(), "{bytes:x?}");
        }
        let whole = header(0x21, 0x11, &TCP4);
        for end in 0..whole.len() {
            assert_eq!(taken(&whole[..end]).await.0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// The check value of the checksum's definition, and a header with one.
    #[tokio::test]
    async fn a_checksum_is_verified() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut bytes = header(0x21, 0x11, &[&TCP4[..], &[3, 0, 4, 0, 0, 0, 0], &[4, 0, 1, 0]].concat());
        let checksum = crc32c(&bytes).to_be_bytes();
        bytes[31..35].copy_from_slice(&checksum);
        assert_eq!(taken(&bytes).await.0.unwrap(), Some("203.0.113.9:8080".parse().unwrap()));
        bytes[16] ^= 1;
        assert_eq!(taken(&bytes).await.0.unwrap_err().to_string(), NotAHeader::Checksum.to_string());
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(
            first in any::<u8>(), family in prop_oneof![Just(0x11_u8), Just(0x21), any::<u8>()],
            body in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = header(first, family, &body);
            if length(&bytes[..PREAMBLE]).is_ok() {
                let _ = source(&mut bytes);
            }
        }

        #[test]
        fn every_address_is_read_as_it_was_written(bits in any::<u128>(), port in any::<u16>(), is_v4 in any::<bool>()) {
            let v6 = Ipv6Addr::from_bits(bits);
            let v4 = Ipv4Addr::from_bits(u32::try_from(bits >> 96).unwrap());
            let ports = [port.to_be_bytes(), [0, 80]].concat();
            let (mut bytes, address) = if is_v4 {
                (header(0x21, 0x11, &[&v4.octets()[..], &[0; 4], &ports].concat()), IpAddr::from(v4))
            } else {
                (header(0x21, 0x21, &[&v6.octets()[..], &[0; 16], &ports].concat()), IpAddr::from(v6).to_canonical())
            };
            prop_assert_eq!(source(&mut bytes), Ok(Some(SocketAddr::new(address, port))));
        }
    }
}
