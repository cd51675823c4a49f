//! Splitting and reassembly of concatenated messages.

use std::{collections::HashMap, time::Duration};

use ringtrue_smpp::{
    content::MessageContent,
    pdu::{Address, ShortMessage},
    reassembly::{PartOutcome, Reassembly, ReassemblyError, ReassemblyLimits},
    text::{DataCoding, DefaultAlphabet, MessagePart, split_text},
    udh::{ConcatenationReference, Segment},
};

use crate::{Target, input_reader::InputReader};

/// `text::split_text` and `Reassembly`: a text is reassembled completely or not at all, and memory is bounded.
pub const CONCATENATED_MESSAGE: Target = Target { name: "concatenated_message", run, seeds, short_run_inputs: 2_000 };

fn seeds() -> Vec<Vec<u8>> {
    let short = "VERIFY 7K3QX9M20D";
    let texts = [short.repeat(12), format!("{} é€[]😀", short.repeat(30)), "😀".repeat(80), "€".repeat(161)];
    let mut seeds: Vec<_> = (0..).zip(texts).map(|(at, text)| [&[at, 7, 3][..], text.as_bytes()].concat()).collect();
    // Format of a part: sender and receiver, reference, total, number, seconds since the last part, length, octets.
    let part = |addresses, total, number, pause, text: &[u8]| {
        [&[addresses, 7, total, number, pause, u8::try_from(text.len()).unwrap()][..], text].concat()
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
    check_round_trip(&mut InputReader::new(data));
    check_limits(InputReader::new(data));
}

fn check_round_trip(input: &mut InputReader<'_>) {
    let reference = match input.octet() {
        even if even.is_multiple_of(2) => ConcatenationReference::EightBit(even),
        odd => ConcatenationReference::SixteenBit(u16::from(odd) << 7),
    };
    let (first, order) = (usize::from(input.octet()), input.octet());
    let text = String::from_utf8_lossy(input.octets(4_096)).into_owned();
    let Ok(mut parts) = split_text(&text, reference) else {
        panic!("a text of 4096 octets needs more than 255 messages")
    };
    assert!(parts.iter().all(|part| part.short_message.len() <= 160));
    let count = parts.len();
    parts.rotate_left(first % count);
    if order % 2 == 1 {
        parts.reverse();
    }

    let address = Address::international("447700900123");
    let mut reassembly = Reassembly::new(ReassemblyLimits::default());
    let mut reassembled = None;
    for part in parts {
        assert_eq!(reassembled, None, "completed before the last part");
        let message = message(part);
        let content = message.content();
        assert_eq!(content.udh_error, None);
        let Some(segment) = content.segment else {
            assert_eq!(count, 1);
            reassembled = Some(content.decode_text(DefaultAlphabet::default()));
            continue;
        };
        for repeated in [false, true] {
            match reassembly.add(&address, &address, segment, &content, Duration::ZERO).unwrap() {
                PartOutcome::Complete(whole) => {
                    reassembled = Some(whole.decode_text(DefaultAlphabet::default()));
                    break;
                }
                outcome => assert_eq!(outcome == PartOutcome::Duplicate, repeated),
            }
        }
    }
    assert_eq!(reassembled.as_deref(), Some(&*text));
    assert_eq!(reassembly.incomplete_message_count(), 0);
}

fn message(part: MessagePart) -> ShortMessage {
    let MessagePart { esm_class, data_coding, short_message } = part;
    ShortMessage { esm_class, data_coding, short_message, ..ShortMessage::default() }
}

fn check_limits(mut input: InputReader<'_>) {
    let limits = ReassemblyLimits {
        timeout: Duration::from_mins(5),
        max_messages: 5,
        max_messages_per_sender: 3,
        max_octets: 1_024,
    };
    let mut reassembly = Reassembly::new(limits);
    let mut now = Duration::ZERO;
    // Latest accepted octets of each part.
    let mut accepted: HashMap<_, &[u8]> = HashMap::new();
    while !input.is_empty() {
        let addresses = input.octet() % 8;
        let reference = match input.octet() % 4 {
            reference @ (0 | 1) => ConcatenationReference::EightBit(reference),
            reference => ConcatenationReference::SixteenBit((reference - 2).into()),
        };
        let segment = Segment { reference, total: input.octet(), sequence: input.octet() };
        now += Duration::from_secs(input.octet().into());
        let length = input.octet();
        let octets = input.octets(length.into());
        let (source, destination) =
            (Address::international((addresses / 2).to_string()), Address::international((addresses % 2).to_string()));
        let content = MessageContent {
            data_coding: DataCoding::LATIN1,
            octets,
            fill_bits: 0,
            segment: Some(segment),
            udh_error: None,
        };

        let part_key = |sequence| (addresses, segment.reference, segment.total, sequence);
        let open_before = reassembly.incomplete_message_count();
        match reassembly.add(&source, &destination, segment, &content, now) {
            Ok(outcome) => {
                accepted.insert(part_key(segment.sequence), octets);
                if let PartOutcome::Complete(whole) = outcome {
                    let expected: Vec<u8> =
                        (1..=segment.total).flat_map(|sequence| accepted[&part_key(sequence)]).copied().collect();
                    let text: Vec<char> = expected.into_iter().map(char::from).collect();
                    assert!(text.len() <= limits.max_octets);
                    assert_eq!(whole.decode_text(DefaultAlphabet::default()), String::from_iter(text));
                    assert!(now < whole.first_seen + limits.timeout, "completed after its expiry");
                }
            }
            Err(ReassemblyError::InvalidPartNumber { sequence, total }) => assert!(sequence == 0 || sequence > total),
            Err(ReassemblyError::SenderLimitReached) => assert!(open_before >= limits.max_messages_per_sender),
            Err(ReassemblyError::LimitReached) => assert!(open_before > 0 || octets.len() * 2 > limits.max_octets / 2),
        }
        assert!(reassembly.incomplete_message_count() <= limits.max_messages);
        assert_eq!(reassembly.next_deadline().is_some(), reassembly.incomplete_message_count() > 0);
        if length.is_multiple_of(4) {
            let open = reassembly.incomplete_message_count();
            let expired = reassembly.expire(now);
            assert!(expired.iter().all(|message| (1..message.total).contains(&message.missing)));
            assert_eq!(reassembly.incomplete_message_count() + expired.len(), open);
            assert!(reassembly.next_deadline().is_none_or(|deadline| deadline > now));
        }
    }
    reassembly.expire(now + limits.timeout);
    assert_eq!(reassembly.incomplete_message_count(), 0, "all messages expire");
}
