//! Reads uploaded logos, which are public.

use ringtrue_domain::verification::{LogoUrl, UploadedLogo};

use super::Management;
use crate::ports::store::StoreError;

impl Management {
    /// Returns whether an uploaded logo is that of its project. Reads no database, so guessing URLs costs nothing.
    pub fn is_current_logo(&self, logo: &UploadedLogo) -> bool {
        let project = self.context.control_plane.project(logo.project());
        let current = project.as_ref().and_then(|project| project.configuration.verification.brand.logo_url.as_ref());
        current.and_then(LogoUrl::uploaded) == Some(logo)
    }

    /// Returns the content of an uploaded logo. `None`: it was replaced or removed.
    pub async fn logo_content(&self, logo: &UploadedLogo) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.find_logo(logo).await
    }
}
