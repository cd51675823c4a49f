//! Longer messages, whose parts come in any order, twice, or not at all.

use std::{collections::HashMap, time::Duration};

use ringtrue_smpp::{
    content::Content,
    pdu::{Address, ShortMessage},
    reassembly::{Limits, Outcome, Reassembly, Refusal},
    text::{DataCoding, DefaultAlphabet, Part, Reference, split},
    udh::Segment,
};

use crate::{Target, tape::Tape};

/// `text::split` and `Reassembly`: a text comes back whole or not at all, and what is held is bounded.
pub const LONG_MESSAGE: Target = Target { name: "long_message", run, seeds, short_run: 2_000 };

fn seeds() -> Vec<Vec<u8>> {
    let short = "VERIFY 7K3QX9M20D";
    let texts = [short.repeat(12), format!("{} é€[]😀", short.repeat(30)), "😀".repeat(80), "€".repeat(161)];
    let mut seeds: Vec<_> = (0..).zip(texts).map(|(at, text)| [&[at, 7, 3][..], text.as_bytes()].concat()).collect();
    // Parts: who, reference, total, number, how long after the one before, how many octets, octets.
    let part = |who, total, number, pause, text: &[u8]| {
        [&[who, 7, total, number, pause, u8::try_from(text.len()).unwrap()][..], text].concat()
    };
    seeds.push([part(0, 2, 1, 0, b"VERIFY "), part(0, 2, 2, 0, b"7K3QX9M20D")].concat());
    seeds.push(
        [part(0, 2, 2, 0, b"ab"), part(1, 2, 1, 0, b"cd"), part(0, 2, 2, 0, b"ab"), part(0, 2, 2, 0, b"")].concat(),
    );
    seeds.push([part(0, 3, 1, 0, b"a"), part(0, 3, 2, 250, b"b"), part(0, 3, 3, 250, b"c")].concat());
    seeds.push((1..40).flat_map(|number| part(number % 4, 200 + number % 8, number, 0, &[number; 30])).collect());
    seeds
}

fn run(data: &[u8]) {
    a_text_comes_back(&mut Tape::new(data));
    what_is_held_is_bounded(Tape::new(data));
}

fn a_text_comes_back(tape: &mut Tape<'_>) {
    let reference = match tape.octet() {
        even if even.is_multiple_of(2) => Reference::Eight(even),
        odd => Reference::Sixteen(u16::from(odd) << 7),
    };
    let (first, turn) = (usize::from(tape.octet()), tape.octet());
    let text = String::from_utf8_lossy(tape.octets(4_096)).into_owned();
    let Ok(mut parts) = split(&text, reference) else { panic!("4096 octets fit into 255 messages") };
    assert!(parts.iter().all(|part| part.short_message.len() <= 160));
    let count = parts.len();
    parts.rotate_left(first % count);
    if turn % 2 == 1 {
        parts.reverse();
    }

    let address = Address::international("447700900123");
    let mut reassembly = Reassembly::new(Limits::default());
    let mut came_back = None;
    for part in parts {
        assert_eq!(came_back, None, "nothing is complete before its last part");
        let message = message(part);
        let content = message.content();
        assert_eq!(content.header_fault, None);
        let Some(segment) = content.segment else {
            assert_eq!(count, 1);
            came_back = Some(content.text(DefaultAlphabet::default()));
            continue;
        };
        for repeated in [false, true] {
            match reassembly.add(&address, &address, segment, &content, Duration::ZERO).unwrap() {
                Outcome::Complete(whole) => {
                    came_back = Some(whole.text(DefaultAlphabet::default()));
                    break;
                }
                outcome => assert_eq!(outcome == Outcome::Duplicate, repeated),
            }
        }
    }
    assert_eq!(came_back.as_deref(), Some(&*text));
    assert_eq!(reassembly.open_messages(), 0);
}

fn message(part: Part) -> ShortMessage {
    let Part { esm_class, data_coding, short_message } = part;
    ShortMessage { esm_class, data_coding, short_message, ..ShortMessage::default() }
}

fn what_is_held_is_bounded(mut tape: Tape<'_>) {
    let limits =
        Limits { patience: Duration::from_mins(5), open_messages: 5, open_messages_per_sender: 3, octets: 1_024 };
    let mut reassembly = Reassembly::new(limits);
    let mut now = Duration::ZERO;
    // What was taken in last in each place.
    let mut taken: HashMap<_, &[u8]> = HashMap::new();
    while !tape.is_empty() {
        let who = tape.octet() % 8;
        let segment = Segment { reference: (tape.octet() % 4).into(), total: tape.octet(), sequence: tape.octet() };
        now += Duration::from_secs(tape.octet().into());
        let length = tape.octet();
        let octets = tape.octets(length.into());
        let (source, destination) =
            (Address::international((who / 2).to_string()), Address::international((who % 2).to_string()));
        let content = Content {
            data_coding: DataCoding::LATIN1,
            octets,
            fill_bits: 0,
            segment: Some(segment),
            header_fault: None,
        };

        let place = |sequence| (who, segment.reference, segment.total, sequence);
        let open_before = reassembly.open_messages();
        match reassembly.add(&source, &destination, segment, &content, now) {
            Ok(outcome) => {
                taken.insert(place(segment.sequence), octets);
                if let Outcome::Complete(whole) = outcome {
                    let expected: Vec<u8> =
                        (1..=segment.total).flat_map(|sequence| taken[&place(sequence)]).copied().collect();
                    let text: Vec<char> = expected.into_iter().map(char::from).collect();
                    assert!(text.len() <= limits.octets);
                    assert_eq!(whole.text(DefaultAlphabet::default()), String::from_iter(text));
                    assert!(now < whole.first_seen + limits.patience, "its time was not up");
                }
            }
            Err(Refusal::Numbering { sequence, total }) => assert!(sequence == 0 || sequence > total),
            Err(Refusal::SenderFull) => assert!(open_before >= limits.open_messages_per_sender),
            Err(Refusal::Full) => assert!(open_before > 0 || octets.len() * 2 > limits.octets / 2),
        }
        assert!(reassembly.open_messages() <= limits.open_messages);
        assert_eq!(reassembly.next_deadline().is_some(), reassembly.open_messages() > 0);
        if length.is_multiple_of(4) {
            let open = reassembly.open_messages();
            let abandoned = reassembly.expire(now);
            assert!(abandoned.iter().all(|message| (1..message.total).contains(&message.missing)));
            assert_eq!(reassembly.open_messages() + abandoned.len(), open);
            assert!(reassembly.next_deadline().is_none_or(|deadline| deadline > now));
        }
    }
    reassembly.expire(now + limits.patience);
    assert_eq!(reassembly.open_messages(), 0, "nothing is held for ever");
}
