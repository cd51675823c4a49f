//! Repairs typical damage to an `Authorization` header by copying, escaping and forwarding.

/// Kind of damage to the header's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderDamage {
    /// `+` became a space, as in form decoding.
    PlusBecameSpace,
    /// `-` and `_` instead of `+` and `/`.
    UrlSafeAlphabet,
    PercentEncoded,
    PaddingLost,
    HtmlEscaped,
    /// Backslashes before quotation marks, as in JSON.
    BackslashEscaped,
    SpacesAfterCommas,
}

impl HeaderDamage {
    pub fn as_str(self) -> &'static str {
        match self {
            HeaderDamage::PlusBecameSpace => "plus_became_space",
            HeaderDamage::UrlSafeAlphabet => "url_safe_alphabet",
            HeaderDamage::PercentEncoded => "percent_encoded",
            HeaderDamage::PaddingLost => "padding_lost",
            HeaderDamage::HtmlEscaped => "html_escaped",
            HeaderDamage::BackslashEscaped => "backslash_escaped",
            HeaderDamage::SpacesAfterCommas => "spaces_after_commas",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            HeaderDamage::PlusBecameSpace => "each `+` of the signature became a space, as in form decoding",
            HeaderDamage::UrlSafeAlphabet => "the signature has `-` and `_` instead of `+` and `/`",
            HeaderDamage::PercentEncoded => "`+`, `/` and `=` of the signature are percent-encoded",
            HeaderDamage::PaddingLost => "the trailing `=` of the signature is missing",
            HeaderDamage::HtmlEscaped => "quotation marks became `&quot;`",
            HeaderDamage::BackslashEscaped => "quotation marks are escaped with backslashes",
            HeaderDamage::SpacesAfterCommas => {
                "there are spaces after the commas; parameters are separated by commas without spaces"
            }
        }
    }
}

/// Candidates for the original header, by the damage they undo.
pub(super) fn candidate_repairs(value: &str) -> Vec<(HeaderDamage, String)> {
    let in_signature = |change: &dyn Fn(&str) -> String| {
        let (before, rest) = value.split_once("signature=\"")?;
        let (signature, after) = rest.split_once('"')?;
        Some(format!("{before}signature=\"{}\"{after}", change(signature)))
    };
    let percent = |text: &str| {
        ["%2B+", "%2b+", "%2F/", "%2f/", "%3D=", "%3d="]
            .iter()
            .fold(text.to_owned(), |text, pair| text.replace(&pair[..3], &pair[3..]))
    };
    let padded = |text: &str| format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
    let of_signature = [
        (HeaderDamage::PlusBecameSpace, in_signature(&|text| text.replace(' ', "+"))),
        (HeaderDamage::PaddingLost, in_signature(&padded)),
        (HeaderDamage::UrlSafeAlphabet, in_signature(&|text| padded(&text.replace('-', "+").replace('_', "/")))),
        (HeaderDamage::PercentEncoded, in_signature(&percent)),
    ];
    let of_header = [
        (HeaderDamage::HtmlEscaped, value.replace("&quot;", "\"").replace("&#34;", "\"").replace("&#x2F;", "/")),
        (HeaderDamage::BackslashEscaped, value.replace('\\', "")),
        (HeaderDamage::SpacesAfterCommas, value.replace(", ", ",")),
    ];
    let of_signature = of_signature.into_iter().filter_map(|(damage, repaired)| Some((damage, repaired?)));
    of_signature.chain(of_header).filter(|(_, repaired)| repaired != value).collect()
}
