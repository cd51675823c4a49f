//! Silent checks (Secure SNA and Discovery): creating, reading and listing. [`redirect_session`] handles the device,
//! [`redemption`] the redirect code.

mod redemption;
mod redirect_session;
mod secrets;

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::uuid_v7,
    lifecycle::{Check, CheckId, ClaimedNumber, Lifecycle, OpenState, Reference},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    sandbox::{self, SandboxScript},
    search::Filter,
    silent::{CHECK_TTL_SECONDS, SilentCheck},
    tenancy::{Mode, Project, ProjectId},
    web_url::{CallbackUrl, RedirectUrl},
};

pub use redemption::RedeemError;
pub use redirect_session::{DeviceRequest, DeviceReturn, NextStep, RedirectError, RedirectFailure, RedirectOutcome};

use crate::{
    Engine,
    checks::{CreateError, ReadError, require_eligible, require_enabled, truncate_to_millis},
    idempotency::IdempotentRequest,
    ports::{Expectation, NewCheck, StoreError},
};
use secrets::SilentCheckInput;

/// Create request. Number, address and URLs are unparsed: their validation depends on the project's mode.
#[derive(Clone, Default)]
pub struct CreateSilent {
    /// `None` for Discovery.
    pub phone_number: Option<String>,
    pub device_ip: Option<String>,
    pub reference: Option<Reference>,
    pub callback_url: Option<String>,
    pub redirect_url: Option<String>,
}

/// Masked: personal data.
impl std::fmt::Debug for CreateSilent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateSilent").field("reference", &self.reference).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub struct CreatedSilent {
    pub check: SilentCheck,
    /// URL for the device; returned only at creation.
    pub url: String,
    /// In seconds.
    pub ttl: u16,
}

/// Masked: the URL is a credential.
impl std::fmt::Debug for CreatedSilent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedSilent").field("check", &self.check).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

fn path_segment(product: Product) -> &'static str {
    if product == Product::Discovery { "discovery-checks" } else { "secure-sna-checks" }
}

impl Engine {
    pub async fn create_silent(
        &self,
        project: &Project,
        product: Product,
        request: CreateSilent,
        idempotency: Option<IdempotentRequest<'_, CreatedSilent>>,
    ) -> Result<CreatedSilent, CreateError> {
        require_enabled(project)?;
        let configuration = &project.configuration;
        let settings = if product == Product::Discovery { &configuration.discovery } else { &configuration.secure_sna };
        let policy = self.url_policy().for_mode(project.mode);
        let callback_url = request.callback_url.as_deref().map(|url| CallbackUrl::parse(url, &policy));
        let callback_url = callback_url.transpose().map_err(CreateError::CallbackUrl)?;
        let redirect_url = request.redirect_url.as_deref().map(|url| RedirectUrl::parse(url, &policy));
        let redirect_url = redirect_url.transpose().map_err(CreateError::RedirectUrl)?;
        let expected_address = request.device_ip.as_deref().map(str::parse::<IpAddr>);
        let expected_address = expected_address.transpose().map_err(|_| CreateError::DeviceIp)?;
        let number = request.phone_number.as_deref().map(|text| Msisdn::parse(text, project.mode)).transpose()?;
        let network = match &number {
            Some(number) => Some(self.select_network(project, product, number).await?),
            None => None,
        };

        let now = truncate_to_millis(self.clock().now());
        let id = CheckId(uuid_v7(now, self.entropy().bytes()));
        let callback_url = callback_url.as_ref().or(settings.callback_url.as_ref());
        let redirect_url = redirect_url.as_ref().or(settings.redirect_url.as_ref());
        let claimed = number
            .as_ref()
            .map(|number| Ok::<_, StoreError>(ClaimedNumber { hash: self.hash_number(number)?, tail: number.tail() }))
            .transpose()?;
        let check = Check {
            id,
            project: project.id,
            product,
            mode: project.mode,
            network,
            claimed,
            reference: request.reference,
            callback_url: callback_url.map(|url| self.seal_callback_url(id, url)).transpose()?,
            redirect_url: redirect_url.map(|url| self.seal_redirect_url(id, url)).transpose()?,
            created_at: now,
            expires_at: now
                .saturating_add(SignedDuration::from_secs(CHECK_TTL_SECONDS.into()))
                .unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let url = format!(
            "{}/v1/number-verification/{}/{id}/redirect?t={}",
            self.base_url(),
            path_segment(product),
            self.device_token(id)?
        );
        let created = CreatedSilent { check, url, ttl: CHECK_TTL_SECONDS };
        let new = NewCheck {
            check: created.check.clone().map(Into::into),
            expectation: Expectation::Device {
                input: self.seal_input(id, &SilentCheckInput { number, expected_address })?,
            },
            number_limit: self.number_limit(project.mode),
            idempotent_response: self.seal_idempotent_response(idempotency, &created)?,
        };
        self.store_check(new).await?;
        Ok(created)
    }

    /// The network of a claimed number, if the project may use it for the product.
    async fn select_network(
        &self,
        project: &Project,
        product: Product,
        number: &Msisdn,
    ) -> Result<NetworkId, CreateError> {
        if project.mode == Mode::Sandbox {
            return match SandboxScript::of(number.tail()) {
                SandboxScript::NothingSupported | SandboxScript::NoSubscriber => Err(CreateError::MnoNotSupported),
                SandboxScript::NoSecureSna => Err(CreateError::OnlyReverseSms),
                SandboxScript::LookupDown => Err(CreateError::LookupUnavailable),
                SandboxScript::OperatorFault
                | SandboxScript::Silence
                | SandboxScript::OperatorTimeout
                | SandboxScript::Even
                | SandboxScript::Odd => sandbox::NETWORK_ID.parse().map_err(|_| CreateError::MnoNotSupported),
            };
        }
        let network = self.resolve_network(number).await?.ok_or(CreateError::MnoNotSupported)?;
        let is_supported = self.networks().silent_route(&network.id, product).is_some();
        match require_eligible(project, product, &network.id, is_supported) {
            Ok(()) => Ok(network.id),
            Err(CreateError::MnoNotSupported) if self.supports_reverse_sms_fallback(project, &network.id) => {
                Err(CreateError::OnlyReverseSms)
            }
            Err(refused) => Err(refused),
        }
    }

    pub fn supports_reverse_sms_fallback(&self, project: &Project, network: &NetworkId) -> bool {
        if project.mode == Mode::Sandbox {
            return project.products.contains(&Product::ReverseSms);
        }
        let directory = self.networks().directory();
        let has_receiver = directory.get(network).is_some_and(|network| self.networks().has_receiver(network));
        require_eligible(project, Product::ReverseSms, network, has_receiver).is_ok()
    }

    pub async fn silent_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<SilentCheck, ReadError> {
        self.read_check(project, product, id).await
    }

    /// The project's checks of a product, newest first.
    pub async fn silent_checks(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<SilentCheck>, StoreError> {
        self.list_checks(project, product, filter, page).await
    }
}
