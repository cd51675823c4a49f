use std::time::Duration;

use ringtrue_smpp::{
    pdu::{Address, ShortMessage},
    reassembly::{Limits, Outcome, Reassembly, Refusal},
    text::{DataCoding, DefaultAlphabet},
    udh::Segment,
};

struct Inbox {
    parts: Reassembly<Duration>,
}

impl Inbox {
    fn new(limits: Limits) -> Self {
        Self { parts: Reassembly::new(limits) }
    }

    fn add(&mut self, from: &str, segment: (u16, u8, u8), text: &str, at: u64) -> Result<Outcome<Duration>, Refusal> {
        let message = ShortMessage { short_message: text.into(), ..ShortMessage::default() };
        let (reference, total, sequence) = segment;
        self.parts.add(
            &Address::international(from),
            &Address::international("999"),
            Segment { reference, total, sequence },
            &message.content(),
            Duration::from_secs(at),
        )
    }
}

fn text(outcome: Result<Outcome<Duration>, Refusal>) -> (String, u64) {
    match outcome {
        Ok(Outcome::Complete(message)) => (message.text(DefaultAlphabet::Gsm0338), message.first_seen.as_secs()),
        other => panic!("{other:?}"),
    }
}

const SMALL: Limits =
    Limits { patience: Duration::from_secs(10), open_messages: 3, open_messages_per_sender: 2, octets: 1000 };

#[test]
fn parts_come_in_any_order_and_twice() {
    let mut inbox = Inbox::new(SMALL);
    assert_eq!(inbox.add("1", (7, 3, 3), "c", 1), Ok(Outcome::Held { first: true, missing: 2 }));
    assert_eq!(inbox.add("1", (7, 3, 1), "a", 2), Ok(Outcome::Held { first: false, missing: 1 }));
    assert_eq!(inbox.add("1", (7, 3, 1), "a", 3), Ok(Outcome::Duplicate));
    // Another sender, reference or total is another message.
    assert_eq!(inbox.add("2", (7, 3, 2), "x", 3), Ok(Outcome::Held { first: true, missing: 2 }));
    assert_eq!(inbox.add("1", (8, 3, 2), "x", 3), Ok(Outcome::Held { first: true, missing: 2 }));
    assert_eq!(inbox.parts.open_messages(), 3);
    assert_eq!(text(inbox.add("1", (7, 3, 2), "b", 4)), ("abc".into(), 1));
    assert_eq!(inbox.parts.open_messages(), 2);
    assert_eq!(text(inbox.add("1", (9, 1, 1), "alone", 4)), ("alone".into(), 4));
}

#[test]
fn impossible_numbers_are_refused() {
    let mut inbox = Inbox::new(SMALL);
    for (total, sequence) in [(0, 0), (0, 1), (2, 0), (2, 3)] {
        assert_eq!(inbox.add("1", (7, total, sequence), "", 0), Err(Refusal::Numbering { sequence, total }));
    }
    assert_eq!(inbox.parts.open_messages(), 0);
}

#[test]
fn time_ends_a_message_whether_or_not_anyone_looked() {
    let mut inbox = Inbox::new(SMALL);
    assert!(inbox.add("1", (7, 2, 1), "old", 0).is_ok());
    assert_eq!(inbox.parts.next_deadline(), Some(Duration::from_secs(10)));
    assert_eq!(inbox.add("1", (7, 2, 2), "late", 10), Ok(Outcome::Held { first: true, missing: 1 }));
    assert_eq!(text(inbox.add("1", (7, 2, 1), "new", 19)), ("newlate".into(), 10));

    assert!(inbox.add("1", (7, 2, 1), "a", 20).is_ok());
    assert!(inbox.parts.expire(Duration::from_secs(29)).is_empty());
    let abandoned = inbox.parts.expire(Duration::from_secs(30));
    assert_eq!(abandoned.iter().map(|gone| (gone.total, gone.missing)).collect::<Vec<_>>(), [(2, 1)]);
    assert_eq!((inbox.parts.open_messages(), inbox.parts.next_deadline()), (0, None));
}

#[test]
fn a_reference_used_again_begins_a_new_message() {
    let mut inbox = Inbox::new(SMALL);
    assert!(inbox.add("1", (7, 2, 1), "first try", 0).is_ok());
    assert_eq!(inbox.add("1", (7, 2, 1), "second ", 1), Ok(Outcome::Held { first: true, missing: 1 }));
    assert_eq!(text(inbox.add("1", (7, 2, 2), "try", 2)), ("second try".into(), 1));
}

#[test]
fn room_is_bounded_and_what_is_held_stays() {
    let mut inbox = Inbox::new(SMALL);
    assert!(inbox.add("1", (1, 2, 1), "a", 0).is_ok());
    assert!(inbox.add("1", (2, 2, 1), "a", 0).is_ok());
    assert_eq!(inbox.add("1", (3, 2, 1), "a", 0), Err(Refusal::SenderFull));
    assert!(inbox.add("2", (1, 2, 1), "a", 0).is_ok());
    assert_eq!(inbox.add("3", (1, 2, 1), "a", 0), Err(Refusal::Full));
    assert_eq!(text(inbox.add("3", (1, 1, 1), "whole by itself", 0)).0, "whole by itself");
    assert_eq!(inbox.add("2", (1, 2, 2), &"b".repeat(900), 0), Err(Refusal::Full));
    assert_eq!(text(inbox.add("2", (1, 2, 2), "b", 0)).0, "ab");
    assert_eq!(text(inbox.add("1", (2, 2, 2), "b", 0)).0, "ab");
    assert_eq!(text(inbox.add("1", (1, 2, 2), "b", 0)).0, "ab");
    assert_eq!(inbox.parts.open_messages(), 0);
}

#[test]
fn parts_without_octets_take_room_too() {
    let mut inbox = Inbox::new(SMALL);
    let taken = (1..=255).take_while(|sequence| inbox.add("1", (1, 255, *sequence), "", 0).is_ok()).count();
    assert!((1..100).contains(&taken), "{taken}");
}

#[test]
fn parts_of_different_codings_are_read_each_in_its_own() {
    let mut parts = Reassembly::new(SMALL);
    let address = Address::international("1");
    let message = |data_coding, octets: &[u8]| ShortMessage {
        data_coding,
        short_message: octets.to_vec(),
        ..ShortMessage::default()
    };
    // A sender that cuts through a character, then goes on in another coding.
    let pieces = [
        message(DataCoding::UCS2, b"\xd8\x3d"),
        message(DataCoding::UCS2, b"\xde\x00"),
        message(DataCoding::DEFAULT, b"\x00!"),
    ];
    let mut last = Ok(Outcome::Duplicate);
    for (sequence, piece) in (1..).zip(&pieces) {
        let segment = Segment { reference: 1, total: 3, sequence };
        last = parts.add(&address, &address, segment, &piece.content(), Duration::ZERO);
    }
    assert_eq!(text(last).0, "😀@!");
}
