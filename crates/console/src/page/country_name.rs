//! English names of countries.

use ringtrue_domain::phone::Country;

/// Returns the name of a country. Empty if ISO 3166 does not name it.
pub fn country_name(country: Country) -> &'static str {
    rust_iso3166::from_alpha2(&country.to_string()).map(|found| found.name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_have_english_names() {
        for (code, name) in [("DE", "Germany"), ("BR", "Brazil"), ("XK", "")] {
            assert_eq!(country_name(code.parse().unwrap()), name);
        }
    }
}
