//! Languages of the page, their message catalogues, and the negotiation of the user's language.

use std::sync::LazyLock;

use fluent_bundle::{FluentArgs, FluentResource, concurrent::FluentBundle};
use fluent_langneg::{NegotiationStrategy, negotiate_languages, parse_accepted_languages};
use strum::{IntoStaticStr, VariantArray};
use unic_langid::LanguageIdentifier;

/// A language of the page. To add one, add its catalogue to `locales/` and a variant here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Language {
    English,
    German,
    French,
    Spanish,
    Portuguese,
    Italian,
    Dutch,
    Polish,
    Arabic,
    Turkish,
    Ukrainian,
    Romanian,
    Czech,
    Swedish,
    Danish,
    Finnish,
    Greek,
    Hindi,
    Indonesian,
    Japanese,
}

impl Language {
    /// BCP 47 tag.
    pub fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::German => "de",
            Language::French => "fr",
            Language::Spanish => "es",
            Language::Portuguese => "pt",
            Language::Italian => "it",
            Language::Dutch => "nl",
            Language::Polish => "pl",
            Language::Arabic => "ar",
            Language::Turkish => "tr",
            Language::Ukrainian => "uk",
            Language::Romanian => "ro",
            Language::Czech => "cs",
            Language::Swedish => "sv",
            Language::Danish => "da",
            Language::Finnish => "fi",
            Language::Greek => "el",
            Language::Hindi => "hi",
            Language::Indonesian => "id",
            Language::Japanese => "ja",
        }
    }

    /// Name of the language in the language itself.
    pub fn name(self) -> &'static str {
        match self {
            Language::English => "English",
            Language::German => "Deutsch",
            Language::French => "Français",
            Language::Spanish => "Español",
            Language::Portuguese => "Português",
            Language::Italian => "Italiano",
            Language::Dutch => "Nederlands",
            Language::Polish => "Polski",
            Language::Arabic => "العربية",
            Language::Turkish => "Türkçe",
            Language::Ukrainian => "Українська",
            Language::Romanian => "Română",
            Language::Czech => "Čeština",
            Language::Swedish => "Svenska",
            Language::Danish => "Dansk",
            Language::Finnish => "Suomi",
            Language::Greek => "Ελληνικά",
            Language::Hindi => "हिन्दी",
            Language::Indonesian => "Bahasa Indonesia",
            Language::Japanese => "日本語",
        }
    }

    /// Value of the `dir` attribute.
    pub fn direction(self) -> &'static str {
        if self.is_right_to_left() { "rtl" } else { "ltr" }
    }

    /// Selects the first supported language among the requested tags. Otherwise selects the supported language that
    /// `Accept-Language` prefers, otherwise English.
    pub fn negotiate<'a>(requested_tags: impl IntoIterator<Item = &'a str>, accept_language: Option<&'a str>) -> Self {
        let requested = requested_tags.into_iter().find_map(|tag| Self::find_by_tag(tag, &[]));
        requested.unwrap_or_else(|| {
            Self::negotiate_by_header(accept_language.unwrap_or_default()).unwrap_or(Language::English)
        })
    }

    /// Selects the best language by the weights of `Accept-Language` (RFC 9110, section 12.5.4).
    fn negotiate_by_header(accept_language: &str) -> Option<Self> {
        let mut ranges: Vec<_> = accept_language.split(',').filter_map(LanguageRange::parse).collect();
        let refused = ranges.iter().filter(|range| range.weight == 0.0 && range.tag != "*");
        let refused: Vec<_> = refused.filter_map(|range| Self::find_by_tag(range.tag, &[])).collect();
        ranges.retain(|range| range.weight > 0.0);
        ranges.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        ranges.iter().find_map(|range| match range.tag {
            "*" => Language::VARIANTS.iter().copied().find(|language| !refused.contains(language)),
            tag => Self::find_by_tag(tag, &refused),
        })
    }

    /// Finds the language for a tag, such as Portuguese for `pt-BR`. Skips languages that the header refuses with
    /// weight 0.
    fn find_by_tag(tag: &str, refused: &[Language]) -> Option<Self> {
        let available = Language::VARIANTS.iter().filter(|language| !refused.contains(language));
        let available: Vec<LanguageIdentifier> = available.filter_map(|language| language.tag().parse().ok()).collect();
        let requested = parse_accepted_languages(tag);
        let known = negotiate_languages(&requested, &available, None, NegotiationStrategy::Filtering);
        let tag = known.first().map(ToString::to_string);
        Language::VARIANTS.iter().copied().find(|language| Some(language.tag()) == tag.as_deref())
    }

    /// Renders a message. Uses English if the language's catalogue lacks it.
    pub(crate) fn format(self, message: Message, arguments: &FluentArgs<'_>) -> String {
        let id = message.into_str();
        let translated = format(self.bundle(), id, arguments);
        translated.or_else(|| format(Language::English.bundle(), id, arguments)).unwrap_or_else(|| id.to_owned())
    }

    pub(crate) fn catalogue(self) -> &'static str {
        match self {
            Language::English => include_str!("../locales/en.ftl"),
            Language::German => include_str!("../locales/de.ftl"),
            Language::French => include_str!("../locales/fr.ftl"),
            Language::Spanish => include_str!("../locales/es.ftl"),
            Language::Portuguese => include_str!("../locales/pt.ftl"),
            Language::Italian => include_str!("../locales/it.ftl"),
            Language::Dutch => include_str!("../locales/nl.ftl"),
            Language::Polish => include_str!("../locales/pl.ftl"),
            Language::Arabic => include_str!("../locales/ar.ftl"),
            Language::Turkish => include_str!("../locales/tr.ftl"),
            Language::Ukrainian => include_str!("../locales/uk.ftl"),
            Language::Romanian => include_str!("../locales/ro.ftl"),
            Language::Czech => include_str!("../locales/cs.ftl"),
            Language::Swedish => include_str!("../locales/sv.ftl"),
            Language::Danish => include_str!("../locales/da.ftl"),
            Language::Finnish => include_str!("../locales/fi.ftl"),
            Language::Greek => include_str!("../locales/el.ftl"),
            Language::Hindi => include_str!("../locales/hi.ftl"),
            Language::Indonesian => include_str!("../locales/id.ftl"),
            Language::Japanese => include_str!("../locales/ja.ftl"),
        }
    }

    fn is_right_to_left(self) -> bool {
        self == Language::Arabic
    }

    fn bundle(self) -> &'static Bundle {
        static BUNDLES: LazyLock<Vec<Bundle>> =
            LazyLock::new(|| Language::VARIANTS.iter().map(|language| language.load()).collect());
        // The discriminant is the index: `BUNDLES` has the order of `VARIANTS`, which is that of the discriminants.
        &BUNDLES[self as usize]
    }

    /// Parses the catalogue. Skips entries with syntax errors; a test ensures that there are none.
    fn load(self) -> Bundle {
        let mut bundle = FluentBundle::new_concurrent(self.tag().parse().into_iter().collect());
        let resource = FluentResource::try_new(self.catalogue().to_owned()).unwrap_or_else(|(valid, _)| valid);
        bundle.add_resource_overriding(resource);
        // Unicode isolation marks let an inserted name keep its own direction, which matters only in right-to-left
        // text.
        bundle.set_use_isolating(self.is_right_to_left());
        bundle
    }
}

/// One language range of an `Accept-Language` header.
struct LanguageRange<'a> {
    tag: &'a str,
    weight: f32,
}

impl<'a> LanguageRange<'a> {
    /// Parses a language range. `None`: the range is malformed.
    fn parse(range: &'a str) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        let tag = parts.next().filter(|tag| !tag.is_empty())?;
        let weight = match parts.next() {
            Some(parameter) => {
                let (name, value) = parameter.split_once('=')?;
                let weight: f32 = value.trim().parse().ok()?;
                name.trim().eq_ignore_ascii_case("q").then_some(weight)?
            }
            None => 1.0,
        };
        (0.0..=1.0).contains(&weight).then_some(LanguageRange { tag, weight })
    }
}

type Bundle = FluentBundle<FluentResource>;

fn format(bundle: &Bundle, id: &str, arguments: &FluentArgs<'_>) -> Option<String> {
    let pattern = bundle.get_message(id)?.value()?;
    let mut errors = vec![];
    let text = bundle.format_pattern(pattern, Some(arguments), &mut errors);
    errors.is_empty().then(|| text.into_owned())
}

/// Messages of the catalogues. The Fluent id of a message is its name in kebab case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(crate) enum Message {
    Number,
    NotYourNumber,
    Sandbox,
    TimeLeft,
    Support,
    Language,
    StartTitle,
    StartText,
    StartButton,
    StartComputerText,
    ScanCamera,
    StartOpen,
    StartFollow,
    StartHere,
    StartScanLabel,
    WalletText,
    WalletButton,
    WalletAgain,
    SilentTitle,
    SilentText,
    Continue,
    OtherWay,
    StalledTitle,
    StalledText,
    ConfirmingTitle,
    ConfirmingText,
    ConfirmingOwnText,
    ConfirmingElsewhere,
    StalledOnlyText,
    AskWhetherToStopTitle,
    AskWhetherToStopText,
    ElsewhereTitle,
    ElsewhereText,
    AllowCookies,
    TextTitle,
    TextText,
    TextWarning,
    TextComputerText,
    TextOpen,
    TextSend,
    TextByHand,
    TextButton,
    TextScanLabel,
    TextReceiver,
    TextBody,
    CopyReceiver,
    CopyBody,
    Copied,
    CopyFailed,
    TextWaiting,
    TextCannot,
    OtherSenderTitle,
    OtherSenderText,
    ReceivedTitle,
    ReceivedText,
    AskWhetherToGiveUpTitle,
    AskWhetherToGiveUpText,
    AskWhetherToGiveUpYes,
    AskIfWrongNumberTitle,
    AskIfWrongNumberText,
    AskIfWrongNumberYes,
    AskNo,
    SimTitle,
    SimText,
    DoneTitle,
    DoneText,
    MismatchTitle,
    MismatchPhoneText,
    MismatchText,
    FailedTitle,
    FailedText,
    GivenUpTitle,
    GivenUpText,
    WrongNumberTitle,
    WrongNumberText,
    CancelledTitle,
    CancelledText,
    ExpiredTitle,
    ExpiredText,
    ReturnLink,
    Close,
    UnknownTitle,
    UnknownText,
    BusyTitle,
    BusyText,
    UnavailableTitle,
    UnavailableText,
    RefusedTitle,
    RefusedText,
    Retry,
    EnterCodeText,
    DeviceFailedText,
    NotMobileTitle,
    NotMobileText,
    UsedTitle,
    OtherBrowserTitle,
    OtherBrowserText,
    OtherBrowserCookies,
    StartAgainText,
    SignInTitle,
    SignInText,
    SignInCountry,
    SignInChooseCountry,
    SignInNumber,
    SignInHint,
    SignInSandboxHint,
    SignInPrivacy,
    SignInDiscover,
    SignInCancel,
    SignInEnterNumber,
    SignInStalledText,
    SignInInvalid,
    SignInNotSupported,
    SignInTooManyAttempts,
    SignInTryLater,
    SignInMissingCountry,
    SignInEndedTitle,
    SignInEndedText,
    SignInCancelledTitle,
    SignInCancelledText,
    SignInExpiredTitle,
    SignInExpiredText,
    SignInFailedText,
    SignInRefusedTitle,
    SignInRefusedText,
    SignInDetail,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use fluent_syntax::{
        ast::{Entry, Expression, InlineExpression, Pattern, PatternElement},
        parser::parse,
    };

    use unicode_width::UnicodeWidthStr;

    use super::*;

    /// Lists the variables of each message.
    fn variables(language: Language) -> BTreeMap<String, BTreeSet<String>> {
        let resource = parse(language.catalogue()).unwrap_or_else(|(_, errors)| panic!("{language:?}: {errors:?}"));
        let messages = resource.body.into_iter().filter_map(|entry| match entry {
            Entry::Message(message) => {
                let value = message.value.unwrap_or_else(|| panic!("{language:?}: {} is empty", message.id.name));
                let mut found = BTreeSet::new();
                collect_variables(&value, &mut found);
                Some((message.id.name.to_owned(), found))
            }
            Entry::Junk { content } => panic!("{language:?}: {content}"),
            _ => None,
        });
        let messages: Vec<_> = messages.collect();
        let by_id: BTreeMap<_, _> = messages.iter().cloned().collect();
        assert_eq!(by_id.len(), messages.len(), "{language:?} repeats a message");
        by_id
    }

    fn collect_variables(pattern: &Pattern<&str>, found: &mut BTreeSet<String>) {
        for element in &pattern.elements {
            let PatternElement::Placeable { expression } = element else { continue };
            let (Expression::Inline(inline) | Expression::Select { selector: inline, .. }) = expression;
            if let InlineExpression::VariableReference { id } = inline {
                found.insert(id.name.to_owned());
            }
            if let Expression::Select { variants, .. } = expression {
                for variant in variants {
                    collect_variables(&variant.value, found);
                }
            }
        }
    }

    #[test]
    fn every_catalogue_has_every_message_with_the_same_variables() {
        let english = variables(Language::English);
        let known: BTreeSet<String> = Message::VARIANTS.iter().map(|message| message.into_str().to_owned()).collect();
        assert_eq!(english.keys().cloned().collect::<BTreeSet<_>>(), known);
        assert!(english.values().flatten().all(|name| ["brand", "tail", "example"].contains(&name.as_str())));
        for language in Language::VARIANTS {
            assert_eq!(variables(*language), english, "{language:?}");
        }
    }

    #[test]
    fn translations_differ_from_english() {
        let mut arguments = FluentArgs::new();
        arguments.set("brand", "Acme");
        arguments.set("tail", "42");
        arguments.set("example", "42");
        for language in Language::VARIANTS.iter().filter(|language| **language != Language::English) {
            let same = Message::VARIANTS.iter().filter(|message| {
                language.format(**message, &arguments) == Language::English.format(**message, &arguments)
            });
            // One message may be the same as in English, such as "Message" in French.
            assert!(same.count() <= 1, "{language:?}");
        }
    }

    /// Columns that fit into the message's place on a screen of 320 pixels. Buttons have one line, titles two, links and
    /// steps two, texts six.
    fn max_columns(message: Message) -> usize {
        match message {
            Message::CopyReceiver | Message::CopyBody => 20,
            Message::TextReceiver | Message::TextBody | Message::TimeLeft | Message::Language | Message::Copied => 16,
            Message::StartButton
            | Message::Continue
            | Message::OtherWay
            | Message::TextButton
            | Message::AskWhetherToGiveUpYes
            | Message::AskIfWrongNumberYes
            | Message::AskNo
            | Message::SignInDiscover
            | Message::SignInCancel
            | Message::SignInChooseCountry
            | Message::Retry => 28,
            Message::Number
            | Message::NotYourNumber
            | Message::TextCannot
            | Message::TextWaiting
            | Message::Support
            | Message::ReturnLink
            | Message::StartHere
            | Message::TextByHand
            | Message::ScanCamera
            | Message::StartOpen
            | Message::TextOpen
            | Message::TextSend
            | Message::SignInCountry
            | Message::SignInNumber
            | Message::SignInHint
            | Message::SignInEnterNumber
            | Message::SignInDetail => 52,
            _ if message.into_str().ends_with("-title") => 48,
            _ => 175,
        }
    }

    #[test]
    fn messages_fit_into_their_places() {
        let mut arguments = FluentArgs::new();
        arguments.set("brand", "Nordwind");
        arguments.set("tail", "6742");
        arguments.set("example", "+990 123 456 700");
        for language in Language::VARIANTS {
            for message in Message::VARIANTS {
                let text = language.format(*message, &arguments);
                let (columns, max) = (text.width(), max_columns(*message));
                assert!(columns <= max, "{language:?}: {columns} columns, at most {max} fit: {text}");
            }
        }
    }

    #[test]
    fn every_catalogue_file_is_a_language() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/locales")).unwrap();
        let files: BTreeSet<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(files, Language::VARIANTS.iter().map(|language| format!("{}.ftl", language.tag())).collect());
    }

    #[test]
    fn language_is_negotiated() {
        for (requested, accepted, language) in [
            (&[][..], None, Language::English),
            (&[], Some(""), Language::English),
            (&[], Some("*"), Language::English),
            (&[], Some("de"), Language::German),
            (&[], Some("de-AT,de;q=0.9,en;q=0.8"), Language::German),
            (&[], Some("pt-BR"), Language::Portuguese),
            (&[], Some("ko,zh-Hant-TW;q=0.9,fr-CA;q=0.8,en;q=0.7"), Language::French),
            (&[], Some("ko"), Language::English),
            (&[], Some("ja-JP"), Language::Japanese),
            (&[], Some("EN-gb,de"), Language::English),
            (&[], Some("ar-EG,de"), Language::Arabic),
            (&[], Some(";;,,q=,\u{e9}, nl-BE;q=1"), Language::Dutch),
            // Weights decide, not the order.
            (&[], Some("en;q=0.2,de;q=0.8"), Language::German),
            (&[], Some("fr;q=0.5, de;q=0.5"), Language::French),
            (&[], Some("en; q = 0.1 , it"), Language::Italian),
            (&[], Some("de;q=0,en"), Language::English),
            (&[], Some("de;q=0"), Language::English),
            (&[], Some("de;q=0,de-AT"), Language::English),
            (&[], Some("en;q=0,*"), Language::German),
            (&[], Some("*;q=0.1,pl;q=0.5"), Language::Polish),
            (&[], Some("pl;q=0.5,*;q=0"), Language::Polish),
            (&[], Some("de;q=2,fr"), Language::French),
            (&[], Some("de;q=x,fr;q=0.1"), Language::French),
            (&[], Some("de;level=1,fr;q=0.1"), Language::French),
            (&["pl"], Some("de"), Language::Polish),
            (&["it-CH"], Some("de"), Language::Italian),
            (&["xx"], Some("es-419"), Language::Spanish),
            (&["pl", "fr"], Some("de"), Language::Polish),
            (&["xx", "fr"], Some("de"), Language::French),
            (&["xx", "yy"], Some("de"), Language::German),
        ] {
            let negotiated = Language::negotiate(requested.iter().copied(), accepted);
            assert_eq!(negotiated, language, "{requested:?} {accepted:?}");
        }
    }

    #[test]
    fn names_are_isolated_in_right_to_left_text() {
        let mut arguments = FluentArgs::new();
        arguments.set("brand", "Acme");
        assert_eq!(Language::English.format(Message::ReturnLink, &arguments), "Back to Acme");
        let arabic = Language::Arabic.format(Message::ReturnLink, &arguments);
        assert!(arabic.contains("\u{2068}Acme\u{2069}"), "{arabic:?}");
    }
}
