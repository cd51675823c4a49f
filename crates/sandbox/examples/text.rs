//! Starts a message centre, sends one SMS to whoever binds first, and tells what became of it.
//!
//! ```text
//! cargo run --package ringtrue-sandbox --example text -- 127.0.0.1:2775 +990700900001 +990700900999 "Hello" [fault ...]
//! ```
//!
//! System id and password are both `sandbox`. Faults are `duplicated`, `garbled`, `split`, `reversed`, `sar`,
//! `payload`, `data_sm`, `receipt`, `latin1` and `ucs2`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use ringtrue_sandbox::smsc::{Alphabet, Behaviour, Carriage, Sms, Smsc, SmscConfig};

fn with_fault(behaviour: Behaviour, fault: &str) -> Result<Behaviour, String> {
    Ok(match fault {
        "duplicated" => behaviour.duplicated(1),
        "garbled" => behaviour.garbled(),
        "split" => behaviour.split_into(2),
        "reversed" => behaviour.parts_reversed(),
        "sar" => behaviour.carried_by(Carriage::SarTlvs),
        "payload" => behaviour.carried_by(Carriage::Payload),
        "data_sm" => behaviour.by_data_sm(),
        "receipt" => behaviour.as_receipt(),
        "latin1" => behaviour.coded(Alphabet::Latin1),
        "ucs2" => behaviour.coded(Alphabet::Ucs2),
        unknown => return Err(format!("there is no fault {unknown}")),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, from, to, text, faults @ ..] = arguments.as_slice() else {
        return Err("usage: text ADDRESS FROM TO TEXT [FAULT ...]".into());
    };
    let behaviour = faults.iter().try_fold(Behaviour::new(), |behaviour, fault| with_fault(behaviour, fault))?;

    let smsc = Smsc::start(SmscConfig { listen: address.parse()?, ..SmscConfig::default() }).await?;
    println!("listening on {}", smsc.address());
    let ticket = smsc.send(Sms::new(from.as_str(), to.as_str(), text.as_str()).behaving(behaviour))?;
    println!("{:?}", ticket.delivered().await);
    println!("{:?}", smsc.counts());
    smsc.shutdown().await;
    Ok(())
}
