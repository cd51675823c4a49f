"""Every call of the products and of Management, against the real service."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from support import Stub, open_on_phone, resend, response, wait_until

from ringtrue import ApiError, AuthenticationError, CodeInvalidError, NotFoundError, field

if TYPE_CHECKING:
    from support import Clients, Receiver, Service

    from ringtrue import Ringtrue

UNKNOWN_ID = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b"


def new_reference() -> str:
    return uuid.uuid4().hex


def test_reverse_sms(client: Ringtrue, receiver: Receiver) -> None:
    reference = new_reference()
    check = client.reverse_sms.create(
        phone_number="+990123456700", reference_id=reference, callback_url=receiver.callback_url
    )
    assert check["status"] == "ACCEPTED"
    client.sandbox.send_sms(from_="+990123456700", to=check["receiver_phone_number"], body=check["expected_sms_body"])
    receiver.wait(1)
    found = client.reverse_sms.get(check["check_id"])
    assert (found["status"], found["match"]) == ("COMPLETED", True)
    assert [item["check_id"] for item in client.reverse_sms.list(field("reference_id").eq(reference))] == [
        check["check_id"]
    ]
    assert resend(client.reverse_sms, check["check_id"])["check_id"] == check["check_id"]
    receiver.wait(2)


def test_sms_with_faults(client: Ringtrue) -> None:
    check = client.reverse_sms.create(phone_number="+990123456702")
    client.sandbox.send_sms(
        from_="+990123456702",
        to=check["receiver_phone_number"],
        body=check["expected_sms_body"],
        faults={"spoofed_from": "+990123456704", "extra_copies": 1},
    )
    wait_until(lambda: client.reverse_sms.get(check["check_id"])["status"] == "COMPLETED", "the check ends")
    assert client.reverse_sms.get(check["check_id"])["match"] is False


def test_secure_sna(client: Ringtrue, receiver: Receiver) -> None:
    check = client.secure_sna.create(phone_number="+990123456701", callback_url=receiver.callback_url)
    end = open_on_phone(check["url"])
    with pytest.raises(CodeInvalidError) as raised:
        client.secure_sna.redeem_code(check["check_id"], "wrong")
    assert raised.value.error_code == "code_invalid"
    redeemed = client.secure_sna.redeem_code(check["check_id"], end["code"])
    assert (redeemed["status"], redeemed["match"]) == ("COMPLETED", False)
    assert client.secure_sna.get(check["check_id"]) == redeemed
    assert next(iter(client.secure_sna.list(size=1)))["check_id"] == check["check_id"]
    receiver.wait(1)
    resend(client.secure_sna, check["check_id"])
    receiver.wait(2)


def test_discovery(client: Ringtrue, receiver: Receiver) -> None:
    check = client.discovery.create(callback_url=receiver.callback_url)
    end = open_on_phone(check["url"] + "&sim=%2B990123456706")
    redeemed = client.discovery.redeem_code(check["check_id"], end["code"])
    assert redeemed["phone_number"] == "+990123456706"
    assert client.discovery.get(check["check_id"])["status"] == "COMPLETED"
    assert next(iter(client.discovery.list("status==COMPLETED")))["check_id"] == check["check_id"]
    receiver.wait(1)
    resend(client.discovery, check["check_id"])
    receiver.wait(2)


def test_sim_swap(client: Ringtrue) -> None:
    check = client.sim_swap.create(phone_number="+990123456701", period=2880)
    assert (check["status"], check["no_sim_change"]) == ("COMPLETED", False)
    assert client.sim_swap.get(check["check_id"]) == check
    assert next(iter(client.sim_swap.list(field("no_sim_change").eq(False))))["check_id"] == check["check_id"]  # noqa: FBT003


def test_eligibility(client: Ringtrue) -> None:
    products = [product["product_id"] for product in client.eligibility.of_number("+990123456796")["products"]]
    assert "reverse_sms" in products
    assert "secure_sna" not in products
    assert client.eligibility.of_address("203.0.113.10")["products"]
    with pytest.raises(NotFoundError) as raised:
        client.eligibility.of_number("+990123456794")
    assert raised.value.error_code == "subscriber_not_found"
    assert "990123456794" not in f"{raised.value} {raised.value!r}"
    assert "{phone_number}" in str(raised.value)


def test_verification_without_the_page(client: Ringtrue, receiver: Receiver) -> None:
    created = client.verifications.create(phone_number="+990 (123) 45-67.00", callback_url=receiver.callback_url)
    verification_id = created["verification_id"]
    assert created["next_step"]["method"] == "secure_sna"
    moved = client.verifications.next(verification_id, method="secure_sna")
    # Another method is current: nothing changes.
    assert client.verifications.next(verification_id, method="secure_sna")["next_step"] == moved["next_step"]
    step = moved["next_step"]
    assert step["method"] == "reverse_sms"
    client.sandbox.send_sms(from_="+990123456700", to=step["receiver_phone_number"], body=step["expected_sms_body"])
    receiver.wait(1)
    found = client.verifications.get(verification_id)
    assert (found["status"], found["match"], found["method"]) == ("COMPLETED", True, "reverse_sms")
    assert resend(client.verifications, verification_id)["verification_id"] == verification_id
    receiver.wait(2)


def test_verification_with_a_code_of_the_app(client: Ringtrue) -> None:
    created = client.verifications.create(phone_number="+990123456700", reference_id=new_reference())
    assert created["next_step"]["method"] == "secure_sna"
    end = open_on_phone(created["next_step"]["url"])
    assert client.verifications.redeem_code(created["verification_id"], end["code"])["match"] is True
    search = field("reference_id").eq(created["reference_id"])
    assert [item["verification_id"] for item in client.verifications.list(search)] == [created["verification_id"]]


def test_cancel_can_be_repeated(client: Ringtrue) -> None:
    created = client.verifications.create(phone_number="+990123456700")
    cancelled = client.verifications.cancel(created["verification_id"])
    assert (cancelled["status"], cancelled["error_code"]) == ("ERROR", "cancelled")
    assert client.verifications.cancel(created["verification_id"]) == cancelled


def test_next_without_a_method_is_repeatable(client: Ringtrue) -> None:
    created = client.verifications.create(phone_number="+990123456700")
    first = client.verifications.next(created["verification_id"], idempotency_key="next-" + new_reference())
    assert first["next_step"]["method"] == "reverse_sms"


def test_idempotency_key_of_the_caller(client: Ringtrue) -> None:
    key = new_reference()
    first = client.reverse_sms.create(phone_number="+990123456700", idempotency_key=key)
    assert client.reverse_sms.create(phone_number="+990123456700", idempotency_key=key) == first
    with pytest.raises(ApiError) as raised:
        client.reverse_sms.create(phone_number="+990123456702", idempotency_key=key)
    assert (raised.value.status, raised.value.error_code) == (422, "idempotency_key_reused")


def test_error_has_what_the_service_says(client: Ringtrue) -> None:
    with pytest.raises(ApiError) as raised:
        client.verifications.create(phone_number="12345")
    error = raised.value
    assert (error.status, error.error_code) == (400, "phone_number_invalid")
    assert error.title
    assert error.detail
    assert error.request_id
    assert error.detail in str(error)
    assert error.request_id in str(error)
    assert "12345" not in str(error).replace(error.request_id, "")
    with pytest.raises(NotFoundError):
        client.reverse_sms.get(UNKNOWN_ID)


@pytest.mark.parametrize("invalid", ["", ".", "..", "../../oauth2/token", "a/b", "a?b", "a#b"])
def test_ids_stay_within_their_part_of_the_path(client: Ringtrue, invalid: str) -> None:
    with pytest.raises((ValueError, ApiError)) as raised:
        client.reverse_sms.get(invalid)
    if isinstance(raised.value, ApiError):
        assert raised.value.status in (400, 404)
        assert raised.value.error_code in ("bad_request", "check_not_found", "not_found")


def test_iterator_reads_all_pages(client: Ringtrue) -> None:
    reference = new_reference()
    created = [
        client.reverse_sms.create(phone_number="+990123456700", reference_id=reference)["check_id"] for _ in range(7)
    ]
    pager = client.reverse_sms.list(field("reference_id").eq(reference), size=3)
    assert [item["check_id"] for item in pager] == created[::-1]
    page = pager.page(3)
    assert [item["check_id"] for item in page.items] == created[:1]
    assert (page.number, page.size, page.total_pages, page.total_elements) == (3, 3, 3, 7)
    assert pager.page(4).items == []
    assert list(client.reverse_sms.list(field("reference_id").eq("none of them"))) == []


def test_management_of_projects(manager: Ringtrue, service: Service) -> None:
    management, workspace_id = manager.management, service.workspace_id
    workspace = management.workspaces.get(workspace_id)
    assert [item["workspace_id"] for item in management.workspaces.list()] == [workspace_id]
    assert management.workspaces.update(workspace_id, name=workspace["name"])["name"] == workspace["name"]

    name = f"Shop {new_reference()}"
    project = management.projects.create(
        workspace_id, name=name, products=["verification", "reverse_sms", "secure_sna"]
    )
    project_id = project["project_id"]
    assert project["credentials"][0]["client_secret"]
    assert management.projects.get(workspace_id, project_id)["name"] == name
    assert [item["project_id"] for item in management.projects.list(workspace_id, field("name").eq(name))] == [
        project_id
    ]
    updated = management.projects.update(
        workspace_id, project_id, configuration={"verification": {"ttl": 300, "brand": {"name": "Shop"}}}
    )
    assert updated["configuration"]["verification"]["ttl"] == 300
    updated = management.projects.update(workspace_id, project_id, configuration={"verification": {"ttl": None}})
    assert updated["configuration"]["verification"] == {"brand": {"name": "Shop"}}

    replaced = management.allowed_networks.replace(
        workspace_id, project_id, [{"network_id": "*", "products": ["reverse_sms"]}]
    )
    assert management.allowed_networks.get(workspace_id, project_id) == replaced
    assert replaced["networks"] == [{"network_id": "*", "products": ["reverse_sms"]}]


def test_project_goes_live_by_force(manager: Ringtrue, service: Service) -> None:
    projects, workspace_id = manager.management.projects, service.workspace_id
    project = projects.create(
        workspace_id, name=f"Live {new_reference()}", configuration={"callbacks": {"retry_for": 3600}}
    )
    assert project["configuration"]["callbacks"]["retry_for"] == 3600
    with pytest.raises(ApiError) as raised:
        projects.update(workspace_id, project["project_id"], mode="live")
    assert (raised.value.status, raised.value.error_code) == (409, "project_not_ready")
    updated = projects.update(
        workspace_id, project["project_id"], force=True, mode="live", configuration={"callbacks": {"retry_for": None}}
    )
    assert updated["mode"] == "live"
    assert updated["credentials"][0]["client_secret"]
    assert updated["configuration"]["callbacks"] == {}


def test_callbacks_are_listed(client: Ringtrue, manager: Ringtrue, service: Service) -> None:
    callbacks, workspace_id, project_id = manager.management.callbacks, service.workspace_id, service.project_id
    with Stub(lambda _: response(503, connection="close")) as receiver:
        ids = set()
        for number in ("+990123456710", "+990123456712", "+990123456714"):
            check = client.reverse_sms.create(phone_number=number, callback_url=f"{receiver.url}/callbacks")
            client.sandbox.send_sms(from_=number, to=check["receiver_phone_number"], body=check["expected_sms_body"])
            ids.add(check["check_id"])
        host = receiver.url.partition("://")[2]

        failed = callbacks.list(
            workspace_id, project_id, state="retrying", product="reverse_sms", receiver=host, size=2
        )
        wait_until(lambda: failed.page().total_elements == len(ids), "all callbacks have failed once")
        deliveries = list(failed)
    # From two pages.
    assert {item["check_id"] for item in deliveries} == ids
    for item in deliveries:
        assert (item["state"], item["last_result"], item["receiver"]) == ("waiting", "503", host)
        assert item["attempts"] >= 1
        assert item["next_attempt_at"] > item["last_attempt_at"]
    assert list(callbacks.list(workspace_id, project_id, product="verification", receiver=host)) == []


def test_management_of_credentials(manager: Ringtrue, clients: Clients, service: Service) -> None:
    management, workspace_id, project_id = manager.management, service.workspace_id, service.project_id
    expires_at = (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()
    created = management.project_credentials.create(
        workspace_id, project_id, scopes=["reverse_sms"], expires_at=expires_at
    )
    client_id = created["client_id"]
    assert management.project_credentials.get(workspace_id, project_id, client_id)["scopes"] == ["reverse_sms"]
    assert client_id in [item["client_id"] for item in management.project_credentials.list(workspace_id, project_id)]
    client = clients(**{**service.credential(), "client_id": client_id, "client_secret": created["client_secret"]})
    check = client.reverse_sms.create(phone_number="+990123456700")
    management.project_credentials.delete(workspace_id, project_id, client_id)
    # The token has ended with its credential, and there is no other.
    with pytest.raises(AuthenticationError) as raised:
        client.reverse_sms.get(check["check_id"])
    assert raised.value.status == 401
    assert created["client_secret"] not in f"{raised.value} {raised.value!r}"

    of_workspace = management.workspace_credentials.create(workspace_id)
    other_id = of_workspace["client_id"]
    assert management.workspace_credentials.get(workspace_id, other_id)["scopes"] == ["management"]
    assert other_id in [item["client_id"] for item in management.workspace_credentials.list(workspace_id)]
    management.workspace_credentials.delete(workspace_id, other_id)
    with pytest.raises(NotFoundError):
        management.workspace_credentials.delete(workspace_id, other_id)


def test_usage_and_logs(manager: Ringtrue, client: Ringtrue, service: Service) -> None:
    management, workspace_id, project_id = manager.management, service.workspace_id, service.project_id
    client.sim_swap.create(phone_number="+990123456700")
    since = datetime.now(timezone.utc) - timedelta(days=2)

    def count() -> int:
        usage = management.usage(workspace_id, from_=since, group_by="hour", project_id=project_id)
        return sum(row["count"] for row in usage["content"] if row["product"] == "sim_swap")

    wait_until(lambda: count() > 0, "usage is counted")
    with pytest.raises(ValueError, match="time zone"):
        management.usage(workspace_id, from_=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ApiError) as raised:
        client.verifications.create(phone_number="12345")

    def logged() -> list[str]:
        requests = management.requests.list(workspace_id, project_id, request_id=raised.value.request_id)
        return [item.get("error_code", "") for item in requests]

    wait_until(lambda: logged() == ["phone_number_invalid"], "the request is logged")
    assert all(item["status"] >= 400 for item in management.requests.list(workspace_id, project_id, status="4xx"))
    assert next(iter(management.audit_events(workspace_id)))["event_id"]
    page = management.networks(size=5).page()
    assert len(page.items) <= 5
    assert page.total_elements == len(list(management.networks()))
    assert all(item["country_code"] == "GB" for item in management.networks(country_code="GB"))


def test_product_credential_cannot_manage(client: Ringtrue) -> None:
    with pytest.raises(ApiError) as raised:
        list(client.management.workspaces.list())
    assert raised.value.error_code == "invalid_scope"
