//! What copying, escaping and forwarding do to an `Authorization` header, undone.

/// What was done to the text of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextDamage {
    /// A `+` of base64 has become a space, as in a form or a query.
    PlusBecameSpace,
    /// `-` and `_` in place of `+` and `/`.
    UrlSafeAlphabet,
    /// `%2B`, `%2F`, `%3D` in place of what they stand for.
    PercentEncoded,
    /// The `=` at the end is gone.
    PaddingLost,
    /// `&quot;` and the like.
    HtmlEscaped,
    /// Backslashes before quotation marks, as inside JSON.
    BackslashEscaped,
    /// Spaces after commas.
    SpacesAfterCommas,
}

impl TextDamage {
    pub fn as_str(self) -> &'static str {
        match self {
            TextDamage::PlusBecameSpace => "plus_became_space",
            TextDamage::UrlSafeAlphabet => "url_safe_alphabet",
            TextDamage::PercentEncoded => "percent_encoded",
            TextDamage::PaddingLost => "padding_lost",
            TextDamage::HtmlEscaped => "html_escaped",
            TextDamage::BackslashEscaped => "backslash_escaped",
            TextDamage::SpacesAfterCommas => "spaces_after_commas",
        }
    }

    pub(super) fn story(self) -> &'static str {
        match self {
            TextDamage::PlusBecameSpace => "each `+` of the signature has become a space, as when a form is decoded",
            TextDamage::UrlSafeAlphabet => "the signature has `-` and `_` where `+` and `/` were sent",
            TextDamage::PercentEncoded => "`+`, `/` and `=` of the signature are percent-encoded",
            TextDamage::PaddingLost => "the `=` at the end of the signature is gone",
            TextDamage::HtmlEscaped => "quotation marks have become `&quot;`",
            TextDamage::BackslashEscaped => "there are backslashes before the quotation marks",
            TextDamage::SpacesAfterCommas => {
                "there are spaces after the commas; what was sent is separated by commas without spaces"
            }
        }
    }
}

/// What the header may have been, with what was done to it.
pub(super) fn repairs(value: &str) -> Vec<(TextDamage, String)> {
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
        (TextDamage::PlusBecameSpace, in_signature(&|text| text.replace(' ', "+"))),
        (TextDamage::PaddingLost, in_signature(&padded)),
        (TextDamage::UrlSafeAlphabet, in_signature(&|text| padded(&text.replace('-', "+").replace('_', "/")))),
        (TextDamage::PercentEncoded, in_signature(&percent)),
    ];
    let of_all = [
        (TextDamage::HtmlEscaped, value.replace("&quot;", "\"").replace("&#34;", "\"").replace("&#x2F;", "/")),
        (TextDamage::BackslashEscaped, value.replace('\\', "")),
        (TextDamage::SpacesAfterCommas, value.replace(", ", ",")),
    ];
    let of_signature = of_signature.into_iter().filter_map(|(damage, repaired)| Some((damage, repaired?)));
    of_signature.chain(of_all).filter(|(_, repaired)| repaired != value).collect()
}
