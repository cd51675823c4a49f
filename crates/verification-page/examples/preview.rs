//! Writes every state of the page, on a computer and on a phone, and of the sign-in page in every language to a folder,
//! for translators and designers.
//!
//! `cargo run -p ringtrue-verification-page --example preview -- FOLDER`

use std::{env, error::Error, fs, path::PathBuf};

use ringtrue_domain::reverse_sms::Platform;
use ringtrue_verification_page::{
    Brand, Colour, Language, NumberProblem, Preview, SampleState, SignInEnd, SignInPage, SignInState,
};
use strum::VariantArray;

/// Target of all links and forms. A fragment does not leave the page.
const INERT_URL: &str = "#";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: preview FOLDER")?);
    fs::create_dir_all(&folder)?;
    let brand = Brand {
        name: "Nordwind Outdoor",
        logo_url: None,
        colour: Colour::parse("#d64a1f"),
        support_url: Some("https://shop.example/help"),
    };
    for &language in Language::VARIANTS {
        let devices = [("computer", Platform::Unknown), ("phone", Platform::Android)];
        let pages = SampleState::VARIANTS.iter().flat_map(|state| devices.map(|device| (*state, device)));
        for (state, (device, platform)) in pages {
            let preview =
                Preview { state, language, brand: Some(brand), platform, is_sandbox: true, seconds_left: Some(95) };
            let file = format!("{}.{device}.{}.html", state.into_str(), language.tag());
            fs::write(folder.join(file), preview.render().html)?;
        }
        for (name, state) in sign_in_states() {
            let page = SignInPage {
                language,
                brand: Some(brand),
                is_sandbox: true,
                path: INERT_URL,
                query: "",
                redirect_uri: None,
                state,
            };
            let file = format!("sign_in_{name}.{}.html", language.tag());
            fs::write(folder.join(file), page.render().html)?;
        }
    }
    Ok(())
}

fn sign_in_states() -> Vec<(&'static str, SignInState<'static>)> {
    let ask = |problem: Option<NumberProblem>| {
        let country = (problem != Some(NumberProblem::MissingCountry)).then_some("GB");
        let typed = problem.map_or("", |_| "07700 9001");
        SignInState::AskNumber { typed, country, problem, can_discover: problem.is_none(), starts_discovery: false }
    };
    let ended = |reason| SignInState::Ended { reason, return_to: Some(INERT_URL) };
    vec![
        ("ask_number", ask(None)),
        ("invalid", ask(Some(NumberProblem::Invalid))),
        ("not_supported", ask(Some(NumberProblem::NotSupported))),
        ("too_many_attempts", ask(Some(NumberProblem::TooManyAttempts))),
        ("try_again_later", ask(Some(NumberProblem::TryAgainLater))),
        ("missing_country", ask(Some(NumberProblem::MissingCountry))),
        ("leaving", SignInState::Leaving { location: INERT_URL }),
        ("stalled", SignInState::Stalled),
        ("other_browser", SignInState::OtherBrowser { has_ended: false }),
        ("other_browser_ended", SignInState::OtherBrowser { has_ended: true }),
        ("cancelled", ended(SignInEnd::Cancelled)),
        ("expired", ended(SignInEnd::Expired)),
        ("not_verified", ended(SignInEnd::NotVerified)),
        ("used", ended(SignInEnd::Used)),
        ("ended_unavailable", ended(SignInEnd::Unavailable)),
        ("bad_request", SignInState::BadRequest { detail: "redirect_uri is not one of the client's redirect URIs" }),
        ("unknown", SignInState::Unknown),
        ("busy", SignInState::Busy),
        ("unavailable", SignInState::Unavailable),
        ("refused", SignInState::Refused),
    ]
}
