import { List, type ListOptions, type SearchOptions, searchList } from './list.js';
import type {
  AllowedNetworks,
  AllowedNetworksInput,
  AuditEvent,
  CallbackDelivery,
  CreatedProject,
  CreatedProjectCredential,
  CreatedWorkspaceCredential,
  DeploymentNetwork,
  GroupBy,
  LoggedRequest,
  Project,
  ProjectCredential,
  ProjectCredentialInput,
  ProjectInput,
  ProjectPatch,
  UpdatedProject,
  Usage,
  Workspace,
  WorkspaceCredential,
  WorkspaceCredentialInput,
  WorkspacePatch,
} from './openapi.js';
import type { Call, CreateOptions, RequestOptions, Transport, UpdateOptions } from './transport.js';

const BASE = '/v1/management';
const WORKSPACE = `${BASE}/workspaces/{workspace_id}`;
const PROJECT = `${WORKSPACE}/projects/{project_id}`;
const scope = 'management';

/** Filters of the request log. */
export interface RequestLogOptions extends ListOptions {
  /** Class of the response status. `2xx` includes redirects. */
  status?: '2xx' | '4xx' | '5xx' | undefined;
  /** Error code of the response. */
  error_code?: string | undefined;
  /** `X-Request-Id` of the response. */
  request_id?: string | undefined;
}

/** Filters of the callbacks. */
export interface CallbackListOptions extends ListOptions {
  /**
   * Callbacks that all attempts failed to deliver (`undeliverable`), that wait for another attempt after a failed one
   * (`retrying`), or that were delivered after a failed one (`recovered`).
   */
  state?: 'undeliverable' | 'retrying' | 'recovered' | undefined;
  /** Product that sends the callback. */
  product?: 'reverse_sms' | 'secure_sna' | 'discovery' | 'verification' | undefined;
  /** Host of the callback URL, with its port unless it is the default. */
  receiver?: string | undefined;
}

/** Options of a change to a project. */
export interface ProjectUpdateOptions extends UpdateOptions {
  /**
   * Goes live even if something is missing, such as allowed networks. Without it, the call then fails with
   * `project_not_ready`.
   */
  force?: boolean | undefined;
}

/** Range and grouping of usage. */
export interface UsageOptions extends RequestOptions {
  /** Start of the range. Defaults to 24 hours, 30 days or 12 months before `to`, depending on `group_by`. */
  from?: Date | string | undefined;
  /** End of the range, exclusive. Defaults to the current time. */
  to?: Date | string | undefined;
  /** The length of a period. Defaults to `day`. */
  group_by?: GroupBy | undefined;
  /** Restricts the counts to a project. */
  project_id?: string | undefined;
}

/** Filter of networks. */
export interface NetworkOptions extends ListOptions {
  /** Restricts the list to a country, such as `GB`. */
  country_code?: string | undefined;
}

/** Workspaces. */
export class WorkspacesResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the credential's workspaces. */
  list(options?: ListOptions): List<Workspace> {
    return new List(this.#transport, { path: `${BASE}/workspaces`, scope }, options);
  }

  /** Reads a workspace. */
  get(workspaceId: string, options?: RequestOptions): Promise<Workspace> {
    return this.#transport.call({ method: 'GET', path: WORKSPACE, params: ids(workspaceId), scope, options });
  }

  /** Changes a workspace. Members that are left out stay as they are. */
  update(workspaceId: string, patch: WorkspacePatch, options?: UpdateOptions): Promise<Workspace> {
    const params = ids(workspaceId);
    return this.#transport.call({ method: 'PATCH', path: WORKSPACE, params, body: patch, scope, options });
  }
}

/** Projects of a workspace. */
export class ProjectsResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the projects. A filter can use `name`, `mode`, `disabled`, `created_at` and `updated_at`. */
  list(workspaceId: string, options?: SearchOptions): List<Project> {
    return searchList(this.#transport, { path: `${WORKSPACE}/projects`, params: ids(workspaceId), scope }, options);
  }

  /** Reads a project. */
  get(workspaceId: string, projectId: string, options?: RequestOptions): Promise<Project> {
    const params = ids(workspaceId, projectId);
    return this.#transport.call({ method: 'GET', path: PROJECT, params, scope, options });
  }

  /** Creates a project. Only this response shows the secret of its first credential. */
  create(workspaceId: string, input: ProjectInput, options?: CreateOptions): Promise<CreatedProject> {
    const path = `${WORKSPACE}/projects`;
    const params = ids(workspaceId);
    return this.#transport.call({ method: 'POST', path, params, body: input, scope, options, withKey: true });
  }

  /**
   * Changes a project: members that are left out stay as they are, and `null` removes a value. Going live replaces the
   * project's credentials; only this response shows the new secret.
   */
  update(
    workspaceId: string,
    projectId: string,
    patch: ProjectPatch,
    { force, ...options }: ProjectUpdateOptions = {},
  ): Promise<UpdatedProject> {
    const params = ids(workspaceId, projectId);
    const query = { force };
    return this.#transport.call({ method: 'PATCH', path: PROJECT, params, query, body: patch, scope, options });
  }
}

/** The networks that a project may use. */
export class AllowedNetworksResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Reads the allowed networks. */
  get(workspaceId: string, projectId: string, options?: RequestOptions): Promise<AllowedNetworks> {
    return this.#call('GET', workspaceId, projectId, { options });
  }

  /** Replaces the allowed networks. Networks that are not listed are not allowed. */
  replace(
    workspaceId: string,
    projectId: string,
    networks: AllowedNetworksInput,
    options?: UpdateOptions,
  ): Promise<AllowedNetworks> {
    return this.#call('PUT', workspaceId, projectId, { body: networks, options });
  }

  #call<T>(method: 'GET' | 'PUT', workspaceId: string, projectId: string, call: Partial<Call>): Promise<T> {
    const path = `${PROJECT}/allowed-networks`;
    return this.#transport.call({ ...call, method, path, params: ids(workspaceId, projectId), scope });
  }
}

/** The log of a project's requests. */
export class RequestLogResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the latest requests. */
  list(workspaceId: string, projectId: string, options: RequestLogOptions = {}): List<LoggedRequest> {
    const { status, error_code, request_id, ...rest } = options;
    const call = { path: `${PROJECT}/requests`, params: ids(workspaceId, projectId), scope } as const;
    return new List(this.#transport, call, rest, { status, error_code, request_id });
  }
}

/** The callbacks of a project, with the results of their last attempts. */
export class CallbackDeliveriesResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the callbacks, those of the newest checks first. The service lists at most the newest 1,000. */
  list(workspaceId: string, projectId: string, options: CallbackListOptions = {}): List<CallbackDelivery> {
    const { state, product, receiver, ...rest } = options;
    const call = { path: `${PROJECT}/callbacks`, params: ids(workspaceId, projectId), scope } as const;
    return new List(this.#transport, call, rest, { state, product, receiver });
  }
}

/** Credentials of a project. */
export class ProjectCredentialsResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the credentials, without their secrets. */
  list(workspaceId: string, projectId: string, options?: ListOptions): List<ProjectCredential> {
    const call = { path: `${PROJECT}/credentials`, params: ids(workspaceId, projectId), scope } as const;
    return new List(this.#transport, call, options);
  }

  /** Reads a credential, without its secret. */
  get(workspaceId: string, projectId: string, clientId: string, options?: RequestOptions): Promise<ProjectCredential> {
    return this.#call('GET', ids(workspaceId, projectId, clientId), options);
  }

  /** Creates a credential. Only this response shows its secret. */
  create(
    workspaceId: string,
    projectId: string,
    input: ProjectCredentialInput = {},
    options?: CreateOptions,
  ): Promise<CreatedProjectCredential> {
    const path = `${PROJECT}/credentials`;
    const params = ids(workspaceId, projectId);
    return this.#transport.call({ method: 'POST', path, params, body: input, scope, options, withKey: true });
  }

  /** Deletes a credential and revokes its tokens. */
  delete(workspaceId: string, projectId: string, clientId: string, options?: UpdateOptions): Promise<void> {
    return this.#call('DELETE', ids(workspaceId, projectId, clientId), options);
  }

  #call<T>(method: 'GET' | 'DELETE', params: Record<string, string>, options?: UpdateOptions): Promise<T> {
    return this.#transport.call({ method, path: `${PROJECT}/credentials/{client_id}`, params, scope, options });
  }
}

/** Credentials of a workspace. */
export class WorkspaceCredentialsResource {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the credentials, without their secrets. */
  list(workspaceId: string, options?: ListOptions): List<WorkspaceCredential> {
    return new List(this.#transport, { path: `${WORKSPACE}/credentials`, params: ids(workspaceId), scope }, options);
  }

  /** Reads a credential, without its secret. */
  get(workspaceId: string, clientId: string, options?: RequestOptions): Promise<WorkspaceCredential> {
    return this.#call('GET', { ...ids(workspaceId), client_id: clientId }, options);
  }

  /** Creates a credential. Only this response shows its secret. */
  create(
    workspaceId: string,
    input: WorkspaceCredentialInput = {},
    options?: CreateOptions,
  ): Promise<CreatedWorkspaceCredential> {
    const path = `${WORKSPACE}/credentials`;
    const params = ids(workspaceId);
    return this.#transport.call({ method: 'POST', path, params, body: input, scope, options, withKey: true });
  }

  /** Deletes a credential and revokes its tokens. The last one cannot be deleted. */
  delete(workspaceId: string, clientId: string, options?: UpdateOptions): Promise<void> {
    return this.#call('DELETE', { ...ids(workspaceId), client_id: clientId }, options);
  }

  #call<T>(method: 'GET' | 'DELETE', params: Record<string, string>, options?: UpdateOptions): Promise<T> {
    return this.#transport.call({ method, path: `${WORKSPACE}/credentials/{client_id}`, params, scope, options });
  }
}

/** Management of workspaces and projects, with a workspace credential. */
export class ManagementResource {
  readonly #transport: Transport;
  /** Workspaces. */
  readonly workspaces: WorkspacesResource;
  /** Projects of a workspace. */
  readonly projects: ProjectsResource;
  /** The networks that a project may use. */
  readonly allowedNetworks: AllowedNetworksResource;
  /** The log of a project's requests. */
  readonly requests: RequestLogResource;
  /** The callbacks of a project, with the results of their last attempts. */
  readonly callbacks: CallbackDeliveriesResource;
  /** Credentials of a project. */
  readonly projectCredentials: ProjectCredentialsResource;
  /** Credentials of a workspace. */
  readonly workspaceCredentials: WorkspaceCredentialsResource;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
    this.workspaces = new WorkspacesResource(transport);
    this.projects = new ProjectsResource(transport);
    this.allowedNetworks = new AllowedNetworksResource(transport);
    this.requests = new RequestLogResource(transport);
    this.callbacks = new CallbackDeliveriesResource(transport);
    this.projectCredentials = new ProjectCredentialsResource(transport);
    this.workspaceCredentials = new WorkspaceCredentialsResource(transport);
  }

  /** Lists the deployment's networks with the products of each. */
  networks({ country_code, ...options }: NetworkOptions = {}): List<DeploymentNetwork> {
    return new List(this.#transport, { path: `${BASE}/networks`, scope }, options, { country_code });
  }

  /** Counts checks by product, status, match and network. */
  usage(workspaceId: string, { from, to, group_by, project_id, ...options }: UsageOptions = {}): Promise<Usage> {
    const query = { from, to, group_by, project_id };
    const path = `${WORKSPACE}/usage`;
    return this.#transport.call({ method: 'GET', path, params: ids(workspaceId), query, scope, options });
  }

  /** Lists who did what, newest first. */
  auditEvents(workspaceId: string, options?: ListOptions): List<AuditEvent> {
    return new List(this.#transport, { path: `${WORKSPACE}/audit-events`, params: ids(workspaceId), scope }, options);
  }
}

function ids(workspace: string, project?: string, client?: string): Record<string, string> {
  return {
    workspace_id: workspace,
    ...(project === undefined ? {} : { project_id: project }),
    ...(client === undefined ? {} : { client_id: client }),
  };
}
