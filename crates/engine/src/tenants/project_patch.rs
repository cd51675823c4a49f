//! JSON merge patches (RFC 7396) of projects.

use ringtrue_domain::{
    product::Product,
    tenancy::{Configuration, Mode, Name, Project, ReverseSmsSettings, SilentSettings, SmsPrefix, Ttl},
    verification::{Brand, BrandName, Colour, LogoUrl, Method, VerificationSettings, VerificationTtl},
    web_url::{CallbackUrl, MAX_ORIGINS, RedirectUrl, UrlError, UrlPolicy, WebOrigin},
};

/// Change of one member in a merge patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// The member is absent.
    #[default]
    Keep,
    /// The member is `null`.
    Clear,
    Set(T),
}

#[derive(Clone, Debug, Default)]
pub struct ProjectPatch {
    pub name: Option<Name>,
    pub mode: Option<Mode>,
    pub disabled: Option<bool>,
    pub products: Option<Vec<Product>>,
    pub configuration: Patch<ConfigurationPatch>,
}

#[derive(Clone, Debug, Default)]
pub struct ConfigurationPatch {
    pub reverse_sms: Patch<ReverseSmsPatch>,
    pub secure_sna: Patch<SilentPatch>,
    pub discovery: Patch<SilentPatch>,
    pub verification: Patch<VerificationPatch>,
}

/// URLs are text: their validity depends on the project's mode and the deployment's policy.
#[derive(Clone, Debug, Default)]
pub struct ReverseSmsPatch {
    pub callback_url: Patch<String>,
    pub ttl: Patch<Ttl>,
    pub prefix: Patch<SmsPrefix>,
    pub auto_reply: Patch<bool>,
}

#[derive(Clone, Debug, Default)]
pub struct SilentPatch {
    pub callback_url: Patch<String>,
    pub redirect_url: Patch<String>,
}

#[derive(Clone, Debug, Default)]
pub struct VerificationPatch {
    pub methods: Patch<Vec<Method>>,
    pub fall_back_on_mismatch: Patch<bool>,
    pub callback_url: Patch<String>,
    pub redirect_url: Patch<String>,
    pub redirect_origins: Patch<Vec<String>>,
    pub ttl: Patch<VerificationTtl>,
    pub brand: Patch<BrandPatch>,
}

#[derive(Clone, Debug, Default)]
pub struct BrandPatch {
    pub name: Patch<BrandName>,
    pub logo_url: Patch<LogoUrl>,
    pub colour: Patch<Colour>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    #[error("`{pointer}`: {cause}")]
    Callback { pointer: String, cause: UrlError },
    #[error("`{pointer}`: {cause}")]
    Redirect { pointer: String, cause: UrlError },
}

impl ProjectPatch {
    /// Returns the patched project and the names of the changed members.
    pub fn apply(self, project: &Project, policy: &UrlPolicy) -> Result<(Project, Vec<String>), InvalidUrl> {
        let mut patched = project.clone();
        if let Some(name) = self.name {
            patched.name = name;
        }
        if let Some(mode) = self.mode {
            patched.mode = mode;
        }
        if let Some(disabled) = self.disabled {
            patched.disabled = disabled;
        }
        if let Some(products) = self.products {
            patched.products = products;
        }
        // A URL that is valid in the sandbox can be invalid for a live project.
        let rules = UrlRules { policy: &policy.for_mode(patched.mode), revalidate_all: patched.mode != project.mode };
        patched.configuration = match self.configuration {
            Patch::Keep => ConfigurationPatch::default().apply(&project.configuration, &rules)?,
            Patch::Clear => Configuration::default(),
            Patch::Set(patch) => patch.apply(&project.configuration, &rules)?,
        };
        let changes = changed_members(project, &patched);
        Ok((patched, changes))
    }
}

struct UrlRules<'a> {
    policy: &'a UrlPolicy,
    revalidate_all: bool,
}

impl ConfigurationPatch {
    /// Builds the configuration of a new project.
    pub fn build(self, mode: Mode, policy: &UrlPolicy) -> Result<Configuration, InvalidUrl> {
        let rules = UrlRules { policy: &policy.for_mode(mode), revalidate_all: true };
        self.apply(&Configuration::default(), &rules)
    }

    fn apply(self, current: &Configuration, rules: &UrlRules<'_>) -> Result<Configuration, InvalidUrl> {
        Ok(Configuration {
            reverse_sms: match section_patch(self.reverse_sms) {
                Some(patch) => patch.apply(&current.reverse_sms, rules)?,
                None => ReverseSmsSettings::default(),
            },
            secure_sna: match section_patch(self.secure_sna) {
                Some(patch) => patch.apply(&current.secure_sna, "secure_sna", rules)?,
                None => SilentSettings::default(),
            },
            discovery: match section_patch(self.discovery) {
                Some(patch) => patch.apply(&current.discovery, "discovery", rules)?,
                None => SilentSettings::default(),
            },
            verification: match section_patch(self.verification) {
                Some(patch) => patch.apply(&current.verification, rules)?,
                None => VerificationSettings::default(),
            },
        })
    }
}

/// The patch of a section; `None` if the whole section is cleared.
fn section_patch<P: Default>(patch: Patch<P>) -> Option<P> {
    match patch {
        Patch::Keep => Some(P::default()),
        Patch::Clear => None,
        Patch::Set(patch) => Some(patch),
    }
}

impl ReverseSmsPatch {
    fn apply(self, current: &ReverseSmsSettings, rules: &UrlRules<'_>) -> Result<ReverseSmsSettings, InvalidUrl> {
        Ok(ReverseSmsSettings {
            callback_url: rules.patch_callback_url(self.callback_url, current.callback_url.as_ref(), "reverse_sms")?,
            ttl: merge_value(self.ttl, current.ttl.as_ref()),
            prefix: merge_value(self.prefix, current.prefix.as_ref()),
            auto_reply: merge_value(self.auto_reply, Some(&current.auto_reply)).unwrap_or_default(),
        })
    }
}

impl SilentPatch {
    fn apply(
        self,
        current: &SilentSettings,
        section: &'static str,
        rules: &UrlRules<'_>,
    ) -> Result<SilentSettings, InvalidUrl> {
        Ok(SilentSettings {
            callback_url: rules.patch_callback_url(self.callback_url, current.callback_url.as_ref(), section)?,
            redirect_url: rules.patch_redirect_url(self.redirect_url, current.redirect_url.as_ref(), section)?,
        })
    }
}

impl VerificationPatch {
    fn apply(self, current: &VerificationSettings, rules: &UrlRules<'_>) -> Result<VerificationSettings, InvalidUrl> {
        let section = "verification";
        let patched = VerificationSettings {
            methods: merge_value(self.methods, current.methods.as_ref()),
            fall_back_on_mismatch: merge_value(self.fall_back_on_mismatch, Some(&current.fall_back_on_mismatch))
                .unwrap_or_default(),
            callback_url: rules.patch_callback_url(self.callback_url, current.callback_url.as_ref(), section)?,
            redirect_url: rules.patch_redirect_url(self.redirect_url, current.redirect_url.as_ref(), section)?,
            redirect_origins: rules.patch_origins(self.redirect_origins, &current.redirect_origins, section)?,
            ttl: merge_value(self.ttl, current.ttl.as_ref()),
            brand: section_patch(self.brand).map_or_else(Brand::default, |patch| patch.apply(&current.brand)),
        };
        patched
            .redirect_url
            .as_ref()
            .map_or(Ok(()), |url| patched.check_redirect(url))
            .map_err(|cause| InvalidUrl::Redirect { pointer: json_pointer(section, "redirect_url"), cause })?;
        Ok(patched)
    }
}

impl BrandPatch {
    fn apply(self, current: &Brand) -> Brand {
        Brand {
            name: merge_value(self.name, current.name.as_ref()),
            logo_url: merge_value(self.logo_url, current.logo_url.as_ref()),
            colour: merge_value(self.colour, current.colour.as_ref()),
        }
    }
}

fn merge_value<T: Clone>(patch: Patch<T>, current: Option<&T>) -> Option<T> {
    match patch {
        Patch::Keep => current.cloned(),
        Patch::Clear => None,
        Patch::Set(value) => Some(value),
    }
}

impl UrlRules<'_> {
    fn patch_callback_url(
        &self,
        patch: Patch<String>,
        current: Option<&CallbackUrl>,
        section: &str,
    ) -> Result<Option<CallbackUrl>, InvalidUrl> {
        self.patch_url(patch, current, CallbackUrl::as_str, CallbackUrl::parse)
            .map_err(|cause| InvalidUrl::Callback { pointer: json_pointer(section, "callback_url"), cause })
    }

    fn patch_redirect_url(
        &self,
        patch: Patch<String>,
        current: Option<&RedirectUrl>,
        section: &str,
    ) -> Result<Option<RedirectUrl>, InvalidUrl> {
        self.patch_url(patch, current, RedirectUrl::as_str, RedirectUrl::parse)
            .map_err(|cause| InvalidUrl::Redirect { pointer: json_pointer(section, "redirect_url"), cause })
    }

    fn patch_origins(
        &self,
        patch: Patch<Vec<String>>,
        current: &[WebOrigin],
        section: &str,
    ) -> Result<Vec<WebOrigin>, InvalidUrl> {
        let list = json_pointer(section, "redirect_origins");
        let given = match patch {
            Patch::Keep if !self.revalidate_all => return Ok(current.to_vec()),
            Patch::Keep => current.iter().map(|origin| origin.as_str().to_owned()).collect(),
            Patch::Clear => return Ok(vec![]),
            Patch::Set(given) => given,
        };
        if given.len() > MAX_ORIGINS {
            return Err(InvalidUrl::Redirect { pointer: list, cause: UrlError::TooManyOrigins });
        }
        let mut origins = Vec::with_capacity(given.len());
        for (index, text) in given.iter().enumerate() {
            let origin = WebOrigin::parse(text, self.policy)
                .map_err(|cause| InvalidUrl::Redirect { pointer: format!("{list}/{index}"), cause })?;
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        Ok(origins)
    }

    fn patch_url<U: Clone>(
        &self,
        patch: Patch<String>,
        current: Option<&U>,
        as_str: impl Fn(&U) -> &str,
        parse: impl Fn(&str, &UrlPolicy) -> Result<U, UrlError>,
    ) -> Result<Option<U>, UrlError> {
        match (patch, current) {
            (Patch::Set(given), _) => parse(&given, self.policy).map(Some),
            (Patch::Keep, Some(current)) if self.revalidate_all => parse(as_str(current), self.policy).map(Some),
            (Patch::Keep, current) => Ok(current.cloned()),
            (Patch::Clear, _) => Ok(None),
        }
    }
}

fn json_pointer(section: &str, member: &str) -> String {
    format!("/configuration/{section}/{member}")
}

fn changed_members(before: &Project, after: &Project) -> Vec<String> {
    let (old, new) = (&before.configuration, &after.configuration);
    [
        ("name", before.name != after.name),
        ("mode", before.mode != after.mode),
        ("disabled", before.disabled != after.disabled),
        ("products", before.products != after.products),
        ("configuration.reverse_sms.callback_url", old.reverse_sms.callback_url != new.reverse_sms.callback_url),
        ("configuration.reverse_sms.ttl", old.reverse_sms.ttl != new.reverse_sms.ttl),
        ("configuration.reverse_sms.prefix", old.reverse_sms.prefix != new.reverse_sms.prefix),
        ("configuration.reverse_sms.auto_reply", old.reverse_sms.auto_reply != new.reverse_sms.auto_reply),
        ("configuration.secure_sna.callback_url", old.secure_sna.callback_url != new.secure_sna.callback_url),
        ("configuration.secure_sna.redirect_url", old.secure_sna.redirect_url != new.secure_sna.redirect_url),
        ("configuration.discovery.callback_url", old.discovery.callback_url != new.discovery.callback_url),
        ("configuration.discovery.redirect_url", old.discovery.redirect_url != new.discovery.redirect_url),
    ]
    .into_iter()
    .chain(changed_verification_settings(&old.verification, &new.verification))
    .filter(|(_, differs)| *differs)
    .map(|(member, _)| member.to_owned())
    .collect()
}

fn changed_verification_settings(old: &VerificationSettings, new: &VerificationSettings) -> [(&'static str, bool); 9] {
    [
        ("configuration.verification.methods", old.methods != new.methods),
        ("configuration.verification.fall_back_on_mismatch", old.fall_back_on_mismatch != new.fall_back_on_mismatch),
        ("configuration.verification.callback_url", old.callback_url != new.callback_url),
        ("configuration.verification.redirect_url", old.redirect_url != new.redirect_url),
        ("configuration.verification.redirect_origins", old.redirect_origins != new.redirect_origins),
        ("configuration.verification.ttl", old.ttl != new.ttl),
        ("configuration.verification.brand.name", old.brand.name != new.brand.name),
        ("configuration.verification.brand.logo_url", old.brand.logo_url != new.brand.logo_url),
        ("configuration.verification.brand.colour", old.brand.colour != new.brand.colour),
    ]
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use ringtrue_domain::{
        id::uuid_v7,
        tenancy::{ProjectId, Revision, WorkspaceId},
    };
    use strum::VariantArray as _;

    use super::*;

    fn project(mode: Mode, callback_url: &str) -> Project {
        let id = uuid_v7(Timestamp::UNIX_EPOCH, [0; 10]);
        let callback_url = CallbackUrl::parse(callback_url, &UrlPolicy::default().for_mode(mode)).unwrap();
        Project {
            id: ProjectId(id),
            workspace: WorkspaceId(id),
            name: "Shop".parse().unwrap(),
            mode,
            live_since: None,
            disabled: false,
            configuration: Configuration {
                reverse_sms: ReverseSmsSettings {
                    callback_url: Some(callback_url),
                    ttl: Ttl::try_from(120).ok(),
                    prefix: None,
                    auto_reply: false,
                },
                ..Configuration::default()
            },
            products: Product::VARIANTS.to_vec(),
            allowed_networks: vec![],
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            revision: Revision::FIRST,
        }
    }

    fn reverse_sms(patch: ReverseSmsPatch) -> ProjectPatch {
        let configuration = ConfigurationPatch { reverse_sms: Patch::Set(patch), ..ConfigurationPatch::default() };
        ProjectPatch { configuration: Patch::Set(configuration), ..ProjectPatch::default() }
    }

    #[test]
    fn absent_members_are_kept_and_null_clears() {
        let before = project(Mode::Live, "https://example.com/cb");
        let patch = reverse_sms(ReverseSmsPatch { ttl: Patch::Clear, ..ReverseSmsPatch::default() });
        let (after, changes) = patch.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!(after.configuration.reverse_sms.ttl, None);
        assert_eq!(after.configuration.reverse_sms.callback_url, before.configuration.reverse_sms.callback_url);
        assert_eq!(changes, ["configuration.reverse_sms.ttl"]);

        let clear_all = ProjectPatch { configuration: Patch::Clear, ..ProjectPatch::default() };
        let (after, changes) = clear_all.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!(after.configuration, Configuration::default());
        assert_eq!(changes, ["configuration.reverse_sms.callback_url", "configuration.reverse_sms.ttl"]);
    }

    #[test]
    fn patch_with_current_values_changes_nothing() {
        let before = project(Mode::Live, "https://example.com/cb");
        let patch = ProjectPatch { name: Some(before.name.clone()), disabled: Some(false), ..ProjectPatch::default() };
        let (after, changes) = patch.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!((after, changes.len()), (before, 0));
    }

    #[test]
    fn going_live_revalidates_sandbox_urls() {
        let before = project(Mode::Sandbox, "http://example.com/cb");
        let go_live = ProjectPatch { mode: Some(Mode::Live), ..ProjectPatch::default() };
        let error = go_live.clone().apply(&before, &UrlPolicy::default()).unwrap_err();
        let pointer = "/configuration/reverse_sms/callback_url".to_owned();
        assert_eq!(error, InvalidUrl::Callback { pointer, cause: UrlError::HttpNotAllowed });

        let url = Patch::Set("https://example.com/cb".to_owned());
        let with_valid_url = ProjectPatch {
            mode: Some(Mode::Live),
            ..reverse_sms(ReverseSmsPatch { callback_url: url, ..ReverseSmsPatch::default() })
        };
        assert!(with_valid_url.apply(&before, &UrlPolicy::default()).is_ok());
    }

    #[test]
    fn brand_is_merged_member_by_member() {
        let verification = |patch| {
            let configuration = ConfigurationPatch { verification: Patch::Set(patch), ..ConfigurationPatch::default() };
            ProjectPatch { configuration: Patch::Set(configuration), ..ProjectPatch::default() }
        };
        let branded = |name, colour| {
            let brand = BrandPatch { name, colour, ..BrandPatch::default() };
            verification(VerificationPatch { brand: Patch::Set(brand), ..VerificationPatch::default() })
        };
        let before = project(Mode::Live, "https://example.com/cb");
        let both = branded(Patch::Set("Shop".parse().unwrap()), Patch::Set("#1a73e8".parse().unwrap()));
        let (both, changes) = both.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!(changes, ["configuration.verification.brand.name", "configuration.verification.brand.colour"]);
        let (one, changes) = branded(Patch::Keep, Patch::Clear).apply(&both, &UrlPolicy::default()).unwrap();
        assert_eq!(one.configuration.verification.brand.name, both.configuration.verification.brand.name);
        assert_eq!(changes, ["configuration.verification.brand.colour"]);
        let cleared = verification(VerificationPatch { brand: Patch::Clear, ..VerificationPatch::default() });
        assert_eq!(cleared.apply(&both, &UrlPolicy::default()).unwrap().0, before);
        let url = Patch::Set("http://example.com/".to_owned());
        let redirect = verification(VerificationPatch { redirect_url: url, ..VerificationPatch::default() });
        let pointer = "/configuration/verification/redirect_url".to_owned();
        let error = redirect.apply(&before, &UrlPolicy::default()).unwrap_err();
        assert_eq!(error, InvalidUrl::Redirect { pointer, cause: UrlError::HttpNotAllowed });
    }
}
