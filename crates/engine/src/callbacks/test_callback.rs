//! Test callbacks: signed and sent like any other callback, but neither stored nor retried.
//!
//! The body describes an expired check with a random id. So even a receiver that does not read the check from the API
//! cannot mistake the callback for a verified number.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, CheckId, Concluded, Lifecycle, OpenState},
    product::Product,
    tenancy::{Project, WorkspaceId},
    verification::{Progress, VerificationVerdict, select_methods},
};

use super::Callbacks;
use crate::{
    actor::ManagementActor,
    courier::{TestCallbackResult, payload},
};

/// The `reference_id` in all test callbacks.
const TEST_REFERENCE: &str = "test-callback";

#[derive(Debug, thiserror::Error)]
pub enum TestCallbackError {
    #[error("this project belongs to another workspace")]
    OtherWorkspace,
    #[error("the project has no callback URL for this product; save one in its settings first")]
    NoUrl,
    #[error("a test callback of this workspace is already being sent; wait for its result")]
    Busy,
    #[error("no signing key is available; try again later")]
    NoKey,
}

/// Workspaces with a running test callback. Each workspace can run one at a time, so that test callbacks to slow
/// receivers take up few connections.
#[derive(Debug, Default)]
pub(crate) struct RunningTests(Arc<Mutex<HashSet<WorkspaceId>>>);

struct RunningTest {
    workspace: WorkspaceId,
    running: Arc<Mutex<HashSet<WorkspaceId>>>,
}

impl RunningTests {
    fn begin(&self, workspace: WorkspaceId) -> Option<RunningTest> {
        let is_first = self.0.lock().insert(workspace);
        is_first.then(|| RunningTest { workspace, running: Arc::clone(&self.0) })
    }
}

impl Drop for RunningTest {
    fn drop(&mut self) {
        self.running.lock().remove(&self.workspace);
    }
}

impl Callbacks {
    /// Sends a test callback to the project's callback URL for a product. The project must belong to the manager's
    /// workspace.
    pub async fn send_test_callback(
        &self,
        manager: &ManagementActor,
        project: &Project,
        product: Product,
    ) -> Result<TestCallbackResult, TestCallbackError> {
        if project.workspace != manager.workspace {
            return Err(TestCallbackError::OtherWorkspace);
        }
        let url = project.configuration.callback_url(product).cloned().ok_or(TestCallbackError::NoUrl)?;
        let _running = self.running_tests.begin(project.workspace).ok_or(TestCallbackError::Busy)?;
        let body = self.render_test(project, product).ok_or(TestCallbackError::NoUrl)?;
        self.courier.send_once(project.mode, product, url, body).await.ok_or(TestCallbackError::NoKey)
    }

    /// Renders the body of a test callback. `None`: the product has no callbacks.
    fn render_test(&self, project: &Project, product: Product) -> Option<Vec<u8>> {
        match product {
            Product::Verification => {
                let expired = self.build_expired_check::<VerificationVerdict>(project, product)?;
                let methods = project.configuration.verification.methods.as_deref();
                let progress = Progress::new(select_methods(None, methods, |_| true), false, None);
                Some(payload::render_verification(&expired, &progress))
            }
            product if product.facts().sends_callbacks => {
                let expired = self.build_expired_check::<AnyVerdict>(project, product)?;
                Some(payload::render(&expired, None))
            }
            _ => None,
        }
    }

    fn build_expired_check<V: Clone>(&self, project: &Project, product: Product) -> Option<Concluded<V>> {
        let now = self.context.now();
        let check = Check::<V> {
            id: CheckId(self.context.new_uuid(now)),
            project: project.id,
            product,
            mode: project.mode,
            verification: None,
            network: None,
            claimed: None,
            reference: TEST_REFERENCE.parse().ok(),
            callback_url: None,
            redirect_url: None,
            created_at: now,
            expires_at: now,
            state: Lifecycle::Open(OpenState::Accepted),
        };
        check.expire().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_runs_one_test_at_a_time() {
        let (tests, [one, other]) = (RunningTests::default(), [1, 2].map(|id| WorkspaceId(uuid::Uuid::from_u128(id))));
        let running = tests.begin(one);
        assert!(running.is_some() && tests.begin(one).is_none() && tests.begin(other).is_some());
        drop(running);
        assert!(tests.begin(one).is_some());
    }
}
