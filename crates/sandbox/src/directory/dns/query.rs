//! DNS query parser (RFC 1035, RFC 6891). The input is untrusted; all reads are checked.

/// Maximum UDP payload without EDNS.
const DEFAULT_UDP_PAYLOAD: u16 = 512;
/// Maximum UDP payload that avoids fragmentation.
pub(super) const MAX_UDP_PAYLOAD: u16 = 1_232;
pub(super) const HEADER_BYTES: usize = 12;

const MAX_NAME_BYTES: usize = 255;
const MAX_LABEL_BYTES: u8 = 63;
/// EDNS pseudo record.
pub(super) const OPT: u16 = 41;

const QR_FLAG: u16 = 0x8000;
const OPCODE_MASK: u16 = 0x7800;
const RD_FLAG: u16 = 0x0100;

pub(super) struct Query<'a> {
    pub id: u16,
    pub recursion_desired: bool,
    pub question: Result<Question<'a>, QueryError>,
    pub edns: Option<Edns>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryError {
    Malformed,
    /// The opcode is not QUERY.
    UnsupportedOpcode,
}

pub(super) struct Question<'a> {
    /// Original octets, with the original letter case.
    pub wire: &'a [u8],
    pub labels: Vec<&'a [u8]>,
    pub record_type: u16,
    pub class: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edns {
    pub version: u8,
    /// Maximum UDP payload of the client.
    pub payload: u16,
}

impl<'a> Query<'a> {
    /// `None`: responses and truncated headers get no response, to avoid loops between servers.
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor(message);
        let (id, flags) = (cursor.read_u16()?, cursor.read_u16()?);
        let counts = [cursor.read_u16()?, cursor.read_u16()?, cursor.read_u16()?];
        let additional = cursor.read_u16()?;
        if flags & QR_FLAG != 0 {
            return None;
        }
        let recursion_desired = flags & RD_FLAG != 0;
        let parsed = if flags & OPCODE_MASK != 0 {
            Err(QueryError::UnsupportedOpcode)
        } else if counts == [1, 0, 0] {
            parse_question(&mut cursor, additional).ok_or(QueryError::Malformed)
        } else {
            Err(QueryError::Malformed)
        };
        let (question, edns) = match parsed {
            Ok((question, edns)) => (Ok(question), edns),
            Err(error) => (Err(error), None),
        };
        Some(Self { id, recursion_desired, question, edns })
    }

    /// Maximum length of a response over UDP.
    pub(super) fn max_udp_response(&self) -> usize {
        let payload = self.edns.map_or(DEFAULT_UDP_PAYLOAD, |edns| edns.payload);
        payload.clamp(DEFAULT_UDP_PAYLOAD, MAX_UDP_PAYLOAD).into()
    }
}

/// Question section and EDNS record.
fn parse_question<'a>(cursor: &mut Cursor<'a>, additional: u16) -> Option<(Question<'a>, Option<Edns>)> {
    let all = cursor.0;
    let labels = parse_labels(cursor)?;
    let (record_type, class) = (cursor.read_u16()?, cursor.read_u16()?);
    let wire = all.get(..all.len() - cursor.0.len())?;
    let mut edns = None;
    for _ in 0..additional {
        skip_name(cursor)?;
        let (record_type, class) = (cursor.read_u16()?, cursor.read_u16()?);
        let [_, version, ..] = *cursor.take(4)? else { return None };
        let length = cursor.read_u16()?;
        cursor.take(length.into())?;
        if record_type == OPT && edns.replace(Edns { version, payload: class }).is_some() {
            return None;
        }
    }
    Some((Question { wire, labels, record_type, class }, edns))
}

/// Labels of the question's name, which cannot be compressed.
fn parse_labels<'a>(cursor: &mut Cursor<'a>) -> Option<Vec<&'a [u8]>> {
    let (mut labels, mut length) = (vec![], 1);
    loop {
        match cursor.read_u8()? {
            0 => return Some(labels),
            size if size > MAX_LABEL_BYTES => return None,
            size => {
                labels.push(cursor.take(size.into())?);
                length += usize::from(size) + 1;
                if length > MAX_NAME_BYTES {
                    return None;
                }
            }
        }
    }
}

/// Skips the name of an additional record, which may be compressed.
fn skip_name(cursor: &mut Cursor<'_>) -> Option<()> {
    loop {
        match cursor.read_u8()? {
            0 => return Some(()),
            size if size <= MAX_LABEL_BYTES => cursor.take(size.into()).map(drop)?,
            size if size >= 0xC0 => return cursor.read_u8().map(drop),
            _ => return None,
        }
    }
}

/// Unread rest of a message.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        self.0.split_off(..length)
    }

    fn read_u8(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn read_u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.read_u8()?, self.read_u8()?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x011\x04e164\0\0\x23\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";

    #[test]
    fn query_is_parsed() {
        let query = Query::parse(QUERY).unwrap();
        assert_eq!((query.id, query.recursion_desired, query.max_udp_response()), (0x1234, true, 1_232));
        let question = query.question.ok().unwrap();
        assert_eq!(question.labels, [&b"1"[..], b"e164"]);
        assert_eq!((question.record_type, question.class, question.wire.len()), (35, 1, 12));
    }

    #[test]
    fn truncated_message_is_malformed() {
        for length in 0..QUERY.len() {
            let read = Query::parse(&QUERY[..length]);
            assert_eq!(read.is_some(), length >= HEADER_BYTES, "{length}");
            assert!(read.is_none_or(|query| query.question.err() == Some(QueryError::Malformed)), "{length}");
        }
    }

    #[test]
    fn invalid_queries_are_rejected() {
        let changed = |at: usize, octet: u8| {
            let mut message = QUERY.to_vec();
            message[at] = octet;
            Query::parse(&message).map(|query| query.question.map(|_| ()))
        };
        for (at, octet, outcome) in [
            (2, 0x81, None),
            (2, 0x29, Some(Err(QueryError::UnsupportedOpcode))),
            (5, 0, Some(Err(QueryError::Malformed))),
            (5, 2, Some(Err(QueryError::Malformed))),
            (7, 1, Some(Err(QueryError::Malformed))),
            (9, 1, Some(Err(QueryError::Malformed))),
            (11, 2, Some(Err(QueryError::Malformed))),
            (12, 64, Some(Err(QueryError::Malformed))),
            (12, 0xC0, Some(Err(QueryError::Malformed))),
            (24, 0x80, Some(Err(QueryError::Malformed))),
            (2, 0, Some(Ok(()))),
        ] {
            assert_eq!(changed(at, octet), outcome, "{at}: {octet}");
        }
        let second = [&QUERY[..HEADER_BYTES - 1], &[2], &QUERY[HEADER_BYTES..], &QUERY[24..]].concat();
        assert_eq!(Query::parse(&second).unwrap().question.err(), Some(QueryError::Malformed), "repeated EDNS record");
        let long: Vec<u8> = [&QUERY[..HEADER_BYTES], &b"\x03abc".repeat(64)[..], &QUERY[19..]].concat();
        assert_eq!(Query::parse(&long).unwrap().question.err(), Some(QueryError::Malformed), "unterminated name");
    }
}
