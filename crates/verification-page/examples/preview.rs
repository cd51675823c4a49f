//! Writes every state of the page in every language to a folder, for translators and designers.
//!
//! `cargo run -p ringtrue-verification-page --example preview -- FOLDER`

use std::{env, error::Error, fs, path::PathBuf};

use ringtrue_domain::{phone::Msisdn, reverse_sms::Platform, tenancy::Mode};
use ringtrue_verification_page::{Brand, Colour, Language, Page, SmsToSend, State};
use strum::VariantArray;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: preview FOLDER")?);
    fs::create_dir_all(&folder)?;
    let receiver = Msisdn::parse("+99000000001", Mode::Sandbox)?;
    let return_to = Some("https://shop.example/");
    let sms = |has_arrived| {
        let (body, platform) = ("VERIFY 7K3QX9M20D", Platform::Unknown);
        State::SendSms(SmsToSend { receiver: &receiver, body, platform, has_arrived })
    };
    let states = [
        ("start", State::Start),
        ("silent", State::Leaving { location: "" }),
        ("confirming", State::Confirming { return_to: None }),
        ("send_sms", sms(false)),
        ("sms_received", sms(true)),
        ("sim_swap", State::SimSwap),
        ("done", State::Done { return_to: None }),
        ("not_matched", State::NotMatched { return_to }),
        ("failed", State::Failed { return_to }),
        ("expired", State::Expired { return_to: None }),
        ("unknown", State::Unknown),
        ("busy", State::Busy),
        ("unavailable", State::Unavailable),
        ("refused", State::Refused),
    ];
    for language in Language::VARIANTS {
        for (name, state) in &states {
            let page = Page {
                language: *language,
                brand: Some(Brand { name: "Nordwind Outdoor", logo_url: None, colour: Colour::parse("#d64a1f") }),
                number_tail: "42".parse().ok(),
                is_sandbox: true,
                path: "",
                query: "",
                is_framed: false,
                state: state.clone(),
            };
            // A preview stays on its page.
            let html =
                page.render().html.replace("http-equiv=\"refresh\"", "").replace("data-return-to", "data-preview");
            fs::write(folder.join(format!("{name}.{}.html", language.tag())), html)?;
        }
    }
    Ok(())
}
