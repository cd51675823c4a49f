//! Starts an SMSC, sends one SMS to the first bound receiver, and prints the outcome.
//!
//! ```text
//! cargo run --package ringtrue-sandbox --example text -- 127.0.0.1:2775 +990700900001 +990700900999 "Hello" [fault ...]
//! ```
//!
//! `system_id` and password are both `sandbox`. Faults are `duplicated`, `garbled`, `split`, `reversed`, `sar`,
//! `payload`, `data_sm`, `receipt`, `latin1` and `ucs2`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use ringtrue_sandbox::smsc::{Alphabet, ConcatenationMode, FaultScript, Sms, Smsc, SmscConfig};

fn with_fault(faults: FaultScript, fault: &str) -> Result<FaultScript, String> {
    Ok(match fault {
        "duplicated" => faults.duplicated(1),
        "garbled" => faults.garbled(),
        "split" => faults.split_into(2),
        "reversed" => faults.parts_reversed(),
        "sar" => faults.concatenated_by(ConcatenationMode::SarTlvs),
        "payload" => faults.concatenated_by(ConcatenationMode::MessagePayload),
        "data_sm" => faults.by_data_sm(),
        "receipt" => faults.as_delivery_receipt(),
        "latin1" => faults.encoded_in(Alphabet::Latin1),
        "ucs2" => faults.encoded_in(Alphabet::Ucs2),
        unknown => return Err(format!("unknown fault {unknown}")),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, from, to, text, faults @ ..] = arguments.as_slice() else {
        return Err("usage: text ADDRESS FROM TO TEXT [FAULT ...]".into());
    };
    let faults = faults.iter().try_fold(FaultScript::new(), |faults, fault| with_fault(faults, fault))?;

    let smsc = Smsc::start(SmscConfig { listen: address.parse()?, ..SmscConfig::default() }).await?;
    println!("listening on {}", smsc.address());
    let handle = smsc.send(Sms::new(from.as_str(), to.as_str(), text.as_str()).with_faults(faults))?;
    println!("{:?}", handle.wait_for_outcome().await);
    println!("{:?}", smsc.counts());
    smsc.shutdown().await;
    Ok(())
}
