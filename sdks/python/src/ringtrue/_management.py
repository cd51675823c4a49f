"""Management: workspaces, projects, credentials, usage and logs. It needs a workspace's credential."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Union

from ._flow import Flavour, Resource, endpoint, paged
from ._session import Call, random_key
from .types import (
    AllowedNetworks,
    AuditEvent,
    CallbackDelivery,
    CreatedProject,
    CreatedProjectCredential,
    CreatedWorkspaceCredential,
    DeploymentNetwork,
    LoggedRequest,
    Project,
    ProjectCredential,
    UpdatedProject,
    Usage,
    Workspace,
    WorkspaceCredential,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Callable, Literal

    from typing_extensions import TypeAlias, Unpack

    from ._flow import Flow, Page, Runner
    from ._session import Session
    from .search import Filter
    from .types import (
        AllowedNetworkInput,
        ProjectCredentialInput,
        ProjectInput,
        ProjectPatch,
        WorkspaceCredentialInput,
        WorkspacePatch,
    )

    Time: TypeAlias = Union[str, datetime]

WORKSPACE = "/v1/management/workspaces/{workspace_id}"
PROJECT = WORKSPACE + "/projects/{project_id}"
MERGE_PATCH = "application/merge-patch+json"


def _call(method: str, route: str, path: dict[str, str] | None = None, **more: Any) -> Call:  # noqa: ANN401 (of Call)
    return Call(method, route, "management", path or {}, **more)


def _create(route: str, path: dict[str, str], body: Any, key: str | None) -> Call:  # noqa: ANN401 (JSON)
    return _call("POST", route, path, body=body, idempotency_key=random_key() if key is None else key)


def _time(value: Time | None) -> str | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a datetime needs a time zone")
        return value.isoformat()
    return value


class Workspaces(Resource[Flavour]):
    """Workspaces."""

    @paged
    def list(self, *, size: int | None = None) -> Callable[[int], Flow[Page[Workspace]]]:
        """Lists the credential's workspace."""
        return self._session.pages(_call("GET", "/v1/management/workspaces"), Workspace, size)

    @endpoint
    def get(self, workspace_id: str) -> Flow[Workspace]:
        """Returns a workspace."""
        return self._session.call(_call("GET", WORKSPACE, {"workspace_id": workspace_id}), Workspace)

    @endpoint
    def update(self, workspace_id: str, **patch: Unpack[WorkspacePatch]) -> Flow[Workspace]:
        """Changes a workspace. Members that are not given are unchanged."""
        path = {"workspace_id": workspace_id}
        call = _call("PATCH", WORKSPACE, path, body=patch, content_type=MERGE_PATCH, is_repeatable=False)
        return self._session.call(call, Workspace)


class Projects(Resource[Flavour]):
    """Projects of a workspace."""

    @paged
    def list(
        self, workspace_id: str, search: Filter | str | None = None, *, size: int | None = None
    ) -> Callable[[int], Flow[Page[Project]]]:
        """Lists projects."""
        query = {"search": None if search is None else str(search)}
        return self._session.pages(
            _call("GET", WORKSPACE + "/projects", {"workspace_id": workspace_id}, query=query), Project, size
        )

    @endpoint
    def get(self, workspace_id: str, project_id: str) -> Flow[Project]:
        """Returns a project."""
        path = {"workspace_id": workspace_id, "project_id": project_id}
        return self._session.call(_call("GET", PROJECT, path), Project)

    @endpoint
    def create(
        self, workspace_id: str, *, idempotency_key: str | None = None, **body: Unpack[ProjectInput]
    ) -> Flow[CreatedProject]:
        """Creates a project. Only this response has its credential's secret."""
        call = _create(WORKSPACE + "/projects", {"workspace_id": workspace_id}, body, idempotency_key)
        return self._session.call(call, CreatedProject)

    @endpoint
    def update(
        self, workspace_id: str, project_id: str, *, force: bool = False, **patch: Unpack[ProjectPatch]
    ) -> Flow[UpdatedProject]:
        """Changes a project. Members that are not given are unchanged; `None` resets a setting.

        If it goes live, only this response has the new credential's secret.

        Args:
            workspace_id: The workspace.
            project_id: The project.
            force: Goes live even if something is missing, such as allowed networks. Without it, the call then fails
                with `project_not_ready`.
            **patch: Members of `ProjectPatch`.
        """
        path = {"workspace_id": workspace_id, "project_id": project_id}
        query = {"force": "true" if force else None}
        call = _call("PATCH", PROJECT, path, query=query, body=patch, content_type=MERGE_PATCH, is_repeatable=False)
        return self._session.call(call, UpdatedProject)


class AllowedNetworkLists(Resource[Flavour]):
    """The networks that a project may use."""

    @endpoint
    def get(self, workspace_id: str, project_id: str) -> Flow[AllowedNetworks]:
        """Returns the allowed networks."""
        path = {"workspace_id": workspace_id, "project_id": project_id}
        return self._session.call(_call("GET", PROJECT + "/allowed-networks", path), AllowedNetworks)

    @endpoint
    def replace(
        self, workspace_id: str, project_id: str, networks: Sequence[AllowedNetworkInput]
    ) -> Flow[AllowedNetworks]:
        """Replaces the allowed networks."""
        path = {"workspace_id": workspace_id, "project_id": project_id}
        body = {"networks": [*networks]}
        call = _call("PUT", PROJECT + "/allowed-networks", path, body=body, is_repeatable=False)
        return self._session.call(call, AllowedNetworks)


class Requests(Resource[Flavour]):
    """The request log of a project."""

    @paged
    def list(
        self,
        workspace_id: str,
        project_id: str,
        *,
        status: Literal["2xx", "4xx", "5xx"] | None = None,
        error_code: str | None = None,
        request_id: str | None = None,
        size: int | None = None,
    ) -> Callable[[int], Flow[Page[LoggedRequest]]]:
        """Lists recent requests, newest first."""
        path = {"workspace_id": workspace_id, "project_id": project_id}
        query = {"status": status, "error_code": error_code, "request_id": request_id}
        return self._session.pages(_call("GET", PROJECT + "/requests", path, query=query), LoggedRequest, size)


class CallbackDeliveries(Resource[Flavour]):
    """The callbacks of a project with the results of their last attempts."""

    @paged
    def list(
        self,
        workspace_id: str,
        project_id: str,
        *,
        state: Literal["undeliverable", "retrying", "recovered"] | None = None,
        product: Literal["reverse_sms", "secure_sna", "discovery", "verification"] | None = None,
        receiver: str | None = None,
        size: int | None = None,
    ) -> Callable[[int], Flow[Page[CallbackDelivery]]]:
        """Lists callbacks, those of the newest checks first. The service lists at most the newest 1,000.

        Args:
            workspace_id: The workspace.
            project_id: The project.
            state: Callbacks that all attempts failed to deliver (`undeliverable`), that wait for another attempt after
                a failed one (`retrying`), or that were delivered after a failed one (`recovered`).
            product: Callbacks of this product.
            receiver: Callbacks to this host, with its port unless it is the default.
            size: Items per request, 1 to 100.
        """
        path = {"workspace_id": workspace_id, "project_id": project_id}
        query = {"state": state, "product": product, "receiver": receiver}
        return self._session.pages(_call("GET", PROJECT + "/callbacks", path, query=query), CallbackDelivery, size)


class ProjectCredentials(Resource[Flavour]):
    """Credentials of a project."""

    @paged
    def list(
        self, workspace_id: str, project_id: str, *, size: int | None = None
    ) -> Callable[[int], Flow[Page[ProjectCredential]]]:
        """Lists credentials, without their secrets."""
        path = {"workspace_id": workspace_id, "project_id": project_id}
        return self._session.pages(_call("GET", PROJECT + "/credentials", path), ProjectCredential, size)

    @endpoint
    def get(self, workspace_id: str, project_id: str, client_id: str) -> Flow[ProjectCredential]:
        """Returns a credential, without its secret."""
        path = {"workspace_id": workspace_id, "project_id": project_id, "client_id": client_id}
        return self._session.call(_call("GET", PROJECT + "/credentials/{client_id}", path), ProjectCredential)

    @endpoint
    def create(
        self,
        workspace_id: str,
        project_id: str,
        *,
        idempotency_key: str | None = None,
        **body: Unpack[ProjectCredentialInput],
    ) -> Flow[CreatedProjectCredential]:
        """Creates a credential. Only this response has its secret."""
        path = {"workspace_id": workspace_id, "project_id": project_id}
        call = _create(PROJECT + "/credentials", path, body, idempotency_key)
        return self._session.call(call, CreatedProjectCredential)

    @endpoint
    def delete(self, workspace_id: str, project_id: str, client_id: str) -> Flow[None]:
        """Deletes a credential, and revokes its tokens."""
        path = {"workspace_id": workspace_id, "project_id": project_id, "client_id": client_id}
        call = _call("DELETE", PROJECT + "/credentials/{client_id}", path, is_repeatable=False)
        return self._session.call_without_result(call)


class WorkspaceCredentials(Resource[Flavour]):
    """Credentials of a workspace."""

    @paged
    def list(self, workspace_id: str, *, size: int | None = None) -> Callable[[int], Flow[Page[WorkspaceCredential]]]:
        """Lists credentials, without their secrets."""
        call = _call("GET", WORKSPACE + "/credentials", {"workspace_id": workspace_id})
        return self._session.pages(call, WorkspaceCredential, size)

    @endpoint
    def get(self, workspace_id: str, client_id: str) -> Flow[WorkspaceCredential]:
        """Returns a credential, without its secret."""
        path = {"workspace_id": workspace_id, "client_id": client_id}
        return self._session.call(_call("GET", WORKSPACE + "/credentials/{client_id}", path), WorkspaceCredential)

    @endpoint
    def create(
        self, workspace_id: str, *, idempotency_key: str | None = None, **body: Unpack[WorkspaceCredentialInput]
    ) -> Flow[CreatedWorkspaceCredential]:
        """Creates a credential. Only this response has its secret."""
        call = _create(WORKSPACE + "/credentials", {"workspace_id": workspace_id}, body, idempotency_key)
        return self._session.call(call, CreatedWorkspaceCredential)

    @endpoint
    def delete(self, workspace_id: str, client_id: str) -> Flow[None]:
        """Deletes a credential, and revokes its tokens."""
        path = {"workspace_id": workspace_id, "client_id": client_id}
        call = _call("DELETE", WORKSPACE + "/credentials/{client_id}", path, is_repeatable=False)
        return self._session.call_without_result(call)


class Management(Resource[Flavour]):
    """Management. It needs a workspace's credential."""

    def __init__(self, session: Session, runner: Runner) -> None:
        super().__init__(session, runner)
        self.workspaces: Workspaces[Flavour] = Workspaces(session, runner)
        self.projects: Projects[Flavour] = Projects(session, runner)
        self.allowed_networks: AllowedNetworkLists[Flavour] = AllowedNetworkLists(session, runner)
        self.requests: Requests[Flavour] = Requests(session, runner)
        self.callbacks: CallbackDeliveries[Flavour] = CallbackDeliveries(session, runner)
        self.project_credentials: ProjectCredentials[Flavour] = ProjectCredentials(session, runner)
        self.workspace_credentials: WorkspaceCredentials[Flavour] = WorkspaceCredentials(session, runner)

    @paged
    def networks(
        self, *, country_code: str | None = None, size: int | None = None
    ) -> Callable[[int], Flow[Page[DeploymentNetwork]]]:
        """Lists the deployment's networks."""
        call = _call("GET", "/v1/management/networks", query={"country_code": country_code})
        return self._session.pages(call, DeploymentNetwork, size)

    @endpoint
    def usage(
        self,
        workspace_id: str,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        group_by: Literal["hour", "day", "month"] | None = None,
        project_id: str | None = None,
    ) -> Flow[Usage]:
        """Counts checks by period, project, product, status, verdict and network."""
        query = {"from": _time(from_), "to": _time(to), "group_by": group_by, "project_id": project_id}
        return self._session.call(
            _call("GET", WORKSPACE + "/usage", {"workspace_id": workspace_id}, query=query), Usage
        )

    @paged
    def audit_events(self, workspace_id: str, *, size: int | None = None) -> Callable[[int], Flow[Page[AuditEvent]]]:
        """Lists changes, newest first."""
        call = _call("GET", WORKSPACE + "/audit-events", {"workspace_id": workspace_id})
        return self._session.pages(call, AuditEvent, size)
