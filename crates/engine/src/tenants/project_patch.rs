//! Applies a JSON merge patch to a project, and lists the changed members.

use aws_lc_rs::digest::{SHA256, digest};
use ringtrue_domain::{
    product::Product,
    tenancy::{ConfigurationPatch, InvalidSetting, Mode, Name, Project, SettingError},
    verification::{LogoImage, LogoUrl, UploadedLogo},
    web_url::UrlPolicy,
};

use crate::sign_in::check_client_keys;

/// JSON merge patch (RFC 7396) of a project. Members that are absent (`None`) keep their values.
#[derive(Clone, Debug, Default)]
pub struct ProjectPatch {
    pub name: Option<Name>,
    pub mode: Option<Mode>,
    pub disabled: Option<bool>,
    pub products: Option<Vec<Product>>,
    pub configuration: ConfigurationPatch,
    /// Image to upload as the logo of the brand, instead of what the configuration says.
    pub logo: Option<LogoImage>,
    /// Whether the project goes live even if it or the deployment does not meet the requirements.
    pub skip_live_requirements: bool,
}

impl ProjectPatch {
    /// Returns the patched project and the names of the changed members.
    pub fn apply(self, project: &Project, policy: &UrlPolicy) -> Result<(Project, Vec<String>), InvalidSetting> {
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
        let revalidate = patched.mode != project.mode;
        let policy = policy.for_mode(patched.mode);
        patched.configuration = project.configuration.patched(&self.configuration, &policy, revalidate)?;
        if let Some(keys) = &patched.configuration.sign_in.jwks
            && patched.configuration.sign_in.jwks != project.configuration.sign_in.jwks
        {
            check_client_keys(keys.as_str()).map_err(|problem| InvalidSetting {
                pointer: "/configuration/sign_in/jwks".to_owned(),
                cause: SettingError::Other(problem.to_owned()),
            })?;
        }
        if let Some(image) = self.logo {
            patched.configuration.verification.brand.logo_url = Some(LogoUrl::Uploaded(identify_logo(project, &image)));
        }
        let changes = changed_members(project, &patched);
        Ok((patched, changes))
    }
}

fn identify_logo(project: &Project, image: &LogoImage) -> UploadedLogo {
    let mut short_digest = [0; 16];
    short_digest.copy_from_slice(&digest(&SHA256, image.content()).as_ref()[..16]);
    UploadedLogo::new(project.id, short_digest, image.format())
}

fn changed_members(before: &Project, after: &Project) -> Vec<String> {
    let members = [
        ("name", before.name != after.name),
        ("mode", before.mode != after.mode),
        ("disabled", before.disabled != after.disabled),
        ("products", before.products != after.products),
    ];
    let members = members.into_iter().filter(|(_, differs)| *differs).map(|(member, _)| member.to_owned());
    let settings = before.configuration.changes(&after.configuration);
    members.chain(settings.map(|setting| format!("configuration.{}", setting.path))).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use ringtrue_domain::{
        id::uuid_v7,
        tenancy::{
            Configuration, ProjectId, ReverseSmsSettings, ReverseSmsTtl, Revision, Setting, SettingValue, WorkspaceId,
        },
        web_url::{CallbackUrl, UrlError},
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
                    ttl: ReverseSmsTtl::try_from(120).ok(),
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

    fn configure(path: &str, value: Option<SettingValue>) -> ProjectPatch {
        let configuration = [(Setting::find(path).unwrap(), value)].into_iter().collect();
        ProjectPatch { configuration, ..ProjectPatch::default() }
    }

    #[test]
    fn absent_members_are_kept_and_null_clears() {
        let before = project(Mode::Live, "https://example.com/cb");
        let patch = configure("reverse_sms.ttl", None);
        let (after, changes) = patch.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!(after.configuration.reverse_sms.ttl, None);
        assert_eq!(after.configuration.reverse_sms.callback_url, before.configuration.reverse_sms.callback_url);
        assert_eq!(changes, ["configuration.reverse_sms.ttl"]);

        let clear_all = ProjectPatch { configuration: ConfigurationPatch::for_reset(), ..ProjectPatch::default() };
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
        assert_eq!(error.pointer, "/configuration/reverse_sms/callback_url");
        assert_eq!(error.cause, SettingError::CallbackUrl(UrlError::HttpNotAllowed));

        let url = SettingValue::Text("https://example.com/cb".to_owned());
        let with_valid_url =
            ProjectPatch { mode: Some(Mode::Live), ..configure("reverse_sms.callback_url", Some(url)) };
        let (_, changes) = with_valid_url.apply(&before, &UrlPolicy::default()).unwrap();
        assert_eq!(changes, ["mode", "configuration.reverse_sms.callback_url"]);
    }
}
