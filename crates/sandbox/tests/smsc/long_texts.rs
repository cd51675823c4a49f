use ringtrue_sandbox::smsc::{Alphabet, Carriage, Outcome, SmscConfig};
use ringtrue_smpp::{
    reassembly::{self, Limits, Reassembly},
    session::Incoming,
    text::DefaultAlphabet,
};
use tokio::time::Instant;

use crate::{Behaviour, World, text};

/// What the parts say together; nothing as long as some are missing.
fn joined(requests: &[Incoming]) -> Option<String> {
    let mut parts = Reassembly::new(Limits::default());
    let mut whole = None;
    for request in requests {
        let (source, destination, content) = (request.source(), request.destination(), request.content());
        let outcome = parts.add(source, destination, content.segment.unwrap(), &content, Instant::now()).unwrap();
        if let reassembly::Outcome::Complete(message) = outcome {
            whole = Some(message.text(DefaultAlphabet::Gsm0338));
        }
    }
    whole
}

fn sequences(requests: &[Incoming]) -> Vec<u8> {
    requests.iter().map(|request| request.content().segment.unwrap().sequence).collect()
}

#[tokio::test(start_paused = true)]
async fn a_long_text_goes_in_as_few_parts_as_a_handset_would_need() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ascii = |length| "a".repeat(length);
    for (text, alphabet, carriage, parts) in [
        (ascii(161), Alphabet::Gsm, Carriage::Header, 2),
        (ascii(153 * 3), Alphabet::Gsm, Carriage::Header, 3),
        (ascii(153 * 3), Alphabet::Gsm, Carriage::SarTlvs, 3),
        (ascii(153 * 3), Alphabet::Gsm, Carriage::WideHeader, 4),
        (ascii(152) + "€" + &ascii(153), Alphabet::Gsm, Carriage::Header, 3),
        (ascii(141), Alphabet::Latin1, Carriage::Header, 2),
        (ascii(161), Alphabet::Ascii, Carriage::Header, 2),
        ("ж".repeat(67 * 3), Alphabet::Ucs2, Carriage::Header, 3),
        ("ж".repeat(67 * 3), Alphabet::Ucs2, Carriage::SarTlvs, 3),
        ("ж".repeat(67 * 3), Alphabet::Ucs2, Carriage::WideHeader, 4),
        ("ж".repeat(66) + &"😀".repeat(70), Alphabet::Ucs2, Carriage::Header, 4),
        ("ж".repeat(70 * 2), Alphabet::Octets, Carriage::Header, 3),
    ] {
        let ticket = world.send(&text, Behaviour::new().coded(alphabet).carried_by(carriage));
        let requests = esme.take_all(parts).await;
        assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
        assert!(esme.has_nothing());
        assert_eq!(requests[0].esm_class().has_header(), carriage != Carriage::SarTlvs);
        assert_eq!(joined(&requests).as_deref(), Some(&*text), "{alphabet:?} {carriage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_that_just_fits_goes_whole() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    for written in ["a".repeat(160), "€".repeat(80), "ж".repeat(70), "😀".repeat(35), String::new()] {
        world.send(&written, Behaviour::new());
        let request = esme.take().await;
        assert_eq!(request.content().segment, None);
        assert_eq!(text(&request), written);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_holds_it_all() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    for written in ["short".to_owned(), "ж".repeat(1000)] {
        for behaviour in [Behaviour::new(), Behaviour::new().by_data_sm()] {
            world.send(&written, behaviour.carried_by(Carriage::Payload));
            let request = esme.take().await;
            assert_eq!(request.content().segment, None);
            assert_eq!(text(&request), written);
            if let Incoming::DeliverSm(message) = request {
                assert!(message.short_message.is_empty());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_text_may_be_split() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    for carriage in [Carriage::Header, Carriage::WideHeader, Carriage::SarTlvs] {
        for (parts, expected) in [(1, 1), (2, 2), (5, 5), (7, 7), (0, 1)] {
            world.send("hello", Behaviour::new().split_into(parts).carried_by(carriage));
            let requests = esme.take_all(expected).await;
            assert_eq!(joined(&requests).as_deref(), Some("hello"));
        }
    }
    // Too few parts become as many as it takes.
    let long = "€".repeat(300);
    world.send(&long, Behaviour::new().split_into(2));
    assert_eq!(joined(&esme.take_all(4).await), Some(long));
}

#[tokio::test(start_paused = true)]
async fn parts_come_in_another_order() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    world.send("hello", Behaviour::new().split_into(3));
    assert_eq!(sequences(&esme.take_all(3).await), [1, 2, 3]);
    world.send("hello", Behaviour::new().split_into(3).parts_reversed());
    let requests = esme.take_all(3).await;
    assert_eq!(sequences(&requests), [3, 2, 1]);
    assert_eq!(joined(&requests).as_deref(), Some("hello"));
}

#[tokio::test(start_paused = true)]
async fn chance_is_the_same_in_every_run() {
    let shuffled = async |seed| {
        let world = World::with(SmscConfig { seed, ..SmscConfig::default() }).await;
        let mut esme = world.receiver().await;
        world.send("hello world", Behaviour::new().split_into(11).parts_shuffled());
        let requests = esme.take_all(11).await;
        assert_eq!(joined(&requests).as_deref(), Some("hello world"));
        sequences(&requests)
    };
    let order = shuffled(1).await;
    assert_eq!(shuffled(1).await, order);
    assert_ne!(shuffled(2).await, order);
    assert!(!order.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn a_part_may_never_come() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let ticket = world.send("hello", Behaviour::new().split_into(3).without_part(2));
    let requests = esme.take_all(2).await;
    assert_eq!(sequences(&requests), [1, 3]);
    assert_eq!(joined(&requests), None);
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn parts_stay_together_unless_scattered() {
    let world = World::start().await;
    let (mut first, mut second) = (world.receiver().await, world.receiver().await);
    for esme in [&mut first, &mut second] {
        let ticket = world.send("hello", Behaviour::new().split_into(3));
        assert_eq!(joined(&esme.take_all(3).await).as_deref(), Some("hello"));
        assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
    }

    let ticket = world.send("hello", Behaviour::new().split_into(3).scattered());
    let requests = [first.take().await, second.take().await, first.take().await];
    assert_eq!(sequences(&requests), [1, 2, 3]);
    assert_eq!(joined(&requests).as_deref(), Some("hello"));
    assert_eq!(ticket.delivered().await, Outcome::Acknowledged);
}

#[tokio::test(start_paused = true)]
async fn two_long_texts_have_references_of_their_own() {
    let world = World::start().await;
    let mut esme = world.receiver().await;
    let reference = |requests: &[Incoming]| requests[0].content().segment.unwrap().reference;
    world.send("hello", Behaviour::new().split_into(2));
    let one = esme.take_all(2).await;
    world.send("hello", Behaviour::new().split_into(2));
    let other = esme.take_all(2).await;
    assert_ne!(reference(&one), reference(&other));
}
