//! Binds as a receiver and prints messages until the SMSC unbinds or Ctrl-C is pressed.
//!
//! ```text
//! cargo run --package ringtrue-smpp --example receive -- 127.0.0.1:2775 system_id password [gsm0338|latin1|ascii]
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Mutex};

use ringtrue_smpp::{
    pdu::{Bind, BindMode, CommandStatus, MessageType},
    reassembly::{PartOutcome, Reassembly, ReassemblyLimits},
    session::{MessageRequest, MessageResponse, RequestHandler, Session, SessionConfig, SessionEvent},
    text::DefaultAlphabet,
};
use tokio::{net::TcpStream, time::Instant};

struct Printer {
    default: DefaultAlphabet,
    parts: Mutex<Reassembly<Instant>>,
}

impl RequestHandler for Printer {
    async fn on_request(&self, request: MessageRequest) -> MessageResponse {
        if request.esm_class().message_type() != MessageType::Ordinary {
            println!("{}: skipped {:?}", request.command(), request.esm_class().message_type());
            return CommandStatus::OK.into();
        }
        let content = request.content();
        if let Some(fault) = content.udh_error {
            println!("{}: {fault}", request.command());
        }
        let Some(segment) = content.segment else {
            self.print(&request, &content.decode_text(self.default));
            return CommandStatus::OK.into();
        };
        let Ok(mut parts) = self.parts.lock() else { return CommandStatus::SYSTEM_ERROR.into() };
        parts.expire(Instant::now());
        match parts.add(request.source(), request.destination(), segment, &content, Instant::now()) {
            Ok(PartOutcome::Complete(message)) => self.print(&request, &message.decode_text(self.default)),
            Ok(outcome) => println!("part {} of {}: {outcome:?}", segment.sequence, segment.total),
            Err(refusal) => {
                println!("part {} of {}: {refusal}", segment.sequence, segment.total);
                return CommandStatus::MESSAGE_QUEUE_FULL.into();
            }
        }
        CommandStatus::OK.into()
    }

    fn on_event(&self, event: SessionEvent) {
        println!("{event:?}");
    }
}

impl Printer {
    fn print(&self, request: &MessageRequest, text: &str) {
        let (source, destination) = (request.source(), request.destination());
        let coding = request.content().data_coding.text_coding(self.default);
        println!("{} {} -> {} {coding:?}: {text:?}", request.command(), source.value, destination.value);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, system_id, password, alphabet @ ..] = arguments.as_slice() else {
        return Err("usage: receive ADDRESS SYSTEM_ID PASSWORD [gsm0338|latin1|ascii]".into());
    };
    let default = alphabet.first().map_or(Ok(DefaultAlphabet::default()), |name| name.parse())?;
    let printer = Printer { default, parts: Mutex::new(Reassembly::new(ReassemblyLimits::default())) };

    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut session, link) = Session::new(stream, SessionConfig::default());
    let bind = Bind { system_id: system_id.clone(), password: password.clone(), ..Bind::default() };
    let bound = session.bind(BindMode::Receiver, bind).await?;
    println!("bound to {:?}", bound.system_id);

    let unbind_on_ctrl_c = async {
        if tokio::signal::ctrl_c().await.is_ok() {
            link.unbind().await;
        }
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = session.run(&printer) => ended?,
        ended = unbind_on_ctrl_c => ended,
    };
    println!("ended: {ended:?}");
    Ok(())
}
