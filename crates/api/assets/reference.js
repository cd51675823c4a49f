// Renders the OpenAPI document. Everything is loaded from this server.
const configuration = {
  url: "/assets/reference.json",
  agent: { disabled: true },
  defaultOpenFirstTag: true,
  // Error pages link to `/docs#tag/TAG/OPERATION_ID`.
  generateOperationSlug: (operation) => operation.operationId,
  hideClientButton: true,
  mcp: { disabled: true },
  // Keeps tokens and secrets out of the browser's storage.
  persistAuth: false,
  showDeveloperTools: "never",
  telemetry: false,
  withDefaultFonts: false,
};

// The theme chosen in the console. Without a choice, the reference has a switch of its own.
const { theme } = document.documentElement.dataset;
if (theme) Object.assign(configuration, { forceDarkModeState: theme, hideDarkModeToggle: true });

/** Presets the token of all requests that users try. */
function withToken(token, scope) {
  const clientCredentials = { token, selectedScopes: [scope] };
  const authentication = {
    preferredSecurityScheme: "token",
    securitySchemes: { token: { flows: { clientCredentials } } },
  };
  return { ...configuration, authentication };
}

const reference = Scalar.createApiReference("#reference", configuration);

// Users who are signed in to the console can get tokens for their sandbox projects.
const form = document.getElementById("sandbox-token");
const { project: projectField, scope: scopeField } = form.elements;
const result = form.querySelector("output");
let sandbox;

function showScopes() {
  const { scopes } = sandbox.projects[projectField.selectedIndex];
  const selected = scopeField.value || "verification";
  scopeField.replaceChildren(...scopes.map((scope) => new Option(scope, scope, false, scope === selected)));
}

async function getToken() {
  const { path, name } = sandbox.projects[projectField.selectedIndex];
  const scope = scopeField.value;
  const response = await fetch(path, {
    method: "POST",
    headers: { accept: "application/json" },
    body: new URLSearchParams({ form_token: sandbox.form_token, scope }),
    redirect: "error",
  });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const { access_token: token, expires_in: seconds } = await response.json();
  reference.updateConfiguration(withToken(token, scope));
  return `Requests now use a token of ${name} with the scope ${scope}, for ${Math.round(seconds / 60)} minutes.`;
}

projectField.addEventListener("change", showScopes);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  result.textContent = "…";
  try {
    result.textContent = await getToken();
  } catch (error) {
    result.textContent = `No token: ${error.message}. Reload the page, or sign in to the console again.`;
  }
});

async function start() {
  const response = await fetch("/console/sandbox-projects", { headers: { accept: "application/json" } });
  if (!response.ok) return;
  sandbox = await response.json();
  if (sandbox.projects.length === 0) return;
  projectField.replaceChildren(...sandbox.projects.map(({ name }) => new Option(name)));
  showScopes();
  form.hidden = false;
}
// Ignores failures, because the reference also works without tokens.
start().catch(() => {});
