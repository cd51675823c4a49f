use jiff::SignedDuration;
use ringtrue_domain::{
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::ProjectId,
};
use ringtrue_operators::smpp::{BindDirection, DefaultAlphabet, ProjectScope, SmppConfig, SmppOutcome, TlvTag};
use ringtrue_sandbox::smsc::{
    Alphabet, ConcatenationMode, DeliveryOutcome, FaultScript, QueueAccount, Sms, Smsc, SmscConfig,
};
use ringtrue_smpp::{
    pdu::{Address, CommandStatus, Npi, ShortMessage, Ton},
    text::{DataCoding, gsm},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::advance,
};

use crate::{
    Fixture, HANDSET, SECOND, SERVICE, Sandbox, number,
    peers::{ManualSmsc, header, part, sms},
    start_with_manual_smsc,
};

#[tokio::test(start_paused = true)]
async fn sms_reaches_the_inbox_and_is_acknowledged() {
    for bind in [BindDirection::Receiver, BindDirection::Transceiver] {
        let sandbox = Sandbox::with(|config| SmppConfig { bind, ..config }).await;
        sandbox.fixture.deployment.clock.advance(SignedDuration::from_secs(7));
        let delivery = sandbox.send("VERIFY 4F7K2Q", FaultScript::new());
        assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
        let expected = InboundSms {
            environment: SmsEnvironment::Operator,
            connector: "test".into(),
            from: SmsSender::Number(number(HANDSET)),
            to: number(SERVICE),
            text: "VERIFY 4F7K2Q".to_owned(),
            received_at: "1970-01-01T00:00:07Z".parse().unwrap(),
        };
        let counts = [SmppOutcome::Received, SmppOutcome::Concluded].map(|outcome| sandbox.fixture.count(outcome));
        assert_eq!((sandbox.fixture.inbox.received(), counts), (vec![expected], [1, 1]));
    }
}

/// The simulated SMSC sends the project id in a TLV; the SMS reaches only that project.
#[tokio::test(start_paused = true)]
async fn simulated_sms_belongs_to_its_project() {
    const TAG: TlvTag = TlvTag(0x1400);
    let fixture = Fixture::new();
    let smsc = Smsc::start(SmscConfig { account_tag: Some(TAG), ..SmscConfig::default() }).await.unwrap();
    let config = Fixture::config(smsc.address().port());
    let project_scope = ProjectScope::SandboxProject { tag: TAG };
    let _connector = fixture.start(SmppConfig { project_scope, ..config });
    let [one, two] = [1_u128, 2].map(|id| QueueAccount { id, group: 7 });
    let sms = |text: &str, behaviour| Sms::new(HANDSET, SERVICE, text).with_faults(behaviour);
    let whole = || sms("VERIFY 4F7K2Q", FaultScript::new());
    // Concatenation references have eight bits, so the last SMS below has the same reference as this first part, which
    // belongs to another project.
    let first_part = |text: &str| sms(text, FaultScript::new().split_into(2).without_part(2));
    let environment = |account: QueueAccount| SmsEnvironment::Sandbox(ProjectId::from_octets(account.id.to_be_bytes()));

    smsc.send(first_part("lost1lost2").with_account(one)).unwrap().wait_for_outcome().await;
    for turn in 0..256 {
        let account = if turn % 2 == 0 { one } else { two };
        let sms = if turn == 255 { sms("abcdefghij", FaultScript::new().split_into(2)) } else { whole() };
        assert_eq!(
            smsc.send(sms.with_account(account)).unwrap().wait_for_outcome().await,
            DeliveryOutcome::Acknowledged
        );
    }
    let received = fixture.inbox.received();
    assert_eq!(received.len(), 256);
    let alternate = [environment(one), environment(two)].into_iter().cycle();
    assert!(received.iter().zip(alternate).all(|(sms, environment)| sms.environment == environment));
    assert_eq!(received[255].text, "abcdefghij", "parts of different projects are not mixed");

    assert_eq!(smsc.send(whole()).unwrap().wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!((fixture.inbox.received().len(), fixture.count(SmppOutcome::NotAnSms)), (256, 1), "no project TLV");
}

#[tokio::test(start_paused = true)]
async fn packed_septets_are_decoded_if_configured() {
    fn packed(text: &str, fill_bits: usize) -> Vec<u8> {
        let septets = gsm::encode(text).unwrap();
        let mut octets = vec![0; (fill_bits + septets.len() * 7).div_ceil(8)];
        for (index, septet) in septets.into_iter().enumerate() {
            for bit in (0..7).filter(|bit| septet >> bit & 1 == 1) {
                let at = fill_bits + index * 7 + bit;
                octets[at / 8] |= 1 << (at % 8);
            }
        }
        octets
    }
    let fixture = Fixture::new();
    let smsc = ManualSmsc::start().await;
    let config = Fixture::config(smsc.port());
    let _connector = fixture.start(SmppConfig { default_alphabet: DefaultAlphabet::Gsm0338Packed, ..config });
    let bound = smsc.bind().await;
    let whole = ShortMessage { short_message: packed("VERIFY 4F7K2Q9X0Z", 0), ..sms("") };
    assert_eq!(bound.deliver(whole).await, CommandStatus::OK);
    // After a six-octet header, one fill bit aligns the septets.
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
    assert_eq!(fixture.inbox.texts(), ["VERIFY 4F7K2Q9X0Z", "VERIFY 4F7K2Q9X0Z", "VERIFY é"]);
}

#[tokio::test(start_paused = true)]
async fn every_coding_is_decoded() {
    let sandbox = Sandbox::start().await;
    // `@` tells the alphabets apart that have no other character of the text.
    for (alphabet, expected) in [
        (None, "é€Ж😀@"),
        (Some(Alphabet::Gsm), "é€??@"),
        (Some(Alphabet::Ascii), "????@"),
        (Some(Alphabet::Latin1), "é???@"),
        (Some(Alphabet::Ucs2), "é€Ж😀@"),
        (Some(Alphabet::Octets), "é€Ж😀@"),
    ] {
        let behaviour = alphabet.map_or_else(FaultScript::new, |alphabet| FaultScript::new().encoded_in(alphabet));
        assert_eq!(sandbox.send("é€Ж😀@", behaviour).wait_for_outcome().await, DeliveryOutcome::Acknowledged);
        assert_eq!(sandbox.fixture.inbox.texts().last().unwrap(), expected, "{alphabet:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn default_alphabet_is_configurable() {
    let sandbox = Sandbox::with(|config| SmppConfig { default_alphabet: DefaultAlphabet::Latin1, ..config }).await;
    let behaviour = FaultScript::new().encoded_in(Alphabet::Latin1).declared_as(DataCoding::DEFAULT);
    sandbox.send("@é_$", behaviour).wait_for_outcome().await;
    assert_eq!(sandbox.fixture.inbox.texts(), ["@é_$"]);
}

#[tokio::test(start_paused = true)]
async fn unsupported_coding_is_acknowledged() {
    let sandbox = Sandbox::start().await;
    let korean = FaultScript::new().declared_as(DataCoding(0x0E));
    let octets = sandbox.send("жжжж", korean.clone().encoded_in(Alphabet::Octets));
    assert_eq!(octets.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(sandbox.fixture.count(SmppOutcome::Unreadable), 1);
    assert!(sandbox.fixture.inbox.texts().is_empty());
    // Unsupported codings are mostly ASCII-compatible, so that a code in the text is still readable.
    sandbox.send("жVERIFY 4F7K2Q", korean.encoded_in(Alphabet::Octets)).wait_for_outcome().await;
    assert!(sandbox.fixture.inbox.texts()[0].ends_with("VERIFY 4F7K2Q"));
}

#[tokio::test(start_paused = true)]
async fn data_sm_and_message_payload_are_received() {
    let sandbox = Sandbox::start().await;
    let long = "long ".repeat(200);
    let payload = FaultScript::new().concatenated_by(ConcatenationMode::MessagePayload);
    for (text, behaviour) in
        [("data", FaultScript::new().by_data_sm()), ("payload", payload.clone()), (&*long, payload.by_data_sm())]
    {
        assert_eq!(sandbox.send(text, behaviour).wait_for_outcome().await, DeliveryOutcome::Acknowledged);
        assert_eq!(sandbox.fixture.inbox.texts().last().unwrap(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn receipts_are_acknowledged_and_dropped() {
    let sandbox = Sandbox::start().await;
    let delivery = sandbox.send("VERIFY 4F7K2Q", FaultScript::new().as_delivery_receipt());
    assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert!(sandbox.fixture.inbox.received().is_empty());
    assert_eq!(sandbox.fixture.count(SmppOutcome::NotAnSms), 1);
}

#[tokio::test(start_paused = true)]
async fn late_garbled_and_repeated_messages_are_received() {
    let sandbox = Sandbox::start().await;
    let late = sandbox.send("late", FaultScript::new().delayed_by(60 * SECOND));
    assert_eq!(
        sandbox.send("twice", FaultScript::new().duplicated(1)).wait_for_outcome().await,
        DeliveryOutcome::Acknowledged
    );
    assert_eq!(
        sandbox.send("garbled", FaultScript::new().garbled()).wait_for_outcome().await,
        DeliveryOutcome::Acknowledged
    );
    advance(60 * SECOND).await;
    assert_eq!(late.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    let texts = sandbox.fixture.inbox.texts();
    assert_eq!((&*texts[0], &*texts[1], &*texts[3]), ("twice", "twice", "late"));
    assert_ne!(texts[2], "garbled");
}

#[tokio::test(start_paused = true)]
async fn sender_without_a_number_is_unattributed() {
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
        sandbox.send("hello", FaultScript::new().with_spoofed_sender(sender)).wait_for_outcome().await;
        let expected = if known { SmsSender::Number(number(HANDSET)) } else { SmsSender::Unattributed };
        assert_eq!(sandbox.fixture.inbox.received().last().unwrap().from, expected, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn sms_to_another_number_is_acknowledged_and_dropped() {
    let sandbox = Sandbox::start().await;
    for to in ["+447700900998", "+12015550123"] {
        let delivery = sandbox.smsc.send(Sms::new(HANDSET, to, "hello")).unwrap();
        assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    }
    assert!(sandbox.fixture.inbox.received().is_empty());
    assert_eq!(sandbox.fixture.count(SmppOutcome::OtherReceiver), 2);
    let national = Address { ton: Ton::NATIONAL, npi: Npi::ISDN, value: "07700900999".to_owned() };
    sandbox.smsc.send(Sms::new(HANDSET, national, "hello")).unwrap().wait_for_outcome().await;
    assert_eq!(sandbox.fixture.inbox.received()[0].to, number(SERVICE));
}

#[tokio::test(start_paused = true)]
async fn failed_sms_is_resent() {
    let sandbox = Sandbox::start().await;
    sandbox.fixture.inbox.fail_next(2);
    let delivery = sandbox.send("hello", FaultScript::new());
    for failures in 1..=2 {
        sandbox.smsc.observer().wait_until(|counts| counts.failed_attempts == failures).await;
        assert!(sandbox.fixture.inbox.texts().is_empty());
        advance(SECOND).await;
    }
    assert_eq!(delivery.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(sandbox.fixture.inbox.texts(), ["hello"]);
    assert_eq!(sandbox.fixture.count(SmppOutcome::TemporaryError), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_limited_by_the_window() {
    let (fixture, smsc, _connector) = start_with_manual_smsc(|config| SmppConfig { window: 64, ..config }).await;
    let bound = smsc.bind().await;
    fixture.inbox.set_blocked(true);
    let responses: Vec<_> = (0..100).map(|nth| bound.send(sms(&nth.to_string()))).collect();
    fixture.inbox.wait_for_deliveries(64).await;
    assert_eq!(fixture.count(SmppOutcome::Received), 64);
    fixture.inbox.set_blocked(false);
    for response in responses {
        assert_eq!(response.await.unwrap(), CommandStatus::OK);
    }
    assert_eq!(fixture.inbox.received().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn slow_inbox_causes_a_resend() {
    let (fixture, smsc, _connector) = start_with_manual_smsc(|config| config).await;
    let bound = smsc.bind().await;
    fixture.inbox.set_blocked(true);
    let response = bound.send(sms("hello"));
    fixture.inbox.wait_for_deliveries(1).await;
    advance(8 * SECOND).await;
    assert_eq!(response.await.unwrap(), CommandStatus::RECEIVER_TEMPORARY_ERROR);
    fixture.inbox.set_blocked(false);
    assert_eq!(bound.deliver(sms("hello")).await, CommandStatus::OK);
}

#[tokio::test(start_paused = true)]
async fn malformed_pdus_do_not_break_the_link() {
    let (fixture, smsc, connector) = start_with_manual_smsc(|config| config).await;
    let mut stream = smsc.bind_by_hand().await;
    let mut buffer = [0; 256];
    connector.wait_until(|status| status.binds_up == 1).await;
    // A truncated deliver_sm, and an unknown command.
    stream.write_all(&[header(24, 5, 7), b"ABCDEFGH".to_vec()].concat()).await.unwrap();
    stream.read_exact(&mut buffer[..16]).await.unwrap();
    assert_eq!((&buffer[4..8], &buffer[12..16]), (&[0x80, 0, 0, 5][..], &[0, 0, 0, 7][..]));
    assert_ne!(buffer[8..12], [0; 4]);
    let rest = usize::from(buffer[3]) - 16;
    stream.read_exact(&mut buffer[..rest]).await.unwrap();
    stream.write_all(&header(16, 0x0001_0203, 8)).await.unwrap();
    stream.read_exact(&mut buffer[..16]).await.unwrap();
    assert_eq!(buffer[4..8], [0x80, 0, 0, 0], "generic_nack");
    assert_eq!(fixture.count(SmppOutcome::Malformed), 1);
    assert_eq!(connector.status().binds_up, 1);
}
