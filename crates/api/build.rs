//! Converts the OpenAPI document from YAML to the embedded JSON.

use std::{env, error::Error, fs, path::Path};

const SOURCE: &str = "api/openapi.yaml";

#[expect(clippy::disallowed_methods, reason = "Cargo configures build scripts by environment variables")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={SOURCE}");
    // Only `true` and `false` are booleans. YAML 1.1 would also read `n`, a property of JWKs, as one.
    let options = serde_saphyr::options! { strict_booleans: true };
    let document: serde_json::Value = serde_saphyr::from_str_with_options(&fs::read_to_string(SOURCE)?, options)?;
    let directory = env::var_os("OUT_DIR").ok_or("Cargo sets OUT_DIR for build scripts")?;
    fs::write(Path::new(&directory).join("openapi.json"), document.to_string())?;
    Ok(())
}
