// Sign-in, invitations, roles and account management.
import assert from 'node:assert/strict';
import { PASSWORD, consoleTest, visit } from './browser.mjs';

consoleTest('first account signs in with a single-use link', async (visitor, ringtrue) => {
  const { page } = visitor;
  const { url } = await ringtrue.run('console', 'link', '--admin', 'jane@example.com');
  await page.goto(url);
  await visitor.inspect('link');
  await visitor.acceptInvitation(url);
  await page.getByRole('link', { name: 'Demo' }).waitFor();
  await visitor.inspect('workspaces');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  visitor.expectStatus(410);
  await page.goto(url);
  await visitor.inspect('used-link');
});

consoleTest('sign-in returns to the requested page', async (visitor, ringtrue) => {
  const { page } = visitor;
  const { workspace_id } = ringtrue.workspace;
  const { url } = await ringtrue.run('console', 'link', '--member', 'joe@example.com', '--workspace', workspace_id);
  await visitor.acceptInvitation(url);
  await page.getByRole('button', { name: 'Sign out' }).click();

  await page.goto(`/console/workspaces/${workspace_id}/members`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await visitor.inspect('sign-in');
  visitor.expectStatus(401);
  await signIn(page, 'joe@example.com', 'not the right password');
  await page.getByRole('alert').waitFor();
  await visitor.inspect('sign-in-refused');
  await signIn(page, 'joe@example.com', PASSWORD);
  await page.getByRole('heading', { name: 'Members' }).waitFor();
  await page.getByRole('rowheader', { name: 'joe@example.com' }).waitFor();
});

consoleTest('owner creates a project, and a viewer reads it', async (owner) => {
  const { page } = owner;
  await owner.enterDemo();
  await owner.choose('Workspace', 'Projects');
  await owner.inspect('projects');
  await page.getByRole('link', { name: 'New project' }).click();
  await owner.inspect('new-project');
  await page.getByLabel('Name', { exact: true }).fill('Shop');
  await page.getByRole('button', { name: 'Create project' }).click();
  await page.getByText('Its secret is shown only once').waitFor();
  await owner.inspect('new-credential');
  await owner.choose('Project', 'Settings');
  await owner.inspect('settings');
  await page.getByLabel('Prefix of the message').fill('SHOP');
  await page.getByRole('button', { name: 'Save product settings' }).click();
  await page.getByText('Saved.').waitFor();

  await owner.choose('Workspace', 'Members');
  await page.getByLabel('Email address').fill('vera@example.com');
  await page.getByLabel('Role', { exact: true }).selectOption('viewer');
  await owner.inspect('members');
  await page.getByRole('button', { name: 'Invite' }).click();
  const link = await page.getByLabel('Link', { exact: true }).textContent();
  await owner.inspect('invitations');

  await visit(async (viewer) => {
    await viewer.page.goto(link);
    await viewer.inspect('invitation');
    await viewer.acceptInvitation(link);
    await assertReadOnly(viewer);
  });
});

consoleTest('existing account accepts an invitation and changes its password', async (member, ringtrue) => {
  const { page } = member;
  const { workspace_id } = ringtrue.workspace;
  const second = await ringtrue.run('workspace', 'create', 'Second');
  const { url } = await ringtrue.run('console', 'link', '--member', 'mia@example.com', '--workspace', workspace_id);
  await member.acceptInvitation(url);
  const invitation = await ringtrue.run(
    'console', 'link', '--member', 'mia@example.com', '--workspace', second.workspace_id, '--role', 'viewer',
  );
  await page.goto(invitation.url);
  await member.inspect('invitation-signed-in');
  await page.getByRole('button', { name: 'Accept invitation' }).click();
  await page.getByRole('heading', { name: 'Projects' }).waitFor();

  await page.getByRole('link', { name: 'mia@example.com' }).click();
  await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  await member.inspect('account');
  await page.getByLabel('Current password').fill(PASSWORD);
  await page.getByLabel('New password').fill(`${PASSWORD}, changed`);
  await page.getByLabel('Confirm password').fill(`${PASSWORD}, changed`);
  await page.getByRole('button', { name: 'Change password' }).click();
  await page.getByText('Password changed.').waitFor();
});

consoleTest('administrator creates a workspace and disables an account', async (admin, ringtrue) => {
  const { page } = admin;
  const { workspace_id } = ringtrue.workspace;
  const { url } = await ringtrue.run('console', 'link', '--member', 'leo@example.com', '--workspace', workspace_id);
  await visit((member) => member.acceptInvitation(url));
  await admin.enterDemo();
  await page.goto('/console');
  await page.getByLabel('Name').fill('Made here');
  await page.getByRole('button', { name: 'Create workspace' }).click();
  await page.getByRole('heading', { name: 'Projects' }).waitFor();
  await admin.choose('Deployment', 'Accounts');
  await admin.inspect('accounts');
  await page.getByRole('button', { name: 'Disable: leo@example.com' }).click();
  await page.getByRole('button', { name: 'Enable: leo@example.com' }).waitFor();
  await page.getByRole('button', { name: 'Enable: leo@example.com' }).click();
  await page.getByRole('button', { name: 'New link: leo@example.com' }).click();
  await page.getByLabel('Link', { exact: true }).waitFor();
});

async function assertReadOnly(viewer) {
  const { page } = viewer;
  assert.equal(await page.getByRole('link', { name: 'New project' }).count(), 0);
  const workspace = page.url();
  await page.getByRole('link', { name: 'Shop' }).click();
  await viewer.choose('Project', 'Handset');
  assert.equal(await page.getByRole('button', { name: 'Create check' }).count(), 0);
  await viewer.inspect('handset-for-viewers');
  await viewer.choose('Project', 'Settings');
  assert.ok(await page.getByLabel('Name', { exact: true }).isDisabled());
  await viewer.inspect('settings-for-viewers');

  // A forged form is rejected as well.
  viewer.expectStatus(403);
  const token = await page.locator('[name=form_token]').first().inputValue();
  await page.evaluate(([action, form_token]) => {
    const form = Object.assign(document.createElement('form'), { method: 'post', action });
    for (const [name, value] of Object.entries({ form_token, name: 'Theirs' })) {
      form.append(Object.assign(document.createElement('input'), { name, value }));
    }
    document.body.append(form);
    form.submit();
  }, [`${workspace}/new-project`, token]);
  await page.getByRole('heading', { name: 'Permission denied' }).waitFor();
  await viewer.inspect('refused');
}

async function signIn(page, email, password) {
  await page.getByLabel('Email address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}
