//! Secure SNA and Discovery: creating, reading and listing checks. The way of the device is in [`device`], the end in
//! [`redemption`].

mod device;
mod redemption;
mod secrets;

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::time_ordered,
    lifecycle::{Check, CheckId, ClaimedNumber, Lifecycle, Open, Reference},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    sandbox::{self, Script},
    search::Filter,
    silent::{SilentCheck, WINDOW_SECONDS},
    tenancy::{Mode, Project, ProjectId},
    web_url::{CallbackUrl, RedirectUrl},
};

pub use device::{ChainEnd, ChainFault, Return, Step, Visit, VisitError};
pub use redemption::RedeemError;

use crate::{
    Engine,
    checks::{CreateError, ReadError, pass_gates, require_enabled, whole_millis},
    idempotency::Once,
    ports::{Awaits, NewCheck, StoreError},
};
use secrets::Brief;

/// What a caller asks for. Number, address and URLs are still text: what they may be depends on the project's mode.
#[derive(Clone, Default)]
pub struct CreateSilent {
    /// Secure SNA has one, Discovery finds one out.
    pub phone_number: Option<String>,
    pub device_ip: Option<String>,
    pub reference: Option<Reference>,
    pub callback_url: Option<String>,
    pub redirect_url: Option<String>,
}

/// Masked: it is all about a person.
impl std::fmt::Debug for CreateSilent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateSilent").field("reference", &self.reference).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub struct CreatedSilent {
    pub check: SilentCheck,
    /// What the device must open. Nobody is told a second time.
    pub url: String,
    /// In seconds.
    pub ttl: u16,
}

/// Masked: who knows the URL can open it in the device's place.
impl std::fmt::Debug for CreatedSilent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedSilent").field("check", &self.check).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

/// The product's name in paths.
fn path_of(product: Product) -> &'static str {
    if product == Product::Discovery { "discovery-checks" } else { "secure-sna-checks" }
}

impl Engine {
    pub async fn create_silent(
        &self,
        project: &Project,
        product: Product,
        request: CreateSilent,
        once: Option<Once<'_, CreatedSilent>>,
    ) -> Result<CreatedSilent, CreateError> {
        require_enabled(project)?;
        let configuration = &project.configuration;
        let settings = if product == Product::Discovery { &configuration.discovery } else { &configuration.secure_sna };
        let policy = self.urls().for_mode(project.mode);
        let callback_url = request.callback_url.as_deref().map(|url| CallbackUrl::parse(url, &policy));
        let callback_url = callback_url.transpose().map_err(CreateError::CallbackUrl)?;
        let redirect_url = request.redirect_url.as_deref().map(|url| RedirectUrl::parse(url, &policy));
        let redirect_url = redirect_url.transpose().map_err(CreateError::RedirectUrl)?;
        let announced = request.device_ip.as_deref().map(str::parse::<IpAddr>);
        let announced = announced.transpose().map_err(|_| CreateError::DeviceIp)?;
        let number = request.phone_number.as_deref().map(|text| Msisdn::parse(text, project.mode)).transpose()?;
        let network = match &number {
            Some(number) => Some(self.network_for(project, product, number).await?),
            None => None,
        };

        let now = whole_millis(self.clock().now());
        let id = CheckId(time_ordered(now, self.entropy().bytes()));
        let callback_url = callback_url.as_ref().or(settings.callback_url.as_ref());
        let redirect_url = redirect_url.as_ref().or(settings.redirect_url.as_ref());
        let claimed = number
            .as_ref()
            .map(|number| Ok::<_, StoreError>(ClaimedNumber { hash: self.number_hash(number)?, tail: number.tail() }))
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
            expires_at: now.saturating_add(SignedDuration::from_secs(WINDOW_SECONDS.into())).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(Open::Accepted),
        };
        let url = format!(
            "{}/v1/number-verification/{}/{id}/redirect?t={}",
            self.base_url(),
            path_of(product),
            self.device_token(id)?
        );
        let created = CreatedSilent { check, url, ttl: WINDOW_SECONDS };
        let new = NewCheck {
            check: created.check.clone().map(Into::into),
            awaits: Awaits::Device { brief: self.seal_brief(id, &Brief { number, announced })? },
            guard: self.number_guard(project.mode),
            completion: self.completion(once, &created)?,
        };
        self.store_new(new).await?;
        Ok(created)
    }

    /// The network of a claimed number, if all gates are open.
    async fn network_for(
        &self,
        project: &Project,
        product: Product,
        number: &Msisdn,
    ) -> Result<NetworkId, CreateError> {
        if project.mode == Mode::Sandbox {
            return match Script::of(number.tail()) {
                Script::NothingSupported | Script::NoSubscriber => Err(CreateError::MnoNotSupported),
                Script::NoSecureSna => Err(CreateError::OnlyReverseSms),
                Script::LookupDown => Err(CreateError::LookupUnavailable),
                Script::OperatorFault | Script::Silence | Script::OperatorTimeout | Script::Even | Script::Odd => {
                    sandbox::NETWORK_ID.parse().map_err(|_| CreateError::MnoNotSupported)
                }
            };
        }
        let network = self.network_of(number).await?.ok_or(CreateError::MnoNotSupported)?;
        let is_supported = self.networks().silent_route(&network.id, product).is_some();
        match pass_gates(project, product, &network.id, is_supported) {
            Ok(()) => Ok(network.id),
            Err(CreateError::MnoNotSupported) if self.is_open_to_reverse_sms(project, &network.id) => {
                Err(CreateError::OnlyReverseSms)
            }
            Err(refused) => Err(refused),
        }
    }

    /// Whether users of a network can be verified by Reverse SMS instead.
    pub fn is_open_to_reverse_sms(&self, project: &Project, network: &NetworkId) -> bool {
        if project.mode == Mode::Sandbox {
            return project.products.contains(&Product::ReverseSms);
        }
        let directory = self.networks().directory();
        let can_be_heard = directory.get(network).is_some_and(|network| self.networks().has_receiver(network));
        pass_gates(project, Product::ReverseSms, network, can_be_heard).is_ok()
    }

    /// A check as it is now.
    pub async fn silent_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<SilentCheck, ReadError> {
        self.check(project, product, id).await
    }

    /// The project's checks of a product, newest first.
    pub async fn silent_checks(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<SilentCheck>, StoreError> {
        self.checks(project, product, filter, page).await
    }
}
