use jiff::SignedDuration;
use ringtrue_domain::{
    reverse_sms::{InboundSms, Origin, Sender},
    tenancy::ProjectId,
};
use ringtrue_operators::smpp::{DefaultAlphabet, Outcome, Reach, SmppConfig, Succession, Tag};
use ringtrue_sandbox::smsc::{Account, Alphabet, Behaviour, Carriage, Outcome as Fate, Sms, Smsc, SmscConfig};
use ringtrue_smpp::{
    pdu::{Address, CommandStatus, Npi, ShortMessage, Ton},
    text::{DataCoding, gsm},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::advance,
};

use crate::{
    HANDSET, SECOND, SERVICE, Sandbox, World,
    centre::{Centre, header, part, sms},
    number,
};

#[tokio::test(start_paused = true)]
async fn an_sms_reaches_the_inbox_and_is_acknowledged() {
    let sandbox = Sandbox::start().await;
    sandbox.world.clock.advance(SignedDuration::from_secs(7));
    let ticket = sandbox.send("VERIFY 4F7K2Q", Behaviour::new());
    assert_eq!(ticket.delivered().await, Fate::Acknowledged);
    let expected = InboundSms {
        origin: Origin::Operator,
        connector: "test".into(),
        from: Sender::Number(number(HANDSET)),
        to: number(SERVICE),
        text: "VERIFY 4F7K2Q".to_owned(),
        received_at: "1970-01-01T00:00:07Z".parse().unwrap(),
    };
    assert_eq!(sandbox.world.inbox.received(), [expected]);
    assert_eq!((sandbox.world.count(Outcome::Received), sandbox.world.count(Outcome::Concluded)), (1, 1));
}

/// The simulated message centre names the project whose handset has sent an SMS, which is all that the SMS can reach.
#[tokio::test(start_paused = true)]
async fn a_simulated_sms_belongs_to_the_project_that_it_names() {
    const TAG: Tag = Tag(0x1400);
    let world = World::new();
    let smsc = Smsc::start(SmscConfig { account_tag: Some(TAG), ..SmscConfig::default() }).await.unwrap();
    let config = World::config(smsc.address().port());
    let reach = Reach::SandboxProject { tag: TAG };
    let _connector = world.start(SmppConfig { reach, succession: Succession::OneByOne, ..config });
    let [one, two] = [1_u128, 2].map(|id| Account { id, group: 7 });
    let sms = |text: &str, behaviour| Sms::new(HANDSET, SERVICE, text).behaving(behaviour);
    let whole = || sms("VERIFY 4F7K2Q", Behaviour::new());
    // The parts of two SMS under one reference, from one number: 256 SMS lie between them.
    let first_part = |text: &str| sms(text, Behaviour::new().split_into(2).without_part(2));
    let origin = |account: Account| Origin::Sandbox(ProjectId::from_octets(account.id.to_be_bytes()));

    smsc.send(first_part("lost1lost2").of_account(one)).unwrap().delivered().await;
    for turn in 0..256 {
        let account = if turn % 2 == 0 { one } else { two };
        let sms = if turn == 255 { sms("abcdefghij", Behaviour::new().split_into(2)) } else { whole() };
        assert_eq!(smsc.send(sms.of_account(account)).unwrap().delivered().await, Fate::Acknowledged);
    }
    let received = world.inbox.received();
    assert_eq!(received.len(), 256);
    let alternate = [origin(one), origin(two)].into_iter().cycle();
    assert!(received.iter().zip(alternate).all(|(sms, origin)| sms.origin == origin));
    assert_eq!(received[255].text, "abcdefghij", "no part of another project's SMS is in it");

    assert_eq!(smsc.send(whole()).unwrap().delivered().await, Fate::Acknowledged);
    assert_eq!((world.inbox.received().len(), world.count(Outcome::NotAnSms)), (256, 1), "it names nobody");
}

#[tokio::test(start_paused = true)]
async fn packed_septets_are_read_where_the_operator_packs_them() {
    fn packed(text: &str, fill_bits: usize) -> Vec<u8> {
        let septets = gsm::encode(text).unwrap();
        let mut octets = vec![0; (fill_bits + septets.len() * 7).div_ceil(8)];
        for (place, septet) in septets.into_iter().enumerate() {
            for bit in (0..7).filter(|bit| septet >> bit & 1 == 1) {
                let at = fill_bits + place * 7 + bit;
                octets[at / 8] |= 1 << (at % 8);
            }
        }
        octets
    }
    let world = World::new();
    let centre = Centre::start().await;
    let config = World::config(centre.port());
    let _connector = world.start(SmppConfig { default_alphabet: DefaultAlphabet::Gsm0338Packed, ..config });
    let bound = centre.bind().await;
    let whole = ShortMessage { short_message: packed("VERIFY 4F7K2Q9X0Z", 0), ..sms("") };
    assert_eq!(bound.deliver(whole).await, CommandStatus::OK);
    // Behind six octets of header, one bit fills up a septet.
    let parts = [(1, "VERIFY 4F7"), (2, "K2Q9X0Z")].map(|(sequence, text)| {
        let part = part(7, 2, sequence, "");
        bound.send(ShortMessage { short_message: [part.short_message.clone(), packed(text, 1)].concat(), ..part })
    });
    for part in parts {
        assert_eq!(part.await.unwrap(), CommandStatus::OK);
    }
    // Only the default alphabet is packed.
    let latin = ShortMessage { data_coding: DataCoding::LATIN1, ..sms("VERIFY é") };
    let latin = ShortMessage { short_message: b"VERIFY \xE9".to_vec(), ..latin };
    assert_eq!(bound.deliver(latin).await, CommandStatus::OK);
    assert_eq!(world.inbox.texts(), ["VERIFY 4F7K2Q9X0Z", "VERIFY 4F7K2Q9X0Z", "VERIFY é"]);
}

#[tokio::test(start_paused = true)]
async fn every_coding_is_read() {
    let sandbox = Sandbox::start().await;
    for (alphabet, expected) in [
        (None, "é€Ж😀"),
        (Some(Alphabet::Gsm), "é€??"),
        (Some(Alphabet::Ascii), "????"),
        (Some(Alphabet::Latin1), "é???"),
        (Some(Alphabet::Ucs2), "é€Ж😀"),
        (Some(Alphabet::Octets), "é€Ж😀"),
    ] {
        let behaviour = alphabet.map_or_else(Behaviour::new, |alphabet| Behaviour::new().coded(alphabet));
        assert_eq!(sandbox.send("é€Ж😀", behaviour).delivered().await, Fate::Acknowledged);
        assert_eq!(sandbox.world.inbox.texts().last().unwrap(), expected, "{alphabet:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_alphabet_is_what_the_operator_says() {
    let sandbox = Sandbox::with(|config| SmppConfig { default_alphabet: DefaultAlphabet::Latin1, ..config }).await;
    let behaviour = Behaviour::new().coded(Alphabet::Latin1).announced_as(DataCoding::DEFAULT);
    sandbox.send("@é_$", behaviour).delivered().await;
    assert_eq!(sandbox.world.inbox.texts(), ["@é_$"]);
}

#[tokio::test(start_paused = true)]
async fn a_coding_that_is_not_read_is_acknowledged() {
    let sandbox = Sandbox::start().await;
    let korean = Behaviour::new().announced_as(DataCoding(0x0E));
    let octets = sandbox.send("жжжж", korean.clone().coded(Alphabet::Octets));
    assert_eq!(octets.delivered().await, Fate::Acknowledged);
    assert_eq!(sandbox.world.count(Outcome::Unreadable), 1);
    assert!(sandbox.world.inbox.texts().is_empty());
    // Such codings keep ASCII where it is, and a code is ASCII.
    sandbox.send("жVERIFY 4F7K2Q", korean.coded(Alphabet::Octets)).delivered().await;
    assert!(sandbox.world.inbox.texts()[0].ends_with("VERIFY 4F7K2Q"));
}

#[tokio::test(start_paused = true)]
async fn it_comes_by_data_sm_and_as_a_payload() {
    let sandbox = Sandbox::start().await;
    let long = "long ".repeat(200);
    let payload = Behaviour::new().carried_by(Carriage::Payload);
    for (text, behaviour) in
        [("data", Behaviour::new().by_data_sm()), ("payload", payload.clone()), (&*long, payload.by_data_sm())]
    {
        assert_eq!(sandbox.send(text, behaviour).delivered().await, Fate::Acknowledged);
        assert_eq!(sandbox.world.inbox.texts().last().unwrap(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn receipts_are_acknowledged_and_dropped() {
    let sandbox = Sandbox::start().await;
    let ticket = sandbox.send("VERIFY 4F7K2Q", Behaviour::new().as_receipt());
    assert_eq!(ticket.delivered().await, Fate::Acknowledged);
    assert!(sandbox.world.inbox.received().is_empty());
    assert_eq!(sandbox.world.count(Outcome::NotAnSms), 1);
}

#[tokio::test(start_paused = true)]
async fn late_garbled_and_repeated() {
    let sandbox = Sandbox::start().await;
    let late = sandbox.send("late", Behaviour::new().late(60 * SECOND));
    assert_eq!(sandbox.send("twice", Behaviour::new().duplicated(1)).delivered().await, Fate::Acknowledged);
    assert_eq!(sandbox.send("garbled", Behaviour::new().garbled()).delivered().await, Fate::Acknowledged);
    advance(60 * SECOND).await;
    assert_eq!(late.delivered().await, Fate::Acknowledged);
    let texts = sandbox.world.inbox.texts();
    assert_eq!((&*texts[0], &*texts[1], &*texts[3]), ("twice", "twice", "late"));
    assert_ne!(texts[2], "garbled");
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_is_no_number_is_unattributed() {
    let sandbox = Sandbox::start().await;
    let raw = |ton, value: &str| Address { ton, npi: Npi::UNKNOWN, value: value.to_owned() };
    for (sender, known) in [
        (raw(Ton::INTERNATIONAL, "447700900001"), true),
        (raw(Ton::NATIONAL, "07700900001"), true),
        (raw(Ton::UNKNOWN, "+447700900001"), true),
        (raw(Ton::UNKNOWN, "00447700900001"), true),
        (raw(Ton::UNKNOWN, "07700900001"), true),
        (raw(Ton::NATIONAL, "07700 900001"), true),
        (raw(Ton::UNKNOWN, "+44 7700-900.001"), true),
        (raw(Ton::ALPHANUMERIC, "447700900001"), false),
        (raw(Ton::ALPHANUMERIC, "Bank"), false),
        (raw(Ton::ABBREVIATED, "60999"), false),
        (raw(Ton(7), "447700900001"), false),
        (raw(Ton::UNKNOWN, ""), false),
        (raw(Ton::UNKNOWN, "anonymous"), false),
        (raw(Ton::INTERNATIONAL, "44 77"), false),
    ] {
        let shown = sender.value.clone();
        sandbox.send("hello", Behaviour::new().spoofed(sender)).delivered().await;
        let expected = if known { Sender::Number(number(HANDSET)) } else { Sender::Unattributed };
        assert_eq!(sandbox.world.inbox.received().last().unwrap().from, expected, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_sms_to_another_number_is_acknowledged_and_dropped() {
    let sandbox = Sandbox::start().await;
    for to in ["+447700900998", "+12015550123"] {
        let ticket = sandbox.smsc.send(Sms::new(HANDSET, to, "hello")).unwrap();
        assert_eq!(ticket.delivered().await, Fate::Acknowledged);
    }
    assert!(sandbox.world.inbox.received().is_empty());
    assert_eq!(sandbox.world.count(Outcome::OtherReceiver), 2);
    let national = Address { ton: Ton::NATIONAL, npi: Npi::ISDN, value: "07700900999".to_owned() };
    sandbox.smsc.send(Sms::new(HANDSET, national, "hello")).unwrap().delivered().await;
    assert_eq!(sandbox.world.inbox.received()[0].to, number(SERVICE));
}

#[tokio::test(start_paused = true)]
async fn what_the_inbox_cannot_take_comes_again() {
    let sandbox = Sandbox::start().await;
    sandbox.world.inbox.fail(2);
    let ticket = sandbox.send("hello", Behaviour::new());
    for setbacks in 1..=2 {
        sandbox.smsc.observer().wait_until(|counts| counts.setbacks == setbacks).await;
        assert!(sandbox.world.inbox.texts().is_empty());
        advance(SECOND).await;
    }
    assert_eq!(ticket.delivered().await, Fate::Acknowledged);
    assert_eq!(sandbox.world.inbox.texts(), ["hello"]);
    assert_eq!(sandbox.world.count(Outcome::TemporaryError), 2);
}

#[tokio::test(start_paused = true)]
async fn many_are_worked_on_at_once_and_no_more_than_the_window() {
    let world = World::new();
    let centre = Centre::start().await;
    let _connector = world.start(SmppConfig { window: 64, ..World::config(centre.port()) });
    let bound = centre.bind().await;
    world.inbox.shut(true);
    let answers: Vec<_> = (0..100).map(|nth| bound.send(sms(&nth.to_string()))).collect();
    world.inbox.arrivals(64).await;
    assert_eq!(world.count(Outcome::Received), 64);
    world.inbox.shut(false);
    for answer in answers {
        assert_eq!(answer.await.unwrap(), CommandStatus::OK);
    }
    assert_eq!(world.inbox.received().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_takes_too_long_makes_it_come_again() {
    let world = World::new();
    let centre = Centre::start().await;
    let _connector = world.start(World::config(centre.port()));
    let bound = centre.bind().await;
    world.inbox.shut(true);
    let answer = bound.send(sms("hello"));
    world.inbox.arrivals(1).await;
    advance(8 * SECOND).await;
    assert_eq!(answer.await.unwrap(), CommandStatus::RECEIVER_TEMPORARY_ERROR);
    world.inbox.shut(false);
    assert_eq!(bound.deliver(sms("hello")).await, CommandStatus::OK);
}

#[tokio::test(start_paused = true)]
async fn the_link_survives_what_cannot_be_read() {
    let world = World::new();
    let centre = Centre::start().await;
    let connector = world.start(World::config(centre.port()));
    let mut stream = centre.bind_by_hand().await;
    let mut heard = [0; 256];
    connector.wait_until(|status| status.binds_up == 1).await;
    // A deliver_sm that ends too soon, and a command that nobody knows.
    stream.write_all(&[header(24, 5, 7), b"ABCDEFGH".to_vec()].concat()).await.unwrap();
    stream.read_exact(&mut heard[..16]).await.unwrap();
    assert_eq!((&heard[4..8], &heard[12..16]), (&[0x80, 0, 0, 5][..], &[0, 0, 0, 7][..]));
    assert_ne!(heard[8..12], [0; 4]);
    let rest = usize::from(heard[3]) - 16;
    stream.read_exact(&mut heard[..rest]).await.unwrap();
    stream.write_all(&header(16, 0x0001_0203, 8)).await.unwrap();
    stream.read_exact(&mut heard[..16]).await.unwrap();
    assert_eq!(heard[4..8], [0x80, 0, 0, 0], "generic_nack");
    assert_eq!(world.count(Outcome::Malformed), 1);
    assert_eq!(connector.status().binds_up, 1);
}
