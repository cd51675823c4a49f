//! Questions as they come (RFC 1035, RFC 6891). Anybody can send anything: nothing is read beyond where it ends.

/// What a datagram may hold of which nothing else is said.
const PLAIN_ROOM: u16 = 512;
/// What a datagram may hold without being taken apart on its way.
pub(super) const LARGEST_DATAGRAM: u16 = 1_232;
/// Where a question begins: after the header.
pub(super) const HEADER: usize = 12;

const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: u8 = 63;
/// The record by which EDNS is spoken.
pub(super) const OPT: u16 = 41;

const IS_RESPONSE: u16 = 0x8000;
const OPERATION: u16 = 0x7800;
const RECURSION_DESIRED: u16 = 0x0100;

/// A message that asks for something.
pub(super) struct Query<'a> {
    pub id: u16,
    pub wants_recursion: bool,
    pub asked: Result<Question<'a>, Unanswerable>,
    pub edns: Option<Edns>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswerable {
    /// It is not of the form that questions have.
    Malformed,
    /// It asks for something else than records.
    NotAQuestion,
}

pub(super) struct Question<'a> {
    /// As it was written, in the case that it was written in.
    pub wire: &'a [u8],
    pub labels: Vec<&'a [u8]>,
    pub kind: u16,
    pub class: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edns {
    pub version: u8,
    /// How long a datagram whoever asks can take.
    pub payload: u16,
}

impl<'a> Query<'a> {
    /// `None`: nothing that is ever answered, so that two servers do not keep each other busy.
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor(message);
        let (id, flags) = (cursor.number()?, cursor.number()?);
        let counts = [cursor.number()?, cursor.number()?, cursor.number()?];
        let additional = cursor.number()?;
        if flags & IS_RESPONSE != 0 {
            return None;
        }
        let wants_recursion = flags & RECURSION_DESIRED != 0;
        let read = if flags & OPERATION != 0 {
            Err(Unanswerable::NotAQuestion)
        } else if counts == [1, 0, 0] {
            read_on(&mut cursor, additional).ok_or(Unanswerable::Malformed)
        } else {
            Err(Unanswerable::Malformed)
        };
        let (asked, edns) = match read {
            Ok((question, edns)) => (Ok(question), edns),
            Err(why) => (Err(why), None),
        };
        Some(Self { id, wants_recursion, asked, edns })
    }

    /// How long an answer in a datagram may be.
    pub(super) fn datagram_room(&self) -> usize {
        let payload = self.edns.map_or(PLAIN_ROOM, |edns| edns.payload);
        payload.clamp(PLAIN_ROOM, LARGEST_DATAGRAM).into()
    }
}

/// The question, and what is said besides.
fn read_on<'a>(cursor: &mut Cursor<'a>, additional: u16) -> Option<(Question<'a>, Option<Edns>)> {
    let all = cursor.0;
    let labels = labels(cursor)?;
    let (kind, class) = (cursor.number()?, cursor.number()?);
    let wire = all.get(..all.len() - cursor.0.len())?;
    let mut edns = None;
    for _ in 0..additional {
        skip_name(cursor)?;
        let (kind, class) = (cursor.number()?, cursor.number()?);
        let [_, version, ..] = *cursor.take(4)? else { return None };
        let length = cursor.number()?;
        cursor.take(length.into())?;
        if kind == OPT && edns.replace(Edns { version, payload: class }).is_some() {
            return None;
        }
    }
    Some((Question { wire, labels, kind, class }, edns))
}

/// The labels of a question's name. There is nothing before it that it could point to.
fn labels<'a>(cursor: &mut Cursor<'a>) -> Option<Vec<&'a [u8]>> {
    let (mut labels, mut length) = (vec![], 1);
    loop {
        match cursor.octet()? {
            0 => return Some(labels),
            size if size > LONGEST_LABEL => return None,
            size => {
                labels.push(cursor.take(size.into())?);
                length += usize::from(size) + 1;
                if length > LONGEST_NAME {
                    return None;
                }
            }
        }
    }
}

/// Of a later record: its name may point elsewhere.
fn skip_name(cursor: &mut Cursor<'_>) -> Option<()> {
    loop {
        match cursor.octet()? {
            0 => return Some(()),
            size if size <= LONGEST_LABEL => cursor.take(size.into()).map(drop)?,
            size if size >= 0xC0 => return cursor.octet().map(drop),
            _ => return None,
        }
    }
}

/// What is left of a message.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        self.0.split_off(..length)
    }

    fn octet(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.octet()?, self.octet()?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x011\x04e164\0\0\x23\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";

    #[test]
    fn a_question_is_read() {
        let query = Query::read(WHOLE).unwrap();
        assert_eq!((query.id, query.wants_recursion, query.datagram_room()), (0x1234, true, 1_232));
        let question = query.asked.ok().unwrap();
        assert_eq!(question.labels, [&b"1"[..], b"e164"]);
        assert_eq!((question.kind, question.class, question.wire.len()), (35, 1, 12));
    }

    #[test]
    fn a_message_that_ends_too_early_is_no_question() {
        for length in 0..WHOLE.len() {
            let read = Query::read(&WHOLE[..length]);
            assert_eq!(read.is_some(), length >= HEADER, "{length}");
            assert!(read.is_none_or(|query| query.asked.err() == Some(Unanswerable::Malformed)), "{length}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_message_is_told() {
        let changed = |at: usize, octet: u8| {
            let mut message = WHOLE.to_vec();
            message[at] = octet;
            Query::read(&message).map(|query| query.asked.map(|_| ()))
        };
        for (at, octet, outcome) in [
            (2, 0x81, None),
            (2, 0x29, Some(Err(Unanswerable::NotAQuestion))),
            (5, 0, Some(Err(Unanswerable::Malformed))),
            (5, 2, Some(Err(Unanswerable::Malformed))),
            (7, 1, Some(Err(Unanswerable::Malformed))),
            (9, 1, Some(Err(Unanswerable::Malformed))),
            (11, 2, Some(Err(Unanswerable::Malformed))),
            (12, 64, Some(Err(Unanswerable::Malformed))),
            (12, 0xC0, Some(Err(Unanswerable::Malformed))),
            (24, 0x80, Some(Err(Unanswerable::Malformed))),
            (2, 0, Some(Ok(()))),
        ] {
            assert_eq!(changed(at, octet), outcome, "{at}: {octet}");
        }
        let second = [&WHOLE[..HEADER - 1], &[2], &WHOLE[HEADER..], &WHOLE[24..]].concat();
        assert_eq!(Query::read(&second).unwrap().asked.err(), Some(Unanswerable::Malformed), "EDNS twice");
        let long: Vec<u8> = [&WHOLE[..HEADER], &b"\x03abc".repeat(64)[..], &WHOLE[19..]].concat();
        assert_eq!(Query::read(&long).unwrap().asked.err(), Some(Unanswerable::Malformed), "a name without end");
    }
}
