//! Turns the API document, which people write as YAML, into the JSON that the binary embeds.

use std::{env, error::Error, fs, path::Path};

const SOURCE: &str = "api/openapi.yaml";

#[expect(clippy::disallowed_methods, reason = "Cargo speaks to build scripts by the environment")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={SOURCE}");
    // Without this, `n` would be a boolean.
    let options = serde_saphyr::options! { strict_booleans: true };
    let document: serde_json::Value = serde_saphyr::from_str_with_options(&fs::read_to_string(SOURCE)?, options)?;
    let directory = env::var_os("OUT_DIR").ok_or("Cargo sets OUT_DIR for build scripts")?;
    fs::write(Path::new(&directory).join("openapi.json"), document.to_string())?;
    Ok(())
}
