//! Writes every state of the page in every language to a folder, for translators and designers.
//!
//! `cargo run -p ringtrue-verification-page --example preview -- FOLDER`

use std::{env, error::Error, fs, path::PathBuf};

use ringtrue_domain::{phone::Msisdn, reverse_sms::Platform, tenancy::Mode, verification::Method};
use ringtrue_verification_page::{
    Brand, Colour, Confirming, DisplayMode, Failure, Language, Notice, Page, Question, QuestionSubject, SmsToSend,
    State,
};
use strum::VariantArray;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: preview FOLDER")?);
    fs::create_dir_all(&folder)?;
    let receiver = Msisdn::parse("+99000000001", Mode::Sandbox)?;
    let return_to = Some("https://shop.example/");
    let sms = |has_arrived, came_from_other_number| {
        let (receiver, body, platform) = (&receiver, "VERIFY 7K3QX9M20D", Platform::Unknown);
        State::SendSms(SmsToSend { receiver, body, platform, has_arrived, came_from_other_number })
    };
    let ask = |subject, method| State::Ask(Question { subject, method, asked_in: "send_sms" });
    let states = [
        ("start", State::Start { own_url: Some("https://verify.example/v/token") }),
        ("start_cookies", State::Start { own_url: None }),
        ("silent", State::Silent),
        ("stalled", State::Stalled),
        ("elsewhere", State::Elsewhere),
        ("confirming", State::Confirming(Confirming::Elsewhere)),
        ("confirming_return", State::Confirming(Confirming::Return("https://shop.example/"))),
        ("send_sms", sms(false, false)),
        ("send_sms_again", sms(false, true)),
        ("sms_received", sms(true, false)),
        ("ask_give_up", ask(QuestionSubject::GiveUp, Method::ReverseSms)),
        ("ask_stop", ask(QuestionSubject::GiveUp, Method::SecureSna)),
        ("ask_wrong_number", ask(QuestionSubject::WrongNumber, Method::ReverseSms)),
        ("sim_swap", State::SimSwap),
        ("done", State::Done { return_to: None }),
        ("not_matched", State::NotMatched { is_phone: false, return_to }),
        ("not_matched_phone", State::NotMatched { is_phone: true, return_to }),
        ("failed", State::Failed { reason: Failure::Exhausted, return_to }),
        ("given_up", State::Failed { reason: Failure::GivenUp, return_to }),
        ("wrong_number", State::Failed { reason: Failure::WrongNumber, return_to }),
        ("cancelled", State::Failed { reason: Failure::Cancelled, return_to }),
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
                brand: Some(Brand {
                    name: "Nordwind Outdoor",
                    logo_url: None,
                    colour: Colour::parse("#d64a1f"),
                    support_url: Some("https://shop.example/help"),
                }),
                number_ending: Some("6742"),
                is_sandbox: true,
                seconds_left: Some(95),
                path: "",
                query: "",
                display: DisplayMode::Tab,
                frame_origins: &[],
                end_message: None,
                has_redirect_url: true,
                has_other_method: *name != "ask_stop",
                notice: (*name == "start_cookies").then_some(Notice::AllowCookies),
                state: state.clone(),
            };
            // Removes the refresh and the redirect, so that the browser stays on the preview.
            let html =
                page.render().html.replace("http-equiv=\"refresh\"", "").replace("data-return-to", "data-preview");
            fs::write(folder.join(format!("{name}.{}.html", language.tag())), html)?;
        }
    }
    Ok(())
}
