//! Changing a project: a merge patch (RFC 7396) as a value, and the pure function that applies it.

use ringtrue_domain::{
    product::Product,
    tenancy::{Configuration, Mode, Name, Project, ReverseSmsSettings, SilentSettings, SmsPrefix, Ttl},
    web_url::{CallbackUrl, RedirectUrl, UrlError, UrlPolicy},
};

/// What a merge patch says of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Not mentioned.
    #[default]
    Keep,
    /// `null`.
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
}

/// URLs are still text here: whether they are good depends on the project's mode and the deployment's policy.
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    #[error("`{pointer}`: {cause}")]
    Callback { pointer: String, cause: UrlError },
    #[error("`{pointer}`: {cause}")]
    Redirect { pointer: String, cause: UrlError },
}

impl ProjectPatch {
    /// The project after the patch, and the names of the members that differ.
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
        // A URL that a sandbox may have can be wrong for a live project: with the mode, all are judged again.
        let rules = Rules { policy: &policy.for_mode(patched.mode), judge_all: patched.mode != project.mode };
        patched.configuration = match self.configuration {
            Patch::Keep => ConfigurationPatch::default().apply(&project.configuration, &rules)?,
            Patch::Clear => Configuration::default(),
            Patch::Set(patch) => patch.apply(&project.configuration, &rules)?,
        };
        let changes = changed_members(project, &patched);
        Ok((patched, changes))
    }
}

struct Rules<'a> {
    policy: &'a UrlPolicy,
    judge_all: bool,
}

impl ConfigurationPatch {
    /// The configuration of a new project.
    pub fn build(self, mode: Mode, policy: &UrlPolicy) -> Result<Configuration, InvalidUrl> {
        let rules = Rules { policy: &policy.for_mode(mode), judge_all: true };
        self.apply(&Configuration::default(), &rules)
    }

    fn apply(self, current: &Configuration, rules: &Rules<'_>) -> Result<Configuration, InvalidUrl> {
        Ok(Configuration {
            reverse_sms: match section(self.reverse_sms) {
                Some(patch) => patch.apply(&current.reverse_sms, rules)?,
                None => ReverseSmsSettings::default(),
            },
            secure_sna: match section(self.secure_sna) {
                Some(patch) => patch.apply(&current.secure_sna, "secure_sna", rules)?,
                None => SilentSettings::default(),
            },
            discovery: match section(self.discovery) {
                Some(patch) => patch.apply(&current.discovery, "discovery", rules)?,
                None => SilentSettings::default(),
            },
        })
    }
}

/// The patch of a section; `None` when the section is cleared as a whole.
fn section<P: Default>(patch: Patch<P>) -> Option<P> {
    match patch {
        Patch::Keep => Some(P::default()),
        Patch::Clear => None,
        Patch::Set(patch) => Some(patch),
    }
}

impl ReverseSmsPatch {
    fn apply(self, current: &ReverseSmsSettings, rules: &Rules<'_>) -> Result<ReverseSmsSettings, InvalidUrl> {
        Ok(ReverseSmsSettings {
            callback_url: rules.callback_url(self.callback_url, current.callback_url.as_ref(), "reverse_sms")?,
            ttl: merge(self.ttl, current.ttl.as_ref()),
            prefix: merge(self.prefix, current.prefix.as_ref()),
            auto_reply: merge(self.auto_reply, Some(&current.auto_reply)).unwrap_or_default(),
        })
    }
}

impl SilentPatch {
    fn apply(
        self,
        current: &SilentSettings,
        section: &'static str,
        rules: &Rules<'_>,
    ) -> Result<SilentSettings, InvalidUrl> {
        Ok(SilentSettings {
            callback_url: rules.callback_url(self.callback_url, current.callback_url.as_ref(), section)?,
            redirect_url: rules.redirect_url(self.redirect_url, current.redirect_url.as_ref(), section)?,
        })
    }
}

fn merge<T: Clone>(patch: Patch<T>, current: Option<&T>) -> Option<T> {
    match patch {
        Patch::Keep => current.cloned(),
        Patch::Clear => None,
        Patch::Set(value) => Some(value),
    }
}

impl Rules<'_> {
    fn callback_url(
        &self,
        patch: Patch<String>,
        current: Option<&CallbackUrl>,
        section: &str,
    ) -> Result<Option<CallbackUrl>, InvalidUrl> {
        self.url(patch, current, CallbackUrl::as_str, CallbackUrl::parse)
            .map_err(|cause| InvalidUrl::Callback { pointer: pointer(section, "callback_url"), cause })
    }

    fn redirect_url(
        &self,
        patch: Patch<String>,
        current: Option<&RedirectUrl>,
        section: &str,
    ) -> Result<Option<RedirectUrl>, InvalidUrl> {
        self.url(patch, current, RedirectUrl::as_str, RedirectUrl::parse)
            .map_err(|cause| InvalidUrl::Redirect { pointer: pointer(section, "redirect_url"), cause })
    }

    fn url<U: Clone>(
        &self,
        patch: Patch<String>,
        current: Option<&U>,
        text: impl Fn(&U) -> &str,
        parse: impl Fn(&str, &UrlPolicy) -> Result<U, UrlError>,
    ) -> Result<Option<U>, UrlError> {
        match (patch, current) {
            (Patch::Set(given), _) => parse(&given, self.policy).map(Some),
            (Patch::Keep, Some(current)) if self.judge_all => parse(text(current), self.policy).map(Some),
            (Patch::Keep, current) => Ok(current.cloned()),
            (Patch::Clear, _) => Ok(None),
        }
    }
}

fn pointer(section: &str, member: &str) -> String {
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
    .filter(|(_, differs)| *differs)
    .map(|(member, _)| member.to_owned())
    .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use ringtrue_domain::{
        id::time_ordered,
        tenancy::{ProjectId, Revision, WorkspaceId},
    };

    use super::*;

    fn project(mode: Mode, callback_url: &str) -> Project {
        let id = time_ordered(Timestamp::UNIX_EPOCH, [0; 10]);
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
            products: Product::ALL.to_vec(),
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
    fn what_is_not_mentioned_stays_and_null_takes_away() {
        let before = project(Mode::Live, "https://example.com/cb");
        let patch = reverse_sms(ReverseSmsPatch { ttl: Patch::Clear, ..ReverseSmsPatch::default() });
        let (after, changes) = patch.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!(after.configuration.reverse_sms.ttl, None);
        assert_eq!(after.configuration.reverse_sms.callback_url, before.configuration.reverse_sms.callback_url);
        assert_eq!(changes, ["configuration.reverse_sms.ttl"]);

        let everything = ProjectPatch { configuration: Patch::Clear, ..ProjectPatch::default() };
        let (after, changes) = everything.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!(after.configuration, Configuration::default());
        assert_eq!(changes, ["configuration.reverse_sms.callback_url", "configuration.reverse_sms.ttl"]);
    }

    #[test]
    fn a_patch_that_says_what_is_already_so_changes_nothing() {
        let before = project(Mode::Live, "https://example.com/cb");
        let patch = ProjectPatch { name: Some(before.name.clone()), disabled: Some(false), ..ProjectPatch::default() };
        let (after, changes) = patch.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!((after, changes.len()), (before, 0));
    }

    #[test]
    fn going_live_judges_the_urls_that_the_sandbox_let_pass() {
        let before = project(Mode::Sandbox, "http://example.com/cb");
        let go_live = ProjectPatch { mode: Some(Mode::Live), ..ProjectPatch::default() };
        let refused = go_live.clone().apply(&before, &UrlPolicy::default()).unwrap_err();
        let pointer = "/configuration/reverse_sms/callback_url".to_owned();
        assert_eq!(refused, InvalidUrl::Callback { pointer, cause: UrlError::HttpNotAllowed });

        let url = Patch::Set("https://example.com/cb".to_owned());
        let with_a_better_url = ProjectPatch {
            mode: Some(Mode::Live),
            ..reverse_sms(ReverseSmsPatch { callback_url: url, ..ReverseSmsPatch::default() })
        };
        assert!(with_a_better_url.apply(&before, &UrlPolicy::default()).is_ok());
    }
}
