package ringtrue

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

const (
	networksPath   = "/v1/management/networks"
	workspacesPath = "/v1/management/workspaces"
	mergePatchType = "application/merge-patch+json"
)

// Management administers workspaces, projects and credentials. It needs a workspace's credential. Only reads and creates
// are retried.
type Management struct {
	// Workspaces are the workspaces of the credential.
	Workspaces *Workspaces
	// Projects are a workspace's projects.
	Projects *Projects
	// AllowedNetworks are the networks that a project may use.
	AllowedNetworks *AllowedNetworksAccess
	// Requests are a project's recent requests.
	Requests *Requests
	// Callbacks are a project's callbacks with the results of their last attempts.
	Callbacks *CallbackDeliveries
	// ProjectCredentials are a project's credentials.
	ProjectCredentials *ProjectCredentials
	// WorkspaceCredentials are a workspace's credentials.
	WorkspaceCredentials *WorkspaceCredentials
	// AuditEvents are the changes in a workspace.
	AuditEvents *AuditEvents

	core *core
}

func newManagement(c *core) *Management {
	return &Management{
		Workspaces:           &Workspaces{c},
		Projects:             &Projects{c},
		AllowedNetworks:      &AllowedNetworksAccess{c},
		Requests:             &Requests{c},
		Callbacks:            &CallbackDeliveries{c},
		ProjectCredentials:   &ProjectCredentials{c},
		WorkspaceCredentials: &WorkspaceCredentials{c},
		AuditEvents:          &AuditEvents{c},
		core:                 c,
	}
}

// NetworkOptions select networks of the deployment.
type NetworkOptions struct {
	// CountryCode restricts the list to a country: ISO 3166, two upper-case letters.
	CountryCode string
	PageOptions
}

func (o NetworkOptions) list() listing {
	return managementList(networksPath, nil, "country_code", o.CountryCode)
}

// Networks iterates over the networks available to projects.
func (m *Management) Networks(ctx context.Context, options NetworkOptions) *Iterator[DeploymentNetwork] {
	return listAll[DeploymentNetwork](ctx, m.core, options.list(), options.PageOptions.list())
}

// NetworksPage reads one page of the networks available to projects.
func (m *Management) NetworksPage(ctx context.Context, options NetworkOptions) (*Page[DeploymentNetwork], error) {
	return listPage[DeploymentNetwork](ctx, m.core, options.list(), options.PageOptions.list())
}

// UsageOptions select what [Management.Usage] counts.
type UsageOptions struct {
	// From is the start of the range. The zero value is 24 hours, 30 days or 12 months before To, by GroupBy.
	From time.Time
	// To is the end of the range, exclusive. The zero value is the current time.
	To time.Time
	// GroupBy is the length of a period. The default is `day`.
	GroupBy GroupBy
	// ProjectID restricts the counts to a project.
	ProjectID string
}

// Usage counts a workspace's checks by period, project, product, status, verdict and network.
func (m *Management) Usage(
	ctx context.Context, workspaceID string, usage UsageOptions, options ...CallOption,
) (*Usage, error) {
	target, err := path(workspacesPath, workspaceID, "usage")
	if err != nil {
		return nil, err
	}
	query := queryOf("group_by", usage.GroupBy, "project_id", usage.ProjectID)
	for name, at := range map[string]time.Time{"from": usage.From, "to": usage.To} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return invoke[Usage](ctx, m.core, call{
		method: http.MethodGet, path: target, query: query, scope: ScopeManagement, isRetryable: true, options: options,
	})
}

// Workspaces are the workspaces of the credential.
type Workspaces struct{ core *core }

// List iterates over the workspaces.
func (w *Workspaces) List(ctx context.Context, options PageOptions) *Iterator[Workspace] {
	return listAll[Workspace](ctx, w.core, managementList(workspacesPath, nil), options.list())
}

// Page reads one page of the workspaces.
func (w *Workspaces) Page(ctx context.Context, options PageOptions) (*Page[Workspace], error) {
	return listPage[Workspace](ctx, w.core, managementList(workspacesPath, nil), options.list())
}

// Get reads a workspace.
func (w *Workspaces) Get(ctx context.Context, workspaceID string, options ...CallOption) (*Workspace, error) {
	return get[Workspace](ctx, w.core, ScopeManagement, options, workspacesPath, workspaceID)
}

// Update changes a workspace.
func (w *Workspaces) Update(
	ctx context.Context, workspaceID string, patch WorkspacePatch, options ...CallOption,
) (*Workspace, error) {
	target, err := path(workspacesPath, workspaceID)
	return change[Workspace](ctx, w.core, http.MethodPatch, target, err, patch, mergePatchType, options)
}

// Projects are a workspace's projects.
type Projects struct{ core *core }

// List iterates over a workspace's projects.
func (p *Projects) List(ctx context.Context, workspaceID string, options ListOptions) *Iterator[Project] {
	return listAll[Project](ctx, p.core, managementList(path(workspacesPath, workspaceID, "projects")), options)
}

// Page reads one page of a workspace's projects.
func (p *Projects) Page(ctx context.Context, workspaceID string, options ListOptions) (*Page[Project], error) {
	return listPage[Project](ctx, p.core, managementList(path(workspacesPath, workspaceID, "projects")), options)
}

// Get reads a project.
func (p *Projects) Get(ctx context.Context, workspaceID, projectID string, options ...CallOption) (*Project, error) {
	return get[Project](ctx, p.core, ScopeManagement, options, workspacesPath, workspaceID, "projects", projectID)
}

// Create creates a project and its first credential, whose secret only this result has.
func (p *Projects) Create(
	ctx context.Context, workspaceID string, input ProjectInput, options ...CallOption,
) (*CreatedProject, error) {
	target, err := path(workspacesPath, workspaceID, "projects")
	if err != nil {
		return nil, err
	}
	return invoke[CreatedProject](ctx, p.core, createCall(target, ScopeManagement, input, options))
}

// Update changes a project. One that goes live gets a new credential, whose secret only this result has. Going live
// fails with [ErrorCodeProjectNotReady] if something is missing; see [WithForce].
func (p *Projects) Update(
	ctx context.Context, workspaceID, projectID string, patch ProjectPatch, options ...CallOption,
) (*UpdatedProject, error) {
	target, err := path(workspacesPath, workspaceID, "projects", projectID)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if newCallSettings(options).isForced {
		query.Set("force", "true")
	}
	return invoke[UpdatedProject](ctx, p.core, call{
		method: http.MethodPatch, path: target, query: query, scope: ScopeManagement, body: patch,
		contentType: mergePatchType, options: options,
	})
}

// AllowedNetworksAccess reads and replaces the networks that a project may use.
type AllowedNetworksAccess struct{ core *core }

// Get reads the networks that a project may use.
func (a *AllowedNetworksAccess) Get(
	ctx context.Context, workspaceID, projectID string, options ...CallOption,
) (*AllowedNetworks, error) {
	return get[AllowedNetworks](
		ctx, a.core, ScopeManagement, options, workspacesPath, workspaceID, "projects", projectID, "allowed-networks",
	)
}

// Replace sets the networks that a project may use. Networks that are not listed are not allowed.
func (a *AllowedNetworksAccess) Replace(
	ctx context.Context, workspaceID, projectID string, networks []AllowedNetworkInput, options ...CallOption,
) (*AllowedNetworks, error) {
	// The API expects a list, and nil would be null.
	input := AllowedNetworksInput{Networks: append([]AllowedNetworkInput{}, networks...)}
	target, err := path(workspacesPath, workspaceID, "projects", projectID, "allowed-networks")
	return change[AllowedNetworks](ctx, a.core, http.MethodPut, target, err, input, "", options)
}

// RequestOptions select requests in a project's log.
type RequestOptions struct {
	// Status is the class of the response's status: `2xx`, `4xx` or `5xx`.
	Status string
	// ErrorCode is the response's error code.
	ErrorCode string
	// RequestID is the response's X-Request-Id.
	RequestID string
	PageOptions
}

// Requests are a project's recent requests, newest first.
type Requests struct{ core *core }

func (o RequestOptions) list(workspaceID, projectID string) listing {
	target, err := path(workspacesPath, workspaceID, "projects", projectID, "requests")
	return managementList(target, err, "status", o.Status, "error_code", o.ErrorCode, "request_id", o.RequestID)
}

// List iterates over a project's recent requests.
func (r *Requests) List(
	ctx context.Context, workspaceID, projectID string, options RequestOptions,
) *Iterator[LoggedRequest] {
	return listAll[LoggedRequest](ctx, r.core, options.list(workspaceID, projectID), options.PageOptions.list())
}

// Page reads one page of a project's recent requests.
func (r *Requests) Page(
	ctx context.Context, workspaceID, projectID string, options RequestOptions,
) (*Page[LoggedRequest], error) {
	return listPage[LoggedRequest](ctx, r.core, options.list(workspaceID, projectID), options.PageOptions.list())
}

// CallbackOptions select callbacks of a project.
type CallbackOptions struct {
	// State selects callbacks that all attempts failed to deliver (`undeliverable`), that wait for another attempt after
	// a failed one (`retrying`), or that were delivered after a failed one (`recovered`).
	State string
	// Product is the product that sends the callback, such as `verification`.
	Product string
	// Receiver is the host of the callback URL, with its port unless it is the default.
	Receiver string
	PageOptions
}

// CallbackDeliveries are a project's callbacks with the results of their last attempts, newest checks first. The service
// lists at most the newest 1,000.
type CallbackDeliveries struct{ core *core }

func (o CallbackOptions) list(workspaceID, projectID string) listing {
	target, err := path(workspacesPath, workspaceID, "projects", projectID, "callbacks")
	return managementList(target, err, "state", o.State, "product", o.Product, "receiver", o.Receiver)
}

// List iterates over a project's callbacks.
func (c *CallbackDeliveries) List(
	ctx context.Context, workspaceID, projectID string, options CallbackOptions,
) *Iterator[CallbackDelivery] {
	return listAll[CallbackDelivery](ctx, c.core, options.list(workspaceID, projectID), options.PageOptions.list())
}

// Page reads one page of a project's callbacks.
func (c *CallbackDeliveries) Page(
	ctx context.Context, workspaceID, projectID string, options CallbackOptions,
) (*Page[CallbackDelivery], error) {
	return listPage[CallbackDelivery](ctx, c.core, options.list(workspaceID, projectID), options.PageOptions.list())
}

// ProjectCredentials are a project's credentials.
type ProjectCredentials struct{ core *core }

func (p *ProjectCredentials) path(workspaceID, projectID string, more ...string) (string, error) {
	return path(workspacesPath, append([]string{workspaceID, "projects", projectID, "credentials"}, more...)...)
}

// List iterates over a project's credentials.
func (p *ProjectCredentials) List(
	ctx context.Context, workspaceID, projectID string, options PageOptions,
) *Iterator[ProjectCredential] {
	return listAll[ProjectCredential](ctx, p.core, managementList(p.path(workspaceID, projectID)), options.list())
}

// Page reads one page of a project's credentials.
func (p *ProjectCredentials) Page(
	ctx context.Context, workspaceID, projectID string, options PageOptions,
) (*Page[ProjectCredential], error) {
	return listPage[ProjectCredential](ctx, p.core, managementList(p.path(workspaceID, projectID)), options.list())
}

// Get reads a credential, without its secret.
func (p *ProjectCredentials) Get(
	ctx context.Context, workspaceID, projectID, clientID string, options ...CallOption,
) (*ProjectCredential, error) {
	return get[ProjectCredential](
		ctx, p.core, ScopeManagement, options, workspacesPath, workspaceID, "projects", projectID, "credentials", clientID,
	)
}

// Create creates a credential, whose secret only this result has.
func (p *ProjectCredentials) Create(
	ctx context.Context, workspaceID, projectID string, input ProjectCredentialInput, options ...CallOption,
) (*CreatedProjectCredential, error) {
	target, err := p.path(workspaceID, projectID)
	if err != nil {
		return nil, err
	}
	return invoke[CreatedProjectCredential](ctx, p.core, createCall(target, ScopeManagement, input, options))
}

// Delete deletes a credential and revokes its tokens.
func (p *ProjectCredentials) Delete(
	ctx context.Context, workspaceID, projectID, clientID string, options ...CallOption,
) error {
	target, err := p.path(workspaceID, projectID, clientID)
	return remove(ctx, p.core, target, err, options)
}

// WorkspaceCredentials are a workspace's credentials.
type WorkspaceCredentials struct{ core *core }

func (w *WorkspaceCredentials) path(workspaceID string, more ...string) (string, error) {
	return path(workspacesPath, append([]string{workspaceID, "credentials"}, more...)...)
}

// List iterates over a workspace's credentials.
func (w *WorkspaceCredentials) List(
	ctx context.Context, workspaceID string, options PageOptions,
) *Iterator[WorkspaceCredential] {
	return listAll[WorkspaceCredential](ctx, w.core, managementList(w.path(workspaceID)), options.list())
}

// Page reads one page of a workspace's credentials.
func (w *WorkspaceCredentials) Page(
	ctx context.Context, workspaceID string, options PageOptions,
) (*Page[WorkspaceCredential], error) {
	return listPage[WorkspaceCredential](ctx, w.core, managementList(w.path(workspaceID)), options.list())
}

// Get reads a credential, without its secret.
func (w *WorkspaceCredentials) Get(
	ctx context.Context, workspaceID, clientID string, options ...CallOption,
) (*WorkspaceCredential, error) {
	return get[WorkspaceCredential](
		ctx, w.core, ScopeManagement, options, workspacesPath, workspaceID, "credentials", clientID,
	)
}

// Create creates a credential, whose secret only this result has.
func (w *WorkspaceCredentials) Create(
	ctx context.Context, workspaceID string, input WorkspaceCredentialInput, options ...CallOption,
) (*CreatedWorkspaceCredential, error) {
	target, err := w.path(workspaceID)
	if err != nil {
		return nil, err
	}
	return invoke[CreatedWorkspaceCredential](ctx, w.core, createCall(target, ScopeManagement, input, options))
}

// Delete deletes a credential and revokes its tokens.
func (w *WorkspaceCredentials) Delete(
	ctx context.Context, workspaceID, clientID string, options ...CallOption,
) error {
	target, err := w.path(workspaceID, clientID)
	return remove(ctx, w.core, target, err, options)
}

// AuditEvents are the changes in a workspace.
type AuditEvents struct{ core *core }

// List iterates over the changes in a workspace.
func (a *AuditEvents) List(ctx context.Context, workspaceID string, options PageOptions) *Iterator[AuditEvent] {
	return listAll[AuditEvent](ctx, a.core, managementList(path(workspacesPath, workspaceID, "audit-events")), options.list())
}

// Page reads one page of the changes in a workspace.
func (a *AuditEvents) Page(
	ctx context.Context, workspaceID string, options PageOptions,
) (*Page[AuditEvent], error) {
	return listPage[AuditEvent](ctx, a.core, managementList(path(workspacesPath, workspaceID, "audit-events")), options.list())
}

// managementList is a list at a path, which may be invalid, with pairs of names and values in the query.
func managementList(path string, err error, query ...string) listing {
	return listing{path: path, err: err, scope: ScopeManagement, query: queryOf(query...)}
}

// queryOf builds a query from pairs of names and values, without the empty values.
func queryOf(pairs ...string) url.Values {
	query := url.Values{}
	for at := 0; at+1 < len(pairs); at += 2 {
		if pairs[at+1] != "" {
			query.Set(pairs[at], pairs[at+1])
		}
	}
	return query
}

// change makes a call that is not retried, because a repetition could undo a change made in between.
func change[T any](
	ctx context.Context, c *core, method, path string, err error, body any, contentType string, options []CallOption,
) (*T, error) {
	if err != nil {
		return nil, err
	}
	return invoke[T](ctx, c, call{
		method: method, path: path, scope: ScopeManagement, body: body, contentType: contentType, options: options,
	})
}

func remove(ctx context.Context, c *core, path string, err error, options []CallOption) error {
	if err != nil {
		return err
	}
	_, _, err = c.send(ctx, call{method: http.MethodDelete, path: path, scope: ScopeManagement, options: options})
	return err
}
