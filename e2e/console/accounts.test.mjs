// How people come in, and what they may do.
import assert from 'node:assert/strict';
import { PASSWORD, journey, visit } from './browser.mjs';

journey('the first account comes in by a link that is good once', async (visitor, ringtrue) => {
  const { page } = visitor;
  const { url } = await ringtrue.run('console', 'link', '--admin', 'jane@example.com');
  await page.goto(url);
  await visitor.look('link');
  await visitor.acceptInvitation(url);
  await page.getByRole('link', { name: 'Demo' }).waitFor();
  await visitor.look('workspaces');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  visitor.expectRefusal(410);
  await page.goto(url);
  await visitor.look('used-link');
});

journey('a password opens the page that was asked for', async (visitor, ringtrue) => {
  const { page } = visitor;
  const { workspace_id } = ringtrue.workspace;
  const { url } = await ringtrue.run('console', 'link', '--member', 'joe@example.com', '--workspace', workspace_id);
  await visitor.acceptInvitation(url);
  await page.getByRole('button', { name: 'Sign out' }).click();

  await page.goto(`/console/workspaces/${workspace_id}/members`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await visitor.look('sign-in');
  visitor.expectRefusal(401);
  await signIn(page, 'joe@example.com', 'not the right password');
  await page.getByRole('alert').waitFor();
  await visitor.look('sign-in-refused');
  await signIn(page, 'joe@example.com', PASSWORD);
  await page.getByRole('heading', { name: 'Members' }).waitFor();
  await page.getByRole('rowheader', { name: 'joe@example.com' }).waitFor();
});

journey('an owner makes a project, and somebody else looks at it', async (owner) => {
  const { page } = owner;
  await owner.enterDemo();
  await owner.choose('Workspace', 'Projects');
  await owner.look('projects');
  await page.getByRole('link', { name: 'New project' }).click();
  await owner.look('new-project');
  await page.getByLabel('Name', { exact: true }).fill('Shop');
  await page.getByRole('button', { name: 'Create project' }).click();
  await page.getByText('Its secret is shown this once').waitFor();
  await owner.look('new-credential');
  await owner.choose('Project', 'Settings');
  await owner.look('settings');
  await page.getByLabel('Word before the code').fill('SHOP');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('Saved.').waitFor();

  await owner.choose('Workspace', 'Members');
  await page.getByLabel('E-mail address').fill('vera@example.com');
  await page.getByLabel('Role', { exact: true }).selectOption('viewer');
  await owner.look('members');
  await page.getByRole('button', { name: 'Invite' }).click();
  const link = await page.getByLabel('Link', { exact: true }).textContent();
  await owner.look('invitations');

  await visit(async (viewer) => {
    await viewer.page.goto(link);
    await viewer.look('invitation');
    await viewer.acceptInvitation(link);
    await mayOnlyLook(viewer);
  });
});

journey('somebody with an account accepts an invitation, and looks after the account', async (member, ringtrue) => {
  const { page } = member;
  const { workspace_id } = ringtrue.workspace;
  const second = await ringtrue.run('workspace', 'create', 'Second');
  const { url } = await ringtrue.run('console', 'link', '--member', 'mia@example.com', '--workspace', workspace_id);
  await member.acceptInvitation(url);
  const invitation = await ringtrue.run(
    'console', 'link', '--member', 'mia@example.com', '--workspace', second.workspace_id, '--role', 'viewer',
  );
  await page.goto(invitation.url);
  await member.look('invitation-signed-in');
  await page.getByRole('button', { name: 'Accept the invitation' }).click();
  await page.getByRole('heading', { name: 'Projects' }).waitFor();

  await page.getByRole('link', { name: 'mia@example.com' }).click();
  await page.getByRole('heading', { name: 'Your sessions' }).waitFor();
  await member.look('account');
  await page.getByLabel('Current password').fill(PASSWORD);
  await page.getByLabel('New password').fill(`${PASSWORD}, changed`);
  await page.getByLabel('The same again').fill(`${PASSWORD}, changed`);
  await page.getByRole('button', { name: 'Change password' }).click();
  await page.getByText('The password was changed.').waitFor();
});

journey('an administrator creates a workspace, and disables an account', async (admin, ringtrue) => {
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
  await admin.look('accounts');
  await page.getByRole('button', { name: 'Disable: leo@example.com' }).click();
  await page.getByRole('button', { name: 'Enable: leo@example.com' }).waitFor();
  await page.getByRole('button', { name: 'Enable: leo@example.com' }).click();
  await page.getByRole('button', { name: 'New link: leo@example.com' }).click();
  await page.getByLabel('Link', { exact: true }).waitFor();
});

async function mayOnlyLook(viewer) {
  const { page } = viewer;
  assert.equal(await page.getByRole('link', { name: 'New project' }).count(), 0);
  const workspace = page.url();
  await page.getByRole('link', { name: 'Shop' }).click();
  await viewer.choose('Project', 'Handset');
  assert.equal(await page.getByRole('button', { name: 'Create check' }).count(), 0);
  await viewer.look('handset-for-viewers');
  await viewer.choose('Project', 'Settings');
  assert.ok(await page.getByLabel('Name', { exact: true }).isDisabled());
  await viewer.look('settings-for-viewers');

  // A form of their own making is refused as well.
  viewer.expectRefusal(403);
  const token = await page.locator('[name=form_token]').first().inputValue();
  await page.evaluate(([action, form_token]) => {
    const form = Object.assign(document.createElement('form'), { method: 'post', action });
    for (const [name, value] of Object.entries({ form_token, name: 'Theirs' })) {
      form.append(Object.assign(document.createElement('input'), { name, value }));
    }
    document.body.append(form);
    form.submit();
  }, [`${workspace}/new-project`, token]);
  await page.getByRole('heading', { name: 'You may not do this' }).waitFor();
  await viewer.look('refused');
}

async function signIn(page, email, password) {
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}
