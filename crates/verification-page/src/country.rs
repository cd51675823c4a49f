//! The list of countries from which users choose when they enter a number in national form.

use ringtrue_domain::phone::Country;

/// A country in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountryOption {
    /// ISO 3166 code.
    pub(crate) code: String,
    pub(crate) name: &'static str,
    pub(crate) dialing_code: i32,
    /// Whether the list follows a number with this dialling code to this country. Of several countries that share a
    /// dialling code, only one is the main country.
    pub(crate) is_main: bool,
}

/// Returns all countries, sorted by their English names.
pub(crate) fn country_options() -> Vec<CountryOption> {
    let options = Country::all().filter_map(|country| {
        let dialing_code = country.dialing_code()?;
        let code = country.to_string();
        let is_main = Country::of_dialing_code(dialing_code) == Some(country);
        Some(CountryOption { name: english_name(&code)?, code, dialing_code, is_main })
    });
    let mut options: Vec<_> = options.collect();
    // Without accents, so that Åland and Türkiye are where users look for them.
    options.sort_by_key(|option| option.name.replace('Å', "A").replace('ü', "u"));
    options
}

/// Returns the English name of a country: a short name where that of ISO 3166 is long, or where ISO 3166 has none.
fn english_name(code: &str) -> Option<&'static str> {
    Some(match code {
        "AC" => "Ascension Island",
        "BO" => "Bolivia",
        "CD" => "Congo (Kinshasa)",
        "CG" => "Congo (Brazzaville)",
        "FM" => "Micronesia",
        "GB" => "United Kingdom",
        "IR" => "Iran",
        "KP" => "North Korea",
        "KR" => "South Korea",
        "LA" => "Laos",
        "MD" => "Moldova",
        "MF" => "Saint Martin",
        "NL" => "Netherlands",
        "PS" => "Palestine",
        "RU" => "Russia",
        "SH" => "Saint Helena",
        "SX" => "Sint Maarten",
        "SY" => "Syria",
        "TA" => "Tristan da Cunha",
        "TW" => "Taiwan",
        "TZ" => "Tanzania",
        "US" => "United States",
        "VA" => "Vatican City",
        "VE" => "Venezuela",
        "XK" => "Kosovo",
        _ => rust_iso3166::from_alpha2(code)?.name,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn list_has_every_country_once() {
        let options = country_options();
        assert_eq!(options.len(), Country::all().count());
        let codes: BTreeSet<_> = options.iter().map(|option| &option.code).collect();
        let names: BTreeSet<_> = options.iter().map(|option| option.name).collect();
        assert_eq!((codes.len(), names.len()), (options.len(), options.len()));
        for option in &options {
            assert!(!option.name.is_empty() && option.name.len() <= 44 && !option.name.contains(" of)"), "{option:?}");
        }
        let position = |name: &str| options.iter().position(|option| option.name == name).unwrap();
        assert!(position("Albania") > position("Åland Islands"));
        assert!(position("Turkmenistan") > position("Türkiye") && position("Uganda") > position("Türkiye"));
    }

    #[test]
    fn dialing_code_has_one_main_country() {
        let options = country_options();
        let main: Vec<_> = options.iter().filter(|option| option.is_main).collect();
        let codes: BTreeSet<_> = options.iter().map(|option| option.dialing_code).collect();
        assert_eq!(main.iter().map(|option| option.dialing_code).collect::<BTreeSet<_>>(), codes);
        assert_eq!(main.len(), codes.len());
        let country = |code| main.iter().find(|option| option.dialing_code == code).map(|option| option.code.as_str());
        assert_eq!((country(1), country(44), country(7)), (Some("US"), Some("GB"), Some("RU")));
    }
}
