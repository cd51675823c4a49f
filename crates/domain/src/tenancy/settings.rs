//! The list of all settings of a project. The API, console, database and audit log access a [`Configuration`] through
//! this list. To add a setting, add a field to [`Configuration`], a line to [`SETTINGS`], and texts to the OpenAPI
//! document and the console's form.

use std::{fmt::Display, str::FromStr};

use super::{Configuration, InvalidReverseSmsTtl, ReverseSmsTtl, SmsPrefix};
use crate::{
    callback::{InvalidRetryFor, RetryFor},
    camara::{CamaraSettings, Purpose},
    sign_in::{
        ClientAuthentication, ClientKeys, IdTokenAlgorithm, InvalidSessionLifetime, RedirectUri, SessionLifetime,
        SignInSettings,
    },
    silent::AppOrigin,
    sim_swap::{InvalidSimSwapPeriod, SimSwapPeriod},
    verification::{BrandName, BrandUrl, Colour, InvalidVerificationTtl, LogoUrl, Method, VerificationTtl},
    web_url::{CallbackUrl, MAX_ORIGINS, RedirectUrl, UrlError, UrlPolicy, WebOrigin},
};

/// All settings, in the order in which they are shown.
pub static SETTINGS: &[Setting] = settings![
    reverse_sms.callback_url,
    reverse_sms.ttl,
    reverse_sms.prefix,
    reverse_sms.auto_reply,
    secure_sna.callback_url,
    secure_sna.redirect_url,
    secure_sna.app_origins,
    discovery.callback_url,
    discovery.redirect_url,
    verification.methods,
    verification.fall_back_on_mismatch,
    verification.callback_url,
    verification.redirect_url,
    verification.redirect_origins,
    verification.frame_origins,
    verification.ttl,
    verification.brand.name,
    verification.brand.logo_url,
    verification.brand.support_url,
    verification.brand.colour,
    sign_in.redirect_uris,
    sign_in.sim_swap_period,
    sign_in.session,
    sign_in.token_endpoint_auth_method,
    sign_in.jwks,
    sign_in.jwks_uri,
    sign_in.id_token_signed_response_alg,
    camara.purposes,
    callbacks.url,
    callbacks.retry_for,
];

/// Setting that an upload sets, too.
const LOGO_SETTING: &str = "verification.brand.logo_url";

/// One setting of a project. JSON and the database omit settings that have their default values.
#[derive(Debug)]
pub struct Setting {
    /// Path in the configuration's JSON, such as `verification.brand.colour`.
    pub path: &'static str,
    pub kind: SettingKind,
    read: fn(&Configuration) -> Option<SettingValue>,
    write: fn(&mut Configuration, Option<&SettingValue>, SettingRules<'_>) -> Result<(), ElementError>,
}

macro_rules! settings {
    ($($section:ident $(. $member:ident)+),+ $(,)?) => {
        &[$(Setting {
            path: concat!(stringify!($section), $(".", stringify!($member)),+),
            kind: kind_of(|configuration| &configuration.$section $(.$member)+),
            read: |configuration| configuration.$section $(.$member)+.to_value(),
            write: |configuration, value, rules| {
                configuration.$section $(.$member)+ = match value {
                    Some(value) => SettingType::from_value(value, rules)?,
                    None => Default::default(),
                };
                Ok(())
            },
        }),+]
    };
}
use settings;

const fn kind_of<T: SettingType>(_: fn(&Configuration) -> &T) -> SettingKind {
    T::KIND
}

/// A value before validation, from JSON, a form or the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    Boolean(bool),
    Integer(i64),
    Text(String),
    List(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    Boolean,
    Integer,
    Text,
    List,
    /// A JSON object, as [`SettingValue::Text`].
    Json,
}

/// How strictly values are validated.
#[derive(Clone, Copy, Debug)]
pub enum SettingRules<'a> {
    /// Values from a client. URLs must follow the URL policy.
    Given(&'a UrlPolicy),
    /// Values from the database. The URL policy is not applied, because it may have changed since the value was stored.
    Stored,
}

/// Reports that a setting does not accept a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}`: {cause}")]
pub struct InvalidSetting {
    /// JSON pointer to the setting in the project, such as `/configuration/reverse_sms/ttl`.
    pub pointer: String,
    pub cause: SettingError,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error(transparent)]
    CallbackUrl(UrlError),
    #[error(transparent)]
    RedirectUrl(UrlError),
    #[error("{0}")]
    Other(String),
}

/// JSON merge patch (RFC 7396) of a configuration. `None` resets a setting to its default.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationPatch(Vec<(&'static Setting, Option<SettingValue>)>);

impl ConfigurationPatch {
    /// Returns a patch that removes the logo of the brand.
    pub fn for_logo_removal() -> Self {
        Setting::find(LOGO_SETTING).map(|setting| (setting, None)).into_iter().collect()
    }

    /// Returns a patch that resets all settings.
    pub fn for_reset() -> Self {
        SETTINGS.iter().map(|setting| (setting, None)).collect()
    }

    fn get(&self, setting: &Setting) -> Option<&Option<SettingValue>> {
        self.0.iter().find(|(patched, _)| patched.path == setting.path).map(|(_, value)| value)
    }
}

impl FromIterator<(&'static Setting, Option<SettingValue>)> for ConfigurationPatch {
    fn from_iter<I: IntoIterator<Item = (&'static Setting, Option<SettingValue>)>>(changes: I) -> Self {
        ConfigurationPatch(changes.into_iter().collect())
    }
}

impl Setting {
    pub fn find(path: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.path == path)
    }

    /// Returns the settings in a section, such as `verification` or `verification.brand`.
    pub fn find_in_section(section: &str) -> impl Iterator<Item = &'static Setting> {
        SETTINGS
            .iter()
            .filter(move |setting| setting.path.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')))
    }

    pub fn value(&self, configuration: &Configuration) -> Option<SettingValue> {
        (self.read)(configuration)
    }

    fn set(
        &self,
        configuration: &mut Configuration,
        value: Option<&SettingValue>,
        rules: SettingRules<'_>,
    ) -> Result<(), InvalidSetting> {
        (self.write)(configuration, value, rules).map_err(|ElementError { index, cause }| {
            let pointer = match index {
                Some(index) => format!("{}/{index}", self.pointer()),
                None => self.pointer(),
            };
            InvalidSetting { pointer, cause }
        })
    }

    fn pointer(&self) -> String {
        format!("/configuration/{}", self.path.replace('.', "/"))
    }
}

impl Configuration {
    /// Applies a patch. With `revalidate`, values that the patch does not change must follow the policy too, for
    /// example after a change from sandbox to live mode.
    pub fn patched(
        &self,
        patch: &ConfigurationPatch,
        policy: &UrlPolicy,
        revalidate: bool,
    ) -> Result<Configuration, InvalidSetting> {
        let mut patched = self.clone();
        for setting in SETTINGS {
            match (patch.get(setting), setting.value(self)) {
                (Some(Some(value)), _) if self.has_uploaded_logo_at(setting, value) => {}
                (Some(value), _) => setting.set(&mut patched, value.as_ref(), SettingRules::Given(policy))?,
                (None, Some(value)) if revalidate => {
                    setting.set(&mut patched, Some(&value), SettingRules::Given(policy))?;
                }
                (None, _) => {}
            }
        }
        let verification = &patched.verification;
        let redirect = verification.redirect_url.as_ref().map_or(Ok(()), |url| verification.check_redirect(url));
        redirect.map_err(|cause| InvalidSetting {
            pointer: "/configuration/verification/redirect_url".to_owned(),
            cause: SettingError::RedirectUrl(cause),
        })?;
        let logo = |configuration: &Configuration| configuration.verification.brand.logo_url.clone();
        if logo(&patched).is_some_and(|new| new.uploaded().is_some() && Some(&new) != logo(self).as_ref()) {
            return Err(InvalidSetting {
                pointer: "/configuration/verification/brand/logo_url".to_owned(),
                cause: SettingError::Other("no such logo was uploaded; send the image with `PUT …/logo`".to_owned()),
            });
        }
        Ok(patched)
    }

    /// Whether a value given for the logo's URL is that of the uploaded logo. Then the logo stays as it is.
    fn has_uploaded_logo_at(&self, setting: &Setting, value: &SettingValue) -> bool {
        let logo = self.verification.brand.logo_url.as_ref().filter(|_| setting.path == LOGO_SETTING);
        logo.is_some_and(|logo| matches!(value, SettingValue::Text(url) if logo.is_upload_at(url)))
    }

    /// Returns the settings that differ from their defaults.
    pub fn non_default_settings(&self) -> impl Iterator<Item = (&'static Setting, SettingValue)> {
        SETTINGS.iter().filter_map(|setting| Some((setting, setting.value(self)?)))
    }

    /// Builds a configuration from stored values.
    pub fn from_stored(
        values: impl IntoIterator<Item = (&'static Setting, SettingValue)>,
    ) -> Result<Configuration, InvalidSetting> {
        let mut configuration = Configuration::default();
        for (setting, value) in values {
            setting.set(&mut configuration, Some(&value), SettingRules::Stored)?;
        }
        Ok(configuration)
    }

    /// Returns the settings whose values differ between two configurations.
    pub fn changes<'a>(&'a self, after: &'a Configuration) -> impl Iterator<Item = &'static Setting> + 'a {
        SETTINGS.iter().filter(|setting| setting.value(self) != setting.value(after))
    }
}

/// Why a value is invalid, with the index of the invalid element if the value is a list.
struct ElementError {
    index: Option<usize>,
    cause: SettingError,
}

impl From<SettingError> for ElementError {
    fn from(cause: SettingError) -> Self {
        ElementError { index: None, cause }
    }
}

/// Type of a field of [`Configuration`]. The default value means that the setting is absent.
trait SettingType: Default + Sized {
    const KIND: SettingKind;

    fn from_value(value: &SettingValue, rules: SettingRules<'_>) -> Result<Self, ElementError>;

    fn to_value(&self) -> Option<SettingValue>;
}

impl SettingType for bool {
    const KIND: SettingKind = SettingKind::Boolean;

    fn from_value(value: &SettingValue, _: SettingRules<'_>) -> Result<Self, ElementError> {
        match value {
            SettingValue::Boolean(value) => Ok(*value),
            _ => Err(SettingError::Other("expected a boolean".to_owned()).into()),
        }
    }

    fn to_value(&self) -> Option<SettingValue> {
        self.then_some(SettingValue::Boolean(true))
    }
}

impl<T: SettingScalar> SettingType for Option<T> {
    const KIND: SettingKind = T::KIND;

    fn from_value(value: &SettingValue, rules: SettingRules<'_>) -> Result<Self, ElementError> {
        Ok(Some(T::parse(value, rules)?))
    }

    fn to_value(&self) -> Option<SettingValue> {
        self.as_ref().map(T::render)
    }
}

impl SettingType for Option<Vec<Method>> {
    const KIND: SettingKind = SettingKind::List;

    fn from_value(value: &SettingValue, _: SettingRules<'_>) -> Result<Self, ElementError> {
        let methods = parse_list(value, parse_text)?;
        if methods.is_empty() {
            return Err(SettingError::Other("at least one method is required".to_owned()).into());
        }
        Ok(Some(methods))
    }

    fn to_value(&self) -> Option<SettingValue> {
        let methods = self.as_ref()?.iter().map(ToString::to_string);
        Some(SettingValue::List(methods.collect()))
    }
}

impl SettingType for Vec<WebOrigin> {
    const KIND: SettingKind = SettingKind::List;

    /// Rejects an empty list. It would mean the same as no list, so a client that sends one has probably made a
    /// mistake.
    fn from_value(value: &SettingValue, rules: SettingRules<'_>) -> Result<Self, ElementError> {
        let parse = |text: &str| match rules {
            SettingRules::Given(policy) => WebOrigin::parse(text, policy).map_err(SettingError::RedirectUrl),
            SettingRules::Stored => WebOrigin::from_stored(text).map_err(SettingError::RedirectUrl),
        };
        if matches!(value, SettingValue::List(texts) if texts.len() > MAX_ORIGINS) {
            return Err(SettingError::RedirectUrl(UrlError::TooManyOrigins).into());
        }
        let mut origins = vec![];
        for origin in parse_list(value, parse)? {
            // Different texts can be the same origin, for example with and without the default port.
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        if origins.is_empty() {
            let problem = "at least one origin is required; `null` removes the list";
            return Err(SettingError::Other(problem.to_owned()).into());
        }
        Ok(origins)
    }

    fn to_value(&self) -> Option<SettingValue> {
        let origins = self.iter().map(|origin| origin.as_str().to_owned());
        (!self.is_empty()).then(|| SettingValue::List(origins.collect()))
    }
}

impl SettingType for Vec<AppOrigin> {
    const KIND: SettingKind = SettingKind::List;

    /// Rejects an empty list, for the same reason as a list of origins.
    fn from_value(value: &SettingValue, rules: SettingRules<'_>) -> Result<Self, ElementError> {
        let parse = |text: &str| {
            let parsed = match rules {
                SettingRules::Given(policy) => AppOrigin::parse(text, policy),
                SettingRules::Stored => AppOrigin::from_stored(text),
            };
            parsed.map_err(|error| SettingError::Other(error.to_string()))
        };
        let origins = parse_list(value, parse)?;
        let problem = match origins.len() {
            0 => "at least one origin is required; `null` removes the list".to_owned(),
            1..=AppOrigin::MAX_ORIGINS => return Ok(origins),
            _ => format!("more than {} origins", AppOrigin::MAX_ORIGINS),
        };
        Err(SettingError::Other(problem).into())
    }

    fn to_value(&self) -> Option<SettingValue> {
        let origins = self.iter().map(|origin| origin.as_str().to_owned());
        (!self.is_empty()).then(|| SettingValue::List(origins.collect()))
    }
}

impl SettingType for Vec<RedirectUri> {
    const KIND: SettingKind = SettingKind::List;

    /// Rejects an empty list, for the same reason as a list of origins.
    fn from_value(value: &SettingValue, rules: SettingRules<'_>) -> Result<Self, ElementError> {
        let parse = |text: &str| {
            let parsed = match rules {
                SettingRules::Given(policy) => RedirectUri::parse(text, policy),
                SettingRules::Stored => RedirectUri::from_stored(text),
            };
            parsed.map_err(|error| SettingError::Other(error.to_string()))
        };
        let uris = parse_list(value, parse)?;
        let problem = match uris.len() {
            0 => "at least one redirect URI is required; `null` removes the list".to_owned(),
            1..=SignInSettings::MAX_REDIRECT_URIS => return Ok(uris),
            _ => format!("more than {} redirect URIs", SignInSettings::MAX_REDIRECT_URIS),
        };
        Err(SettingError::Other(problem).into())
    }

    fn to_value(&self) -> Option<SettingValue> {
        let uris = self.iter().map(|uri| uri.as_str().to_owned());
        (!self.is_empty()).then(|| SettingValue::List(uris.collect()))
    }
}

impl SettingType for Vec<Purpose> {
    const KIND: SettingKind = SettingKind::List;

    /// Rejects an empty list, for the same reason as a list of origins.
    fn from_value(value: &SettingValue, _: SettingRules<'_>) -> Result<Self, ElementError> {
        let mut purposes = parse_list(value, parse_text)?;
        purposes.sort();
        purposes.dedup();
        let problem = match purposes.len() {
            0 => "at least one purpose is required; `null` removes the list".to_owned(),
            1..=CamaraSettings::MAX_PURPOSES => return Ok(purposes),
            _ => format!("more than {} purposes", CamaraSettings::MAX_PURPOSES),
        };
        Err(SettingError::Other(problem).into())
    }

    fn to_value(&self) -> Option<SettingValue> {
        let purposes = self.iter().map(ToString::to_string);
        (!self.is_empty()).then(|| SettingValue::List(purposes.collect()))
    }
}

fn parse_list<T>(
    value: &SettingValue,
    parse: impl Fn(&str) -> Result<T, SettingError>,
) -> Result<Vec<T>, ElementError> {
    let SettingValue::List(texts) = value else {
        return Err(SettingError::Other("expected an array".to_owned()).into());
    };
    let element =
        |(index, text): (usize, &String)| parse(text).map_err(|cause| ElementError { index: Some(index), cause });
    texts.iter().enumerate().map(element).collect()
}

/// Type of a single value in an optional setting.
trait SettingScalar: Sized {
    const KIND: SettingKind;

    fn parse(value: &SettingValue, rules: SettingRules<'_>) -> Result<Self, SettingError>;

    fn render(&self) -> SettingValue;
}

/// Implements [`SettingScalar`] for text types whose `FromStr` implementation is their whole validation.
macro_rules! text_setting {
    ($($name:ident: $kind:ident),+) => {$(
        impl SettingScalar for $name {
            const KIND: SettingKind = SettingKind::$kind;

            fn parse(value: &SettingValue, _: SettingRules<'_>) -> Result<Self, SettingError> {
                parse_text(as_text(value)?)
            }

            fn render(&self) -> SettingValue {
                SettingValue::Text(self.as_str().to_owned())
            }
        }
    )+};
}

text_setting!(
    SmsPrefix: Text,
    BrandName: Text,
    BrandUrl: Text,
    LogoUrl: Text,
    Colour: Text,
    ClientAuthentication: Text,
    IdTokenAlgorithm: Text,
    ClientKeys: Json
);

/// Implements [`SettingScalar`] for URL types, whose validity depends on the project's mode and the deployment's
/// policy.
macro_rules! url_setting {
    ($($name:ident),+) => {$(
        impl SettingScalar for $name {
            const KIND: SettingKind = SettingKind::Text;

            fn parse(value: &SettingValue, rules: SettingRules<'_>) -> Result<Self, SettingError> {
                let text = as_text(value)?;
                let parsed = match rules {
                    SettingRules::Given(policy) => $name::parse(text, policy),
                    SettingRules::Stored => $name::from_stored(text),
                };
                parsed.map_err(SettingError::$name)
            }

            fn render(&self) -> SettingValue {
                SettingValue::Text(self.as_str().to_owned())
            }
        }
    )+};
}

url_setting!(CallbackUrl, RedirectUrl);

/// Implements [`SettingScalar`] for durations, in the unit that the method returns.
macro_rules! duration_setting {
    ($($name:ident.$unit:ident: $error:ident),+ $(,)?) => {$(
        impl SettingScalar for $name {
            const KIND: SettingKind = SettingKind::Integer;

            fn parse(value: &SettingValue, _: SettingRules<'_>) -> Result<Self, SettingError> {
                let duration = match value {
                    SettingValue::Integer(number) => $name::try_from(*number),
                    _ => Err($error),
                };
                duration.map_err(|error| SettingError::Other(error.to_string()))
            }

            fn render(&self) -> SettingValue {
                SettingValue::Integer(self.$unit().into())
            }
        }
    )+};
}

duration_setting!(
    RetryFor.seconds: InvalidRetryFor,
    ReverseSmsTtl.seconds: InvalidReverseSmsTtl,
    VerificationTtl.seconds: InvalidVerificationTtl,
    SessionLifetime.seconds: InvalidSessionLifetime,
    SimSwapPeriod.minutes: InvalidSimSwapPeriod,
);

fn as_text(value: &SettingValue) -> Result<&str, SettingError> {
    match value {
        SettingValue::Text(text) => Ok(text),
        _ => Err(SettingError::Other("expected a string".to_owned())),
    }
}

fn parse_text<T: FromStr<Err: Display>>(text: &str) -> Result<T, SettingError> {
    text.parse().map_err(|error: T::Err| SettingError::Other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> SettingValue {
        SettingValue::Text(text.to_owned())
    }

    fn list(texts: &[&str]) -> SettingValue {
        SettingValue::List(texts.iter().map(|&text| text.to_owned()).collect())
    }

    fn patch(changes: &[(&str, Option<SettingValue>)]) -> ConfigurationPatch {
        changes.iter().map(|(path, value)| (Setting::find(path).unwrap(), value.clone())).collect()
    }

    fn paths<'a>(settings: impl Iterator<Item = &'a Setting>) -> Vec<&'a str> {
        settings.map(|setting| setting.path).collect()
    }

    /// A valid value for each setting.
    fn all_values() -> Vec<(&'static str, SettingValue)> {
        vec![
            ("reverse_sms.callback_url", text("https://shop.example/cb")),
            ("reverse_sms.ttl", SettingValue::Integer(120)),
            ("reverse_sms.prefix", text("ACME")),
            ("reverse_sms.auto_reply", SettingValue::Boolean(true)),
            ("secure_sna.callback_url", text("https://shop.example/cb?sna")),
            ("secure_sna.redirect_url", text("https://shop.example/sna")),
            ("secure_sna.app_origins", list(&["https://app.example"])),
            ("discovery.callback_url", text("https://shop.example/cb?discovery")),
            ("discovery.redirect_url", text("https://shop.example/discovery")),
            ("verification.methods", list(&["reverse_sms", "secure_sna"])),
            ("verification.fall_back_on_mismatch", SettingValue::Boolean(true)),
            ("verification.callback_url", text("https://shop.example/cb?verification")),
            ("verification.redirect_url", text("https://shop.example/verified")),
            ("verification.redirect_origins", list(&["https://shop.example", "https://pay.example"])),
            ("verification.frame_origins", list(&["https://shop.example"])),
            ("verification.ttl", SettingValue::Integer(3_600)),
            ("verification.brand.name", text("Shop")),
            ("verification.brand.logo_url", text("https://shop.example/logo.svg")),
            ("verification.brand.support_url", text("https://shop.example/help")),
            ("verification.brand.colour", text("#1a73e8")),
            ("sign_in.redirect_uris", list(&["https://id.shop.example/cb", "com.shop.app:/cb"])),
            ("sign_in.sim_swap_period", SettingValue::Integer(1_440)),
            ("sign_in.session", SettingValue::Integer(600)),
            ("sign_in.token_endpoint_auth_method", text("private_key_jwt")),
            ("sign_in.jwks", text(r#"{"keys":[]}"#)),
            ("sign_in.jwks_uri", text("https://id.shop.example/jwks")),
            ("sign_in.id_token_signed_response_alg", text("ES256")),
            ("camara.purposes", list(&["dpv:FraudPreventionAndDetection", "dpv:IdentityVerification"])),
            ("callbacks.url", text("https://shop.example/cb?all")),
            ("callbacks.retry_for", SettingValue::Integer(86_400)),
        ]
    }

    #[test]
    fn every_setting_is_written_read_and_stored() {
        let values = all_values();
        assert_eq!(paths(SETTINGS.iter()), values.iter().map(|(path, _)| *path).collect::<Vec<_>>());
        let changes: Vec<_> = values.iter().map(|(path, value)| (*path, Some(value.clone()))).collect();
        let empty = Configuration::default();
        let full = empty.patched(&patch(&changes), &UrlPolicy::default(), true).unwrap();
        for (path, value) in &values {
            let setting = Setting::find(path).unwrap();
            assert_eq!(setting.value(&full).as_ref(), Some(value), "{path}");
            assert_eq!(setting.value(&empty), None, "{path}");
        }
        assert_eq!(paths(empty.changes(&full)), paths(SETTINGS.iter()));
        assert_eq!(Configuration::from_stored(full.non_default_settings()), Ok(full.clone()));
        assert_eq!(full.patched(&ConfigurationPatch::for_reset(), &UrlPolicy::default(), false), Ok(empty));
    }

    #[test]
    fn patch_keeps_absent_settings_and_clears_others() {
        let policy = UrlPolicy::default();
        let brand = patch(&[
            ("verification.brand.name", Some(text("Shop"))),
            ("verification.brand.colour", Some(text("#1A73E8"))),
        ]);
        let before = Configuration::default().patched(&brand, &policy, true).unwrap();
        let after = before.patched(&patch(&[("verification.brand.colour", None)]), &policy, false).unwrap();
        assert_eq!(after.verification.brand.name, before.verification.brand.name);
        assert_eq!(paths(before.changes(&after)), ["verification.brand.colour"]);
        assert_eq!(paths(before.changes(&before)), [""; 0]);
    }

    #[test]
    fn sections_contain_their_settings() {
        assert_eq!(paths(Setting::find_in_section("discovery")), ["discovery.callback_url", "discovery.redirect_url"]);
        assert_eq!(Setting::find_in_section("verification.brand").count(), 4);
        assert_eq!(Setting::find_in_section("disc").count(), 0);
        assert_eq!(Setting::find_in_section("reverse_sms.ttl").count(), 0);
    }

    #[test]
    fn kept_urls_are_revalidated_on_demand() {
        let sandbox = UrlPolicy { allow_http: true, ..UrlPolicy::default() };
        let urls = patch(&[
            ("reverse_sms.callback_url", Some(text("http://shop.example/cb"))),
            ("verification.redirect_origins", Some(list(&["https://shop.example"]))),
        ]);
        let before = Configuration::default().patched(&urls, &sandbox, true).unwrap();
        let live = UrlPolicy::default();
        assert_eq!(before.patched(&ConfigurationPatch::default(), &live, false), Ok(before.clone()));
        let invalid = before.patched(&ConfigurationPatch::default(), &live, true).unwrap_err();
        assert_eq!(invalid.pointer, "/configuration/reverse_sms/callback_url");
        assert_eq!(invalid.cause, SettingError::CallbackUrl(UrlError::HttpNotAllowed));
        let mended = patch(&[("reverse_sms.callback_url", Some(text("https://shop.example/cb")))]);
        assert!(before.patched(&mended, &live, true).is_ok());
        // Stored values stay readable, even if the policy no longer permits them.
        assert_eq!(Configuration::from_stored(before.non_default_settings()), Ok(before));
    }

    #[test]
    fn uploaded_logo_is_kept_but_not_set_by_a_patch() {
        let policy = UrlPolicy::default();
        let path = "/logos/0199b0a8-0000-7000-8000-000000000000/abababababababababababababababab.png";
        let logo = |url: &str| patch(&[(LOGO_SETTING, Some(text(url)))]);
        let refused = Configuration::default().patched(&logo(path), &policy, true).unwrap_err();
        assert_eq!(refused.pointer, "/configuration/verification/brand/logo_url");

        let mut with_upload = Configuration::default();
        with_upload.verification.brand.logo_url = path.parse().ok();
        for kept in [logo(path), logo(&format!("http://localhost:8080{path}")), patch(&[])] {
            assert_eq!(with_upload.patched(&kept, &policy, true), Ok(with_upload.clone()));
        }
        assert!(with_upload.patched(&logo(&path.replace("ab.", "cd.")), &policy, true).is_err());
        for (patch, shown) in [
            (logo("https://shop.example/logo.svg"), Some(text("https://shop.example/logo.svg"))),
            (patch(&[(LOGO_SETTING, None)]), None),
        ] {
            let replaced = with_upload.patched(&patch, &policy, true).unwrap();
            assert_eq!(Setting::find(LOGO_SETTING).unwrap().value(&replaced), shown);
        }
        assert_eq!(Configuration::from_stored(with_upload.non_default_settings()), Ok(with_upload));
    }

    #[test]
    fn errors_name_the_setting() {
        let redirect = |cause| SettingError::RedirectUrl(cause);
        let other = |problem: &str| SettingError::Other(problem.to_owned());
        for (path, value, pointer, cause) in [
            ("reverse_sms.ttl", SettingValue::Integer(59), "reverse_sms/ttl", other("a ttl is 60 to 900 seconds")),
            ("reverse_sms.ttl", text("300"), "reverse_sms/ttl", other("a ttl is 60 to 900 seconds")),
            ("reverse_sms.auto_reply", text("yes"), "reverse_sms/auto_reply", other("expected a boolean")),
            ("reverse_sms.prefix", list(&[]), "reverse_sms/prefix", other("expected a string")),
            (
                "secure_sna.callback_url",
                text("http://shop.example/"),
                "secure_sna/callback_url",
                SettingError::CallbackUrl(UrlError::HttpNotAllowed),
            ),
            ("discovery.redirect_url", text("/back"), "discovery/redirect_url", redirect(UrlError::NotAbsoluteHttps)),
            ("verification.methods", list(&[]), "verification/methods", other("at least one method is required")),
            ("verification.methods", text("secure_sna"), "verification/methods", other("expected an array")),
            (
                "verification.redirect_origins",
                list(&["https://shop.example", "https://shop.example/back"]),
                "verification/redirect_origins/1",
                redirect(UrlError::NotOrigin),
            ),
            (
                "verification.frame_origins",
                list(&["https://*.shop.example"]),
                "verification/frame_origins/0",
                redirect(UrlError::HostInvalid),
            ),
            (
                "verification.redirect_origins",
                list(&["https://shop.example"; MAX_ORIGINS + 1]),
                "verification/redirect_origins",
                redirect(UrlError::TooManyOrigins),
            ),
        ] {
            let invalid = Configuration::default()
                .patched(&patch(&[(path, Some(value))]), &UrlPolicy::default(), true)
                .unwrap_err();
            assert_eq!(invalid, InvalidSetting { pointer: format!("/configuration/{pointer}"), cause });
        }
    }

    #[test]
    fn redirect_url_must_have_an_allowed_origin() {
        let patch = patch(&[
            ("verification.redirect_url", Some(text("https://evil.example/"))),
            ("verification.redirect_origins", Some(list(&["https://shop.example", "https://SHOP.example:443"]))),
        ]);
        let invalid = Configuration::default().patched(&patch, &UrlPolicy::default(), true).unwrap_err();
        assert_eq!(invalid.pointer, "/configuration/verification/redirect_url");
        assert_eq!(invalid.cause, SettingError::RedirectUrl(UrlError::OriginNotAllowed));
    }
}
