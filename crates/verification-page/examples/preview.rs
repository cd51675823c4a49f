//! Writes every state of the page in every language to a folder, for translators and designers.
//!
//! `cargo run -p ringtrue-verification-page --example preview -- FOLDER`

use std::{env, error::Error, fs, path::PathBuf};

use ringtrue_domain::reverse_sms::Platform;
use ringtrue_verification_page::{Brand, Colour, Language, Preview, SampleState};
use strum::VariantArray;

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
        for &state in SampleState::VARIANTS {
            let preview = Preview {
                state,
                language,
                brand: Some(brand),
                platform: Platform::Unknown,
                is_sandbox: true,
                seconds_left: Some(95),
            };
            let file = format!("{}.{}.html", state.into_str(), language.tag());
            fs::write(folder.join(file), preview.render().html)?;
        }
    }
    Ok(())
}
