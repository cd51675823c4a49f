use ringtrue_sandbox::smsc::{Alphabet, ConcatenationMode, DeliveryOutcome, SmscConfig};
use ringtrue_smpp::{
    reassembly::{self, Reassembly, ReassemblyLimits},
    session::MessageRequest,
    text::DefaultAlphabet,
};
use tokio::time::Instant;

use crate::{FaultScript, Fixture, text};

/// Returns the reassembled text. `None`: parts are missing.
fn reassemble(requests: &[MessageRequest]) -> Option<String> {
    let mut parts = Reassembly::new(ReassemblyLimits::default());
    let mut whole = None;
    for request in requests {
        let (source, destination, content) = (request.source(), request.destination(), request.content());
        let outcome = parts.add(source, destination, content.segment.unwrap(), &content, Instant::now()).unwrap();
        if let reassembly::PartOutcome::Complete(message) = outcome {
            whole = Some(message.decode_text(DefaultAlphabet::Gsm0338));
        }
    }
    whole
}

fn sequences(requests: &[MessageRequest]) -> Vec<u8> {
    requests.iter().map(|request| request.content().segment.unwrap().sequence).collect()
}

#[tokio::test(start_paused = true)]
async fn long_text_is_split_into_the_fewest_parts() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let ascii = |length| "a".repeat(length);
    for (text, alphabet, concatenation, parts) in [
        (ascii(161), Alphabet::Gsm, ConcatenationMode::Udh8Bit, 2),
        (ascii(153 * 3), Alphabet::Gsm, ConcatenationMode::Udh8Bit, 3),
        (ascii(153 * 3), Alphabet::Gsm, ConcatenationMode::SarTlvs, 3),
        (ascii(153 * 3), Alphabet::Gsm, ConcatenationMode::Udh16Bit, 4),
        (ascii(152) + "€" + &ascii(153), Alphabet::Gsm, ConcatenationMode::Udh8Bit, 3),
        (ascii(141), Alphabet::Latin1, ConcatenationMode::Udh8Bit, 2),
        (ascii(161), Alphabet::Ascii, ConcatenationMode::Udh8Bit, 2),
        ("ж".repeat(67 * 3), Alphabet::Ucs2, ConcatenationMode::Udh8Bit, 3),
        ("ж".repeat(67 * 3), Alphabet::Ucs2, ConcatenationMode::SarTlvs, 3),
        ("ж".repeat(67 * 3), Alphabet::Ucs2, ConcatenationMode::Udh16Bit, 4),
        ("ж".repeat(66) + &"😀".repeat(70), Alphabet::Ucs2, ConcatenationMode::Udh8Bit, 4),
        ("ж".repeat(70 * 2), Alphabet::Octets, ConcatenationMode::Udh8Bit, 3),
    ] {
        let handle = fixture.send(&text, FaultScript::new().encoded_in(alphabet).concatenated_by(concatenation));
        let requests = esme.accept_all(parts).await;
        assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
        assert!(esme.is_idle());
        assert_eq!(requests[0].esm_class().has_udh(), concatenation != ConcatenationMode::SarTlvs);
        assert_eq!(reassemble(&requests).as_deref(), Some(&*text), "{alphabet:?} {concatenation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn text_of_maximum_length_is_not_split() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    for written in ["a".repeat(160), "€".repeat(80), "ж".repeat(70), "😀".repeat(35), String::new()] {
        fixture.send(&written, FaultScript::new());
        let request = esme.accept().await;
        assert_eq!(request.content().segment, None);
        assert_eq!(text(&request), written);
    }
}

#[tokio::test(start_paused = true)]
async fn message_payload_holds_the_whole_text() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    for written in ["short".to_owned(), "ж".repeat(1000)] {
        for faults in [FaultScript::new(), FaultScript::new().by_data_sm()] {
            fixture.send(&written, faults.concatenated_by(ConcatenationMode::MessagePayload));
            let request = esme.accept().await;
            assert_eq!(request.content().segment, None);
            assert_eq!(text(&request), written);
            if let MessageRequest::DeliverSm(message) = request {
                assert!(message.short_message.is_empty());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn short_text_can_be_split() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    for concatenation in [ConcatenationMode::Udh8Bit, ConcatenationMode::Udh16Bit, ConcatenationMode::SarTlvs] {
        for (parts, expected) in [(1, 1), (2, 2), (5, 5), (7, 7), (0, 1)] {
            fixture.send("hello", FaultScript::new().split_into(parts).concatenated_by(concatenation));
            let requests = esme.accept_all(expected).await;
            assert_eq!(reassemble(&requests).as_deref(), Some("hello"));
        }
    }
    // A text that does not fit into the requested number of parts is split into more.
    let long = "€".repeat(300);
    fixture.send(&long, FaultScript::new().split_into(2));
    assert_eq!(reassemble(&esme.accept_all(4).await), Some(long));
}

#[tokio::test(start_paused = true)]
async fn parts_can_be_reversed() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    fixture.send("hello", FaultScript::new().split_into(3));
    assert_eq!(sequences(&esme.accept_all(3).await), [1, 2, 3]);
    fixture.send("hello", FaultScript::new().split_into(3).parts_reversed());
    let requests = esme.accept_all(3).await;
    assert_eq!(sequences(&requests), [3, 2, 1]);
    assert_eq!(reassemble(&requests).as_deref(), Some("hello"));
}

#[tokio::test(start_paused = true)]
async fn shuffling_depends_on_the_seed() {
    let shuffled = async |seed| {
        let fixture = Fixture::with_config(SmscConfig { seed, ..SmscConfig::default() }).await;
        let mut esme = fixture.receiver().await;
        fixture.send("hello world", FaultScript::new().split_into(11).parts_shuffled());
        let requests = esme.accept_all(11).await;
        assert_eq!(reassemble(&requests).as_deref(), Some("hello world"));
        sequences(&requests)
    };
    let order = shuffled(1).await;
    assert_eq!(shuffled(1).await, order);
    assert_ne!(shuffled(2).await, order);
    assert!(!order.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn part_can_be_omitted() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let handle = fixture.send("hello", FaultScript::new().split_into(3).without_part(2));
    let requests = esme.accept_all(2).await;
    assert_eq!(sequences(&requests), [1, 3]);
    assert_eq!(reassemble(&requests), None);
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn parts_use_one_bind_unless_spread() {
    let fixture = Fixture::start().await;
    let (mut first, mut second) = (fixture.receiver().await, fixture.receiver().await);
    for esme in [&mut first, &mut second] {
        let handle = fixture.send("hello", FaultScript::new().split_into(3));
        assert_eq!(reassemble(&esme.accept_all(3).await).as_deref(), Some("hello"));
        assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    }

    let handle = fixture.send("hello", FaultScript::new().split_into(3).spread_over_binds());
    let requests = [first.accept().await, second.accept().await, first.accept().await];
    assert_eq!(sequences(&requests), [1, 2, 3]);
    assert_eq!(reassemble(&requests).as_deref(), Some("hello"));
    assert_eq!(handle.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn long_texts_have_different_references() {
    let fixture = Fixture::start().await;
    let mut esme = fixture.receiver().await;
    let reference = |requests: &[MessageRequest]| requests[0].content().segment.unwrap().reference;
    fixture.send("hello", FaultScript::new().split_into(2));
    let one = esme.accept_all(2).await;
    fixture.send("hello", FaultScript::new().split_into(2));
    let other = esme.accept_all(2).await;
    assert_ne!(reference(&one), reference(&other));
}
