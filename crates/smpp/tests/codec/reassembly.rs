use std::time::Duration;

use ringtrue_smpp::{
    pdu::{Address, ShortMessage},
    reassembly::{PartOutcome, Reassembly, ReassemblyError, ReassemblyLimits},
    text::{DataCoding, DefaultAlphabet},
    udh::{ConcatenationReference, Segment},
};

struct TestReassembly {
    parts: Reassembly<Duration>,
}

impl TestReassembly {
    fn new(limits: ReassemblyLimits) -> Self {
        Self { parts: Reassembly::new(limits) }
    }

    fn add(
        &mut self,
        from: &str,
        segment: (u16, u8, u8),
        text: &str,
        at: u64,
    ) -> Result<PartOutcome<Duration>, ReassemblyError> {
        let (reference, total, sequence) = segment;
        self.add_segment(
            from,
            Segment { reference: ConcatenationReference::SixteenBit(reference), total, sequence },
            text,
            at,
        )
    }

    fn add_segment(
        &mut self,
        from: &str,
        segment: Segment,
        text: &str,
        at: u64,
    ) -> Result<PartOutcome<Duration>, ReassemblyError> {
        let message = ShortMessage { short_message: text.into(), ..ShortMessage::default() };
        self.parts.add(
            &Address::international(from),
            &Address::international("999"),
            segment,
            &message.content(),
            Duration::from_secs(at),
        )
    }
}

fn text(outcome: Result<PartOutcome<Duration>, ReassemblyError>) -> (String, u64) {
    match outcome {
        Ok(PartOutcome::Complete(message)) => {
            (message.decode_text(DefaultAlphabet::Gsm0338), message.first_seen.as_secs())
        }
        other => panic!("{other:?}"),
    }
}

const SMALL_LIMITS: ReassemblyLimits = ReassemblyLimits {
    timeout: Duration::from_secs(10),
    max_messages: 3,
    max_messages_per_sender: 2,
    max_octets: 1000,
};

#[test]
fn parts_may_be_reordered_and_repeated() {
    let mut reassembly = TestReassembly::new(SMALL_LIMITS);
    assert_eq!(reassembly.add("1", (7, 3, 3), "c", 1), Ok(PartOutcome::Stored { first: true, missing: 2 }));
    assert_eq!(reassembly.add("1", (7, 3, 1), "a", 2), Ok(PartOutcome::Stored { first: false, missing: 1 }));
    assert_eq!(reassembly.add("1", (7, 3, 1), "a", 3), Ok(PartOutcome::Duplicate));
    // A different sender, reference or total is a different message.
    assert_eq!(reassembly.add("2", (7, 3, 2), "x", 3), Ok(PartOutcome::Stored { first: true, missing: 2 }));
    assert_eq!(reassembly.add("1", (8, 3, 2), "x", 3), Ok(PartOutcome::Stored { first: true, missing: 2 }));
    assert_eq!(reassembly.parts.incomplete_message_count(), 3);
    assert_eq!(text(reassembly.add("1", (7, 3, 2), "b", 4)), ("abc".into(), 1));
    assert_eq!(reassembly.parts.incomplete_message_count(), 2);
    assert_eq!(text(reassembly.add("1", (9, 1, 1), "alone", 4)), ("alone".into(), 4));
}

#[test]
fn invalid_part_numbers_are_rejected() {
    let mut reassembly = TestReassembly::new(SMALL_LIMITS);
    for (total, sequence) in [(0, 0), (0, 1), (2, 0), (2, 3)] {
        assert_eq!(
            reassembly.add("1", (7, total, sequence), "", 0),
            Err(ReassemblyError::InvalidPartNumber { sequence, total })
        );
    }
    assert_eq!(reassembly.parts.incomplete_message_count(), 0);
}

#[test]
fn expired_message_is_not_completed() {
    let mut reassembly = TestReassembly::new(SMALL_LIMITS);
    assert!(reassembly.add("1", (7, 2, 1), "old", 0).is_ok());
    assert_eq!(reassembly.parts.next_deadline(), Some(Duration::from_secs(10)));
    assert_eq!(reassembly.add("1", (7, 2, 2), "late", 10), Ok(PartOutcome::Stored { first: true, missing: 1 }));
    assert_eq!(text(reassembly.add("1", (7, 2, 1), "new", 19)), ("newlate".into(), 10));

    assert!(reassembly.add("1", (7, 2, 1), "a", 20).is_ok());
    assert!(reassembly.parts.expire(Duration::from_secs(29)).is_empty());
    let expired = reassembly.parts.expire(Duration::from_secs(30));
    assert_eq!(expired.iter().map(|message| (message.total, message.missing)).collect::<Vec<_>>(), [(2, 1)]);
    assert_eq!((reassembly.parts.incomplete_message_count(), reassembly.parts.next_deadline()), (0, None));
}

#[test]
fn reused_reference_starts_a_new_message() {
    let mut reassembly = TestReassembly::new(SMALL_LIMITS);
    assert!(reassembly.add("1", (7, 2, 1), "first try", 0).is_ok());
    assert_eq!(reassembly.add("1", (7, 2, 1), "second ", 1), Ok(PartOutcome::Stored { first: true, missing: 1 }));
    assert_eq!(text(reassembly.add("1", (7, 2, 2), "try", 2)), ("second try".into(), 1));
}

#[test]
fn references_of_different_widths_are_different() {
    let mut reassembly = TestReassembly::new(SMALL_LIMITS);
    let eight = |sequence| Segment { reference: ConcatenationReference::EightBit(7), total: 2, sequence };
    let sixteen = |sequence| Segment { reference: ConcatenationReference::SixteenBit(7), total: 2, sequence };
    let first = Ok(PartOutcome::Stored { first: true, missing: 1 });
    assert_eq!(reassembly.add_segment("1", eight(1), "a", 0), first);
    assert_eq!(reassembly.add_segment("1", sixteen(2), "d", 0), first);
    assert_eq!(text(reassembly.add_segment("1", eight(2), "b", 0)).0, "ab");
    assert_eq!(text(reassembly.add_segment("1", sixteen(1), "c", 0)).0, "cd");
}

#[test]
fn limits_reject_new_parts_and_keep_stored_ones() {
    let mut reassembly = TestReassembly::new(SMALL_LIMITS);
    assert!(reassembly.add("1", (1, 2, 1), "a", 0).is_ok());
    assert!(reassembly.add("1", (2, 2, 1), "a", 0).is_ok());
    assert_eq!(reassembly.add("1", (3, 2, 1), "a", 0), Err(ReassemblyError::SenderLimitReached));
    assert!(reassembly.add("2", (1, 2, 1), "a", 0).is_ok());
    assert_eq!(reassembly.add("3", (1, 2, 1), "a", 0), Err(ReassemblyError::LimitReached));
    assert_eq!(text(reassembly.add("3", (1, 1, 1), "single part", 0)).0, "single part");
    assert_eq!(reassembly.add("2", (1, 2, 2), &"b".repeat(900), 0), Err(ReassemblyError::LimitReached));
    assert_eq!(text(reassembly.add("2", (1, 2, 2), "b", 0)).0, "ab");
    assert_eq!(text(reassembly.add("1", (2, 2, 2), "b", 0)).0, "ab");
    assert_eq!(text(reassembly.add("1", (1, 2, 2), "b", 0)).0, "ab");
    assert_eq!(reassembly.parts.incomplete_message_count(), 0);
}

#[test]
fn empty_parts_count_towards_the_limit() {
    let mut reassembly = TestReassembly::new(SMALL_LIMITS);
    let stored = (1..=255).take_while(|sequence| reassembly.add("1", (1, 255, *sequence), "", 0).is_ok()).count();
    assert!((1..100).contains(&stored), "{stored}");
}

#[test]
fn parts_with_different_codings_are_decoded_separately() {
    let mut parts = Reassembly::new(SMALL_LIMITS);
    let address = Address::international("1");
    let message = |data_coding, octets: &[u8]| ShortMessage {
        data_coding,
        short_message: octets.to_vec(),
        ..ShortMessage::default()
    };
    // The first two parts split a surrogate pair, and the third one has another coding.
    let messages = [
        message(DataCoding::UCS2, b"\xd8\x3d"),
        message(DataCoding::UCS2, b"\xde\x00"),
        message(DataCoding::DEFAULT, b"\x00!"),
    ];
    let mut last = Ok(PartOutcome::Duplicate);
    for (sequence, message) in (1..).zip(&messages) {
        let segment = Segment { reference: ConcatenationReference::EightBit(1), total: 3, sequence };
        last = parts.add(&address, &address, segment, &message.content(), Duration::ZERO);
    }
    assert_eq!(text(last).0, "😀@!");
}
